"""`smoke-lineage query`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options, reveal_option

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


YEAR = 31_536_000  # seconds; the service refuses more


@click.command("query")
@click.argument("sql", metavar="SQL")
@click.option("--save", metavar="NAME", help="Save the rows as a dataset with this name, with lineage.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, max=YEAR, min_open=True),
    metavar="SECONDS",
    help="Stop the query after this time. [default: SMOKE_TIMEOUT, or 60]",
)
@click.option("--max-rows", type=click.IntRange(min=0), metavar="N", help="Return at most N rows. [default: 1000000]")
@limit_option
@reveal_option
@output_options
@home_options
def command(
    sql: str,
    save: str | None,
    timeout: float | None,
    max_rows: int | None,
    limit: int | None,
    reveal: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Answer SQL over datasets and their lineage; `-` reads it from standard input.

    The dialect is DuckDB's; only SELECT is allowed. Datasets are tables: NAME, WORKFLOW.NAME, "NAME@RUN". After
    FROM, the table functions backward('DATASET', 'SOURCE', START) and forward('SOURCE', 'DATASET', START) return
    the rows reached, and workload('NAME', START) returns what a workflow prepared. START is a predicate in single
    quotes, or a subquery with a column _rid. EXPLAIN shows the SQL that is run and how rows are found.

    \b
    Examples:
      smoke-lineage query "SELECT city, count(*) FROM backward('ranked', 'customers', 'place = 1') GROUP BY city"
      smoke-lineage query "FROM forward('flights', 'by_day', (FROM backward('by_carrier', 'flights', 'n > 9')))"
      smoke-lineage query --save big "SELECT city, count(*) AS n FROM customers GROUP BY city"
    """
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home

    text = sys.stdin.read() if sql == "-" else sql

    def question(opened: Home) -> Answer:
        return opened.query(
            text, save=save, limit=output.limit(limit), timeout=timeout, max_rows=max_rows, reveal=reveal
        )

    with ask_home(home, catalog, question, "asking") as answer:
        write_answer(answer, output)
