"""`smoke-lineage what-if`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import (
    Output,
    Start,
    as_mapping,
    home_options,
    output_options,
    reveal_option,
    session_options,
    start_options,
)

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("what-if")
@click.option("--without", metavar="SOURCE", required=True, help="The source whose rows are left out.")
@start_options(required=True)
@click.option("--on", metavar="OUTPUT", multiple=True, required=True, help="The output to look at; repeatable.")
@session_options
@reveal_option
@output_options
@home_options
def command(
    without: str,
    start: Start,
    on: tuple[str, ...],
    master: str | None,
    remote: str | None,
    conf: tuple[tuple[str, str], ...],
    reveal: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show rows of OUTPUT that would change, appear or vanish if these rows of SOURCE were not there: their
    values before and after. Nothing is changed. OUTPUT may be another workflow's: then each workflow on
    the way is computed in turn, over what it has read. Where DuckDB computes the same as Spark, Spark
    is not started; where it has to be, that is told.

    \b
    Examples:
      smoke-lineage what-if --without flights --where "carrier = 'UA'" --on by_day
      smoke-lineage what-if --without orders --rid 17 --on totals --json
      smoke-lineage what-if --without revenue.orders --rid 17 --on report.quarters
    """
    from lineage_cli.home_question import ask_home
    from lineage_cli.output import write_answer

    def question(opened: Home) -> Answer:
        return opened.what_if(
            without=without,
            on=list(on),
            **start.arguments(),
            reveal=reveal,
            master=master,
            remote=remote,
            conf=as_mapping(conf),
            progress=opened.progress,
        )

    with ask_home(home, catalog, question, "computing") as answer:
        write_answer(answer, output)
