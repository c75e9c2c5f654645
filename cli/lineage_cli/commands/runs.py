"""`smoke-lineage runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("runs")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option("--failed", is_flag=True, help="List runs that failed a check instead; gc removes them.")
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
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home
    from lineage_cli.listings import RUNS, fit_listing

    def question(opened: Home) -> Answer:
        return opened.runs(workflow=workflow, failed=failed, limit=output.limit(limit))

    with ask_home(home, catalog, question) as answer:
        write_answer(fit_listing(answer, RUNS, output), output)
