"""`smoke-lineage trace`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import Assignment, Rid, WholeNumber, chosen_format, file_or_none, home_options, reveal_option

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.trace.trace_result import Trace

FORMATS = ("text", "json", "html")
SUFFIXES = {".json": "json", ".html": "html", ".htm": "html"}


@click.command("trace")
@click.argument("dataset", metavar="DATASET")
@click.option("--rid", type=Rid(), help="The record's row id.")
@click.option(
    "--key", type=Assignment(), multiple=True, metavar="COLUMN=VALUE", help="The record whose COLUMN has this VALUE."
)
@click.option("--where", metavar="PREDICATE", help="The record for which this holds; DuckDB SQL.")
@click.option("--depth", type=WholeNumber(), help="At most N datasets away. [default: no limit]")
@click.option("--rows", type=WholeNumber(), default=3, show_default=True, help="Rows shown of each dataset.")
@reveal_option
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Format. [default: by the suffix of --out, else text]"
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path, readable=False), help="Write to this file.")
@home_options
def command(
    dataset: str,
    rid: int | None,
    key: tuple[tuple[str, str], ...],
    where: str | None,
    depth: int | None,
    rows: int,
    reveal: bool,
    format_: str | None,
    as_json: bool,
    out: Path | None,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show the complete lineage of one record of DATASET as a tree: the rows it was made from,
    down to file and row of the sources, and everything that was made from it, across workflows.

    Of each dataset, some rows are shown and all are counted. A dashed line leads to datasets that
    influenced the record only by the absence of a match.

    \b
    Examples:
      smoke-lineage trace totals --key order_id=7
      smoke-lineage trace customer --key c_custkey=42 --depth 1
      smoke-lineage trace totals --rid 0 --out trace.html
    """
    out = file_or_none(out)
    chosen = chosen_format(format_, as_json, out, SUFFIXES, FORMATS)
    if rid is None and not key and where is None:
        raise click.UsageError("Say which record to trace: --rid, --key or --where.")
    from lineage_cli.home_question import ask_home
    from lineage_cli.output_stream import open_output

    def question(opened: Home) -> Trace:
        return opened.trace(dataset, rid=rid, key=key, where=where, depth=depth, rows=rows, reveal=reveal)

    with ask_home(home, catalog, question, "tracing") as trace, open_output(out) as stream:
        stream.write_text(_text(trace, chosen, on_terminal=out is None and options.is_terminal(sys.stdout)))
    if out is not None:
        tell(f"wrote {out}")
    for note in trace.notes:
        tell(f"note: {note}")


def _text(trace: Trace, format_: str, *, on_terminal: bool) -> str:
    if format_ == "json":
        from lineage_service.render.json.documents import trace_document

        return trace_document(trace)
    if format_ == "html":
        from lineage_service.render.html.trace_page import trace_page

        return trace_page(trace)
    from lineage_cli.trace_tree import trace_tree
    from lineage_cli.tree_drawing import draw_tree, prints_guides

    width = shutil.get_terminal_size().columns if on_terminal else None
    plain = not prints_guides(sys.stdout.encoding)
    return "".join(f"{line}\n" for line in draw_tree(trace_tree(trace, width), width, ascii=plain))
