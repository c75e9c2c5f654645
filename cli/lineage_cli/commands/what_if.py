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
@click.option("--on", metavar="OUTPUT", multiple=True, required=True, help="The output to compute; repeatable.")
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
    """Show the rows of OUTPUT that would change, appear or disappear if these rows of SOURCE did not exist, with
    their values before and after. Nothing is changed. OUTPUT may belong to another workflow; then each workflow
    in between is computed in turn, over the data that it read. DuckDB computes the answer if its result is
    provably the same as Spark's. Otherwise Spark is started, and a note says so.

    \b
    Examples:
      smoke-lineage what-if --without flights --where "carrier = 'UA'" --on by_day
      smoke-lineage what-if --without orders --rid 17 --on totals --json
      smoke-lineage what-if --without revenue.orders --rid 17 --on report.quarters
    """
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home

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
