"""`smoke-lineage graph`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import as_mapping, chosen_format, file_or_none, home_options, source_option, var_option

if TYPE_CHECKING:
    from lineage_service.runs.workflow_graph import Picture

FORMATS = ("mermaid", "dot", "svg", "html")
MARKDOWN = (".md", ".markdown")
SUFFIXES = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    **dict.fromkeys(MARKDOWN, "mermaid"),
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
}


@click.command("graph")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path, readable=False))
@click.option("--all", "all_", is_flag=True, help="Draw everything in the catalog instead of one file.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Format. [default: by the suffix of --out, else mermaid]"
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Write to this file.",
)
@var_option
@source_option
@home_options
def command(
    file: Path | None,
    all_: bool,
    format_: str | None,
    out: Path | None,
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    home: str | None,
    catalog: str | None,
) -> None:
    """Draw a workflow: its sources, steps and outputs, with the rows of its last run. Spark is not started.

    With --all, draw the latest run of every workflow in the catalog. Workflows are linked if one reads the output
    of another, or if several read the same rows.

    \b
    Example:
      smoke-lineage graph revenue.yml --out revenue.svg
      smoke-lineage graph --all --out everything.html
    """
    if (file is None) != all_:
        raise click.UsageError("Give a workflow FILE, or --all for everything in the catalog, not both.")
    if all_ and (variables or sources):
        option = "--var" if variables else "--source"
        raise click.UsageError(f"{option} needs FILE: runs in the catalog already have their values.")
    out = file_or_none(out)
    format_ = chosen_format(format_, False, out, SUFFIXES, FORMATS)
    from lineage_cli.output_stream import open_output
    from lineage_service.render.picture_formats import picture_text

    picture = _picture(file, variables, sources, home, catalog)
    for warning in picture.warnings:
        tell(str(warning))
    for note in picture.notes:
        tell(f"note: {note}")
    with open_output(out) as stream:
        stream.write_text(picture_text(picture, format_, markdown=out is not None and out.suffix.lower() in MARKDOWN))
    if out is not None:
        tell(f"wrote {out}")


def _picture(
    file: Path | None,
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    home: str | None,
    catalog: str | None,
) -> Picture:
    if file is None:
        with closing(options.open_home(home, catalog)) as opened:
            return opened.graph()
    from lineage_cli.file_suggestions import suggest_close_file
    from lineage_service.runs.workflow_file import picture_of_workflow

    with suggest_close_file(file):
        return picture_of_workflow(file, vars=as_mapping(variables), home=home, catalog=catalog, sources=sources)
