"""`smoke-lineage datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


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
    from lineage_cli.asking import answered
    from lineage_cli.listings import DATASETS, fitted
    from lineage_cli.output import write_answer

    def question(opened: Home) -> Answer:
        return opened.datasets(run=run, limit=output.limit(limit))

    with answered(home, catalog, question) as answer:
        write_answer(fitted(answer, DATASETS, output), output)
