"""`smoke-lineage runs`."""

from __future__ import annotations

from contextlib import closing

import click

from lineage_cli import options
from lineage_cli.options import Output, home_options, limit_option, output_options


@click.command("runs")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option("--failed", is_flag=True, help="Runs that failed a check instead; gc removes them.")
@limit_option
@output_options
@home_options
def command(
    workflow: str | None, failed: bool, limit: int | None, output: Output, home: str | None, catalog: str | None
) -> None:
    """List the runs that the catalog holds.

    \b
    Example:
      smoke-lineage runs --workflow revenue --limit 5
    """
    from lineage_cli.output import write_answer

    with closing(options.open_home(home, catalog)) as opened:
        write_answer(opened.runs(workflow=workflow, failed=failed, limit=output.limit(limit)), output)
