"""`smoke-lineage rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import (
    Output,
    Start,
    home_options,
    output_options,
    reveal_option,
    row_options,
    start_options,
    unchanged_option,
)

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("rows")
@click.argument("dataset", metavar="DATASET")
@start_options(required=False)
@row_options
@reveal_option
@unchanged_option
@output_options
@home_options
def command(
    dataset: str,
    start: Start,
    limit: int | None,
    columns: list[str] | None,
    order_by: list[str] | None,
    reveal: bool,
    unchanged: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show rows of DATASET with their row ids, `_rid`.

    DATASET is NAME or WORKFLOW.NAME, of the latest run; append @RUN for another run.
    If --rid, --key and --where are combined, a row must match all of them.

    \b
    Examples:
      smoke-lineage rows totals --where "revenue > 1000" --order-by "revenue desc"
      smoke-lineage rows revenue.totals@3f2a --rid 0 --rid 7 --json
    """
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home

    def question(opened: Home) -> Answer:
        return opened.rows(
            dataset,
            **start.arguments(),
            limit=output.limit(limit),
            columns=columns,
            order_by=order_by,
            reveal=reveal,
            unchanged=unchanged,
        )

    with ask_home(home, catalog, question) as answer:
        write_answer(answer, output)
