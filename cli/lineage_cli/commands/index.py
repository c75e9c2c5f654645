"""`smoke-lineage index`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.options import as_mapping, home_options, spark_options

if TYPE_CHECKING:
    from lineage_service.runs.run_report import RunReport


@click.command("index")
@click.argument("run", metavar="[RUN]", required=False)
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with the reports of the runs.")
@click.option(
    "--verbose", is_flag=True, help="Print a line for each stage (rows, bytes, seconds), also without a terminal."
)
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@home_options
def command(
    run: str | None,
    master: str | None,
    remote: str | None,
    conf: tuple[tuple[str, str], ...],
    index_engine: str,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Finish lineage that was deferred, interrupted, or could not be captured: for RUN (an id or a unique
    prefix), or for all runs whose lineage is incomplete. Spark is started only if needed. Also finishes the
    publication of copies by a run that was killed.

    \b
    Example:
      smoke-lineage index 3f2a --index-engine spark
    """
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other.")
    if master and remote:
        raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
    from lineage_cli.progress import progress_line, sigterm_as_interrupt

    with (
        sigterm_as_interrupt(),
        closing(options.open_home(home, catalog)) as opened,
        progress_line(verbose=verbose, quiet=quiet) as progress,
    ):
        reports = opened.index(
            run, master=master, remote=remote, conf=as_mapping(conf), index_engine=index_engine, progress=progress
        )
    _print(reports, as_json=as_json)


def _print(reports: Sequence[RunReport], *, as_json: bool) -> None:
    from lineage_cli.output_stream import open_output
    from lineage_cli.tables import Column, write_table

    with open_output() as stream:
        if as_json:
            from lineage_service.render.json.documents import index_document

            stream.write_text(index_document(reports))
            return
        if not reports:
            stream.write_text("nothing to do: all lineage is complete\n")
            return
        columns = [Column("run"), Column("output"), Column("source"), Column("capture"), Column("pairs", right=True)]
        write_table(columns, list(_rows([report.to_json() for report in reports])), stream, terminal=False)


def _rows(reports: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str | None]]:
    for report in reports:
        for output, sources in report["capture"].items():
            for source, facts in sources.items():
                pairs = facts.get("pairs")
                yield report["run_id"], output, source, facts["strategy"], "-" if pairs is None else f"{pairs:,}"
