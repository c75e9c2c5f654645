"""`smoke-lineage audit requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("requests")
@click.option("--all", "all_", is_flag=True, help="Closed ones too: done, refused.")
@limit_option
@output_options
@home_options
def command(all_: bool, limit: int | None, output: Output, home: str | None, catalog: str | None) -> None:
    """List open cases by due date: a month after the request came. `days_left` is below 0 where one is overdue.

    A case is opened by --request REF on the verbs that answer it. Listed with it: who verified the identity, who
    planned and who approved, the reason of a refusal, and the recipients who must be told of an erasure or a
    correction (Art. 19).

    \b
    Example:
      smoke-lineage audit requests --all --format csv
    """
    from lineage_cli.home_question import ask_home
    from lineage_cli.listings import CASES, fit_listing
    from lineage_cli.output import write_answer

    def question(opened: Home) -> Answer:
        return opened.audit.requests(all=all_, limit=output.limit(limit))

    with ask_home(home, catalog, question) as answer:
        write_answer(fit_listing(answer, CASES, output), output)
