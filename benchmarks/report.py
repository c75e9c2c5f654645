"""Results as tables: for the screen, and by `python -m benchmarks.report FILE.json…` as Markdown for the README."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.bars import DECLARED, Verdict, verdicts
from benchmarks.results import Result, by_case, load

Column = tuple[str, Callable[[Result], str]]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _per_pair(result: Result) -> str:
    whole = _number(result.bytes_per_pair, ".2f")
    if result.bytes_per_pair_backward is None:
        return whole
    return f"{whole} ({result.bytes_per_pair_backward:.2f} + {_number(result.bytes_per_pair_forward, '.2f')})"


def _spread(result: Result) -> str:
    return f"{min(result.total_s_all):.2f}–{max(result.total_s_all):.2f}" if result.total_s_all else ""


CAPTURE: Sequence[Column] = (
    ("technique", lambda each: each.technique),
    ("ratio", lambda each: _number(each.ratio, ".2f")),
    ("critical", lambda each: _number(each.critical_ratio, ".2f")),
    ("seconds", lambda each: _number(each.total_s, ".2f")),
    ("from–to", _spread),
    ("fixed", lambda each: _number(each.fixed_s or None, ".2f")),
    ("pairs", lambda each: _number(each.pairs or None, ",")),
    ("bytes a pair (backward + forward)", _per_pair),
    ("capture s", lambda each: _number(each.capture_s if each.experiment in DECLARED else None, ".2f")),
    ("bytes", lambda each: _number(each.bytes if each.experiment in ("prune", "pushdown") else None, ",")),
    ("MB", lambda each: _number(each.peak_rss_mb, ",.0f")),
    ("by", lambda each: each.strategy or ""),
    ("note", lambda each: each.note or ""),
)
LOOKUP: Sequence[Column] = (
    ("technique", lambda each: each.technique),
    ("p50 ms", lambda each: _number(each.p50_ms, ",.2f")),
    ("p95 ms", lambda each: _number(each.p95_ms, ",.2f")),
    ("to the better", lambda each: _number(each.ratio, ".2f")),
    ("rows", lambda each: _number(each.rows, ",")),
    ("bytes a pair (backward + forward)", _per_pair),
    ("note", lambda each: each.note or ""),
)
LEFT = ("technique", "by", "note")  # columns of words


def tables(results: Sequence[Result]) -> Iterator[tuple[str, list[list[str]]]]:
    """Per case a title and a table, its head first; columns without any value are left out."""
    for (experiment, label), group in by_case(results).items():
        asked = any(each.p50_ms is not None for each in group)
        columns = LOOKUP if asked or experiment == "lookup" else CAPTURE
        body = [[cell(each) for _, cell in columns] for each in group]
        kept = [number for number in range(len(columns)) if any(row[number] for row in body)]
        table = [[columns[number][0] for number in kept], *([row[number] for number in kept] for row in body)]
        base = next((each.base_s for each in group if each.technique == "Baseline"), None)
        yield f"{experiment} {label}" + (f" (plain query: {base:.2f} s)" if base is not None else ""), table


def text(results: Sequence[Result]) -> str:
    """What is shown after an experiment: a table per case, then what was held and what was not."""
    parts = []
    for title, table in tables(results):
        widths = [max(len(row[number]) for row in table) for number in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if name in LEFT else cell.rjust(width)
                for name, cell, width in zip(table[0], row, widths, strict=True)
            ).rstrip()
            for row in table
        ]
        parts.append("\n".join([title, *lines]))
    judged = [str(verdict) for verdict in verdicts(results)]
    return "\n\n".join([*parts, *(["\n".join(judged)] if judged else [])])


def markdown(results: Sequence[Result]) -> str:
    """The same for a page."""
    parts = []
    for title, table in tables(results):
        head, *body = ([cell.replace("|", "\\|") for cell in row] for row in table)
        rule = ["---" if name in LEFT else "---:" for name in head]
        parts.append("\n".join([f"**{title}**", "", *(f"| {' | '.join(row)} |" for row in (head, rule, *body))]))
    judged = verdicts(results)
    if judged:
        rows = [
            f"| {each.result.experiment} {each.result.case} | {each.result.technique} | {each.what} "
            f"| {_number(each.value, '.3g')} | {each.bar:g} | {_word(each)} |"
            for each in judged
        ]
        head = ["| case | technique | what | value | bar | |", "| --- | --- | --- | ---: | ---: | --- |"]
        parts.append("\n".join(["**Bars**", "", *head, *rows]))
    return "\n\n".join(parts)


def _word(verdict: Verdict) -> str:
    return "holds" if verdict.holds else "aim missed" if verdict.aim else "**fails**"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    print(markdown([result for file in parser.parse_args().files for result in load(file)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
