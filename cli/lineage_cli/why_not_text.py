"""The answer of `why-not` as text: a summary, a table of steps, and the rows that arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lineage_cli.tables import Column, write_table
from lineage_service.render.safe_text import escape_line
from lineage_service.render.value_text import MASK, NULL

if TYPE_CHECKING:
    from lineage_cli.output_stream import OutputStream
    from lineage_service.why_not.why_not_result import ReasonCount, StepLoss, WhyNot

SHOWN = 5  # default number of row ids per line of the table, and of rows that arrive


def write_losses(answer: WhyNot, stream: OutputStream, *, terminal: bool, limit: int | None = None) -> None:
    """Writes the answer, with at most `limit` row ids of each reason, and rows that arrive."""
    shown = SHOWN if limit is None else limit
    stream.write_text(f"{_summary(answer)}\n")
    several = any(step.ended != step.lost for step in answer.steps)
    if answer.steps:
        stream.write_text("\n")
        columns = [Column("step"), Column("operation"), Column("input"), Column("rows in", right=True)]
        if several:
            columns.append(Column("end here", right=True))
        columns += [Column("lost", right=True), Column("why"), Column("rows", right=True), Column("row ids")]
        rows = [row for step in answer.steps for row in _rows(step, shown, several=several)]
        write_table(columns, rows, stream, terminal=terminal)
    lines = [*_examples(answer, shown), *_arrivals(answer, shown)]
    if lines:
        stream.write_text("\n" + "".join(f"{line}\n" for line in lines))


def _summary(answer: WhyNot) -> str:
    missing = answer.asked - answer.reached
    text = f"{_row_count(answer.asked)} of {answer.source}: {answer.reached:,} in {answer.to}, {missing:,} not"
    if answer.peers:
        text += f" ({answer.peers:,} of these only as peers in a window)"
    return text


def _row_count(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _rows(step: StepLoss, shown: int, *, several: bool) -> Iterator[tuple[str | None, ...]]:
    came = "?" if step.rows_in is None else f"{step.rows_in:,}"
    counts = [came, *([f"{step.ended:,}"] if several else []), f"{step.lost:,}"]
    first = [step.step, step.operation, step.input, *counts]
    if not step.reasons:
        yield (*first, "", "", "")
    for number, reason in enumerate(step.reasons):
        own = first if number == 0 else [""] * len(first)
        yield (*own, reason.text, f"{reason.rows:,}", _ids(reason, shown))


def _ids(reason: ReasonCount, shown: int) -> str:
    ids = ", ".join(map(str, reason.rids[:shown]))
    more = reason.rows - min(len(reason.rids), shown)
    return f"{ids} and {more:,} more" if more and ids else ids


def _examples(answer: WhyNot, shown: int) -> Iterator[str]:
    """Yields the groups and the ranks of rows that were dropped."""
    for step in answer.steps:
        printed: set[str] = set()
        for reason in step.reasons:
            for each in reason.examples:
                line = _example(step, each)
                if line not in printed and len(printed) < shown:
                    printed.add(line)
                    yield line


def _example(step: StepLoss, example: dict[str, Any]) -> str:
    if "rank" in example:
        return f"row {example['rid']} is number {example['rank']:,} in the order of '{step.step}'"
    masked = example.get("masked", ())
    group, values = (
        ", ".join(f"{name} = {MASK if name in masked else _value(value)}" for name, value in example[part].items())
        for part in ("group", "values")
    )
    text = f"row {example['rid']} is in the group {group or 'of all rows'} of '{step.step}'"
    return f"{text}, which has {values}" if values else text


def _value(value: Any) -> str:
    from lineage_service.render.json_values import to_json_value

    plain = to_json_value(value)
    return NULL if plain is None else escape_line(str(plain))


def _arrivals(answer: WhyNot, shown: int) -> Iterator[str]:
    where = f" (merged at '{answer.merging[0]}')" if len(answer.merging) == 1 else ""
    for each in answer.arrivals[:shown]:
        into = ", ".join(map(str, each.into[:shown]))
        more = each.more + max(0, len(each.into) - shown)
        rows = "rows" if len(each.into) > 1 or more else "row"
        others = (
            f", together with {_row_count(each.others).replace(' row', ' other row')}{where}" if each.others else ""
        )
        yield f"row {each.rid} is in {rows} {into}{f' and {more:,} more' if more else ''} of {answer.to}{others}"
    left = answer.reached - min(len(answer.arrivals), shown)
    if left and answer.arrivals:
        yield f"… and {left:,} more that arrive"
