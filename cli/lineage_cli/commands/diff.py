"""`smoke-lineage diff`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import click

from lineage_cli.messages import tell
from lineage_cli.options import (
    TERMINAL_LIMIT,
    Assignment,
    Output,
    Tolerance,
    WholeNumber,
    home_options,
    output_options,
    reveal_option,
    split_names,
)

if TYPE_CHECKING:
    from lineage_cli.sink import Sink
    from lineage_service.home import Home
    from lineage_service.query.diff.diff_result import Diff

BLOCK = 100  # changes written at a time


@click.command("diff")
@click.argument("before", metavar="DATASET[@RUN]")
@click.argument("after", metavar="[DATASET[@RUN]]", required=False)
@click.option("--key", multiple=True, metavar="A,B", help="Columns that identify a row; repeatable. [default: found]")
@click.option(
    "--source-key",
    type=Assignment(),
    multiple=True,
    metavar="SOURCE=A,B",
    help="Columns that identify a row of SOURCE; repeatable. [default: found]",
)
@click.option("--rows", type=WholeNumber(), default=3, show_default=True, help="Rows shown per source.")
@click.option("--behind/--no-behind", default=True, help="Show the source rows behind each change. [default: yes]")
@click.option(
    "--limit",
    type=WholeNumber(),
    help=f"At most N changes. [default: {TERMINAL_LIMIT} for tables on a terminal, else no limit]",
)
@click.option(
    "--tolerance",
    type=Tolerance(),
    default=1e-9,
    help="Doubles that differ by no more than this, relative to the larger one, are equal; 0: exact. [default: 1e-9]",
)
@reveal_option
@output_options
@home_options
def command(
    before: str,
    after: str | None,
    key: tuple[str, ...],
    source_key: tuple[tuple[str, str], ...],
    rows: int,
    behind: bool,
    limit: int | None,
    tolerance: float,
    reveal: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show what changed between two runs of a dataset, and the source rows behind each change.

    Rows are matched by --key; without it, by the columns of a `unique` check, by what the
    rows are grouped by, or by the leftmost column that is never null and never twice the same.
    With one DATASET@RUN, that run is compared with the latest; with DATASET alone, the previous
    run with the latest. csv, ndjson and parquet hold one row per change, without what is behind.
    A sum of doubles depends in its last digits on the order of its rows: within --tolerance
    they are equal, and a note says how many rows that concerns. Keys are compared exactly.

    \b
    Examples:
      smoke-lineage diff totals
      smoke-lineage diff totals@3f2a totals@9c01 --key order_id --limit 10
      smoke-lineage diff totals --source-key lineitem=l_orderkey,l_linenumber --json
    """
    keys = {source: tuple(split_names(columns)) for source, columns in _merge_source_keys(source_key)}
    if keys and not behind:
        raise click.UsageError("--source-key says how to look behind the changes: it does not go with --no-behind.")
    flat = output.format in ("csv", "ndjson", "parquet")
    from lineage_cli.home_question import ask_home

    def question(opened: Home) -> Diff:
        return opened.diff(
            before,
            after,
            key=[name for text in key for name in split_names(text)] or None,
            source_key=keys or None,
            limit=output.limit(limit),
            rows=rows,
            behind=behind and not flat,
            reveal=reveal,
            tolerance=tolerance,
        )

    with ask_home(home, catalog, question, "comparing") as found:
        if flat:
            from lineage_cli.output import write_answer

            write_answer(found.answer(), output)
        else:
            _write(found, output)
            if output.out is not None:
                tell(f"wrote {_change_count(found.rows.lines.num_rows)} to {output.out}")
            if found.remaining:
                tell(f"… and {_change_count(found.remaining, ' more')}; use --limit to see more")
    for note in found.notes:
        tell(f"note: {note}")


def _change_count(number: int, more: str = "") -> str:
    return f"{number:,}{more} {'change' if number == 1 else 'changes'}"


def _merge_source_keys(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A source that is named twice has the columns of both."""
    found: dict[str, str] = {}
    for source, columns in pairs:
        found[source] = f"{found[source]},{columns}" if source in found else columns
    return list(found.items())


def _write(found: Diff, output: Output) -> None:
    from contextlib import nullcontext

    from lineage_cli.progress import waiting_line
    from lineage_cli.sink import open_sink

    patience = waiting_line(f"writing {output.out}") if output.out is not None else nullcontext()
    with patience, open_sink(output.out) as sink:
        if output.format == "json":
            from lineage_cli.diff_json import write_changes

            write_changes(found, sink)
        else:
            _write_text(found, output, sink)


def _write_text(found: Diff, output: Output, sink: Sink) -> None:
    from lineage_cli.diff_text import changes_text
    from lineage_cli.tables import in_colour

    person = output.on_terminal
    width = shutil.get_terminal_size().columns if person else None
    encoding = (sys.stdout.encoding or "utf-8") if person else "utf-8"
    texts = changes_text(found, width=width, colour=person and in_colour())
    while block := "".join(islice(texts, BLOCK)):
        sink.write(block.encode(encoding, errors="replace"))
