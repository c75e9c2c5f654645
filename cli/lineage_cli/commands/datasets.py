"""`smoke-lineage datasets`."""

from __future__ import annotations

from contextlib import closing

import click

from lineage_cli import options
from lineage_cli.options import Output, home_options, limit_option, output_options


@click.command("datasets")
@click.option("--run", metavar="RUN", help="Only datasets of this run: its id, or the start of it.")
@limit_option
@output_options
@home_options
def command(run: str | None, limit: int | None, output: Output, home: str | None, catalog: str | None) -> None:
    """List the datasets that the catalog holds: sources, outputs and kept steps.

    \b
    Example:
      smoke-lineage datasets --run 3f2a
    """
    from lineage_cli.output import write_answer

    with closing(options.open_home(home, catalog)) as opened:
        write_answer(opened.datasets(run=run, limit=output.limit(limit)), output)
