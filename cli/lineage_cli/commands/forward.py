"""`smoke-lineage forward`, also called `downstream`."""

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
from lineage_cli.target_options import TargetOptions, target_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("forward")
@click.argument("source", metavar="SOURCE")
@start_options(required=True)
@target_options
@row_options
@reveal_option
@unchanged_option
@output_options
@home_options
def command(
    source: str,
    start: Start,
    target: TargetOptions,
    limit: int | None,
    columns: list[str] | None,
    order_by: list[str] | None,
    reveal: bool,
    unchanged: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show the rows of a dataset that depend on rows of SOURCE.

    Without --to, print how many rows of each dataset depend on them. If --rid, --key and --where
    are combined, a row must match all of them.

    \b
    Examples:
      smoke-lineage forward customer --key c_custkey=42 --to totals
      smoke-lineage forward customer --rid 7 --to all --count
    """
    target.check(columns, order_by)
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home

    def question(opened: Home) -> Answer:
        return opened.forward(
            source,
            **start.arguments(),
            **target.arguments(),
            limit=target.limit(output, limit),
            columns=columns,
            order_by=order_by,
            reveal=reveal,
            unchanged=unchanged,
        )

    with ask_home(home, catalog, question) as answer:
        write_answer(answer, output)
        target.note_unused_limit(limit)
