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
    from lineage_cli.output_stream import OutputStream
    from lineage_service.home import Home
    from lineage_service.query.diff.diff_result import Diff

BLOCK = 100  # changes written at a time


@click.command("diff")
@click.argument("before", metavar="DATASET[@RUN]")
@click.argument("after", metavar="[DATASET[@RUN]]", required=False)
@click.option(
    "--key", multiple=True, metavar="A,B", help="Columns that identify a row; repeatable. [default: detected]"
)
@click.option(
    "--source-key",
    type=Assignment(),
    multiple=True,
    metavar="SOURCE=A,B",
    help="Columns that identify a row of SOURCE; repeatable. [default: detected]",
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
    help="Largest relative difference at which two doubles count as equal; 0: exact. [default: 1e-9]",
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

    Rows are matched by --key; without it, by the columns of a `unique` check, by the grouping
    columns, or by the leftmost column that has no nulls and no duplicates. With one DATASET@RUN,
    that run is compared with the latest; with DATASET alone, the previous run with the latest.
    csv, ndjson and parquet hold one row per change, without the source rows behind it. The last
    digits of a sum of doubles depend on the order of its rows: values within --tolerance count
    as equal, and a note says how many rows that concerns. Keys are compared exactly.

    \b
    Examples:
      smoke-lineage diff totals
      smoke-lineage diff totals@3f2a totals@9c01 --key order_id --limit 10
      smoke-lineage diff totals --source-key lineitem=l_orderkey,l_linenumber --json
    """
    keys = {source: tuple(split_names(columns)) for source, columns in _merge_source_keys(source_key)}
    if keys and not behind:
        raise click.UsageError(
            "--source-key matches the rows behind the changes: it cannot be combined with --no-behind."
        )
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
            from lineage_cli.answer_output import write_answer

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
    """Merges the columns of a source that is named twice."""
    found: dict[str, str] = {}
    for source, columns in pairs:
        found[source] = f"{found[source]},{columns}" if source in found else columns
    return list(found.items())


def _write(diff: Diff, output: Output) -> None:
    from contextlib import nullcontext

    from lineage_cli.output_stream import open_output
    from lineage_cli.progress import waiting_line

    patience = waiting_line(f"writing {output.out}") if output.out is not None else nullcontext()
    with patience, open_output(output.out) as stream:
        if output.format == "json":
            from lineage_service.render.json.diff_document import diff_document

            for text in diff_document(diff):
                stream.write_text(text)
        else:
            _write_text(diff, output, stream)


def _write_text(diff: Diff, output: Output, stream: OutputStream) -> None:
    from lineage_cli.diff_text import changes_text
    from lineage_cli.tables import in_colour

    person = output.on_terminal
    width = shutil.get_terminal_size().columns if person else None
    encoding = (sys.stdout.encoding or "utf-8") if person else "utf-8"
    texts = changes_text(diff, width=width, colour=person and in_colour())
    while block := "".join(islice(texts, BLOCK)):
        stream.write(block.encode(encoding, errors="replace"))
