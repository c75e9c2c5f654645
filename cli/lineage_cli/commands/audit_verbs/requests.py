"""`smoke-lineage audit requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("requests")
@click.option("--all", "all_", is_flag=True, help="Also list closed cases: done or refused.")
@limit_option
@output_options
@home_options
def command(all_: bool, limit: int | None, output: Output, home: str | None, catalog: str | None) -> None:
    """List open cases by due date, which is a month after the request was received. `days_left` is negative if
    a case is overdue.

    A case is opened by --request REF of the verbs that answer requests. The list shows who verified the identity,
    who planned and who approved, the reason of a refusal, and the recipients who must be notified of an erasure or
    a correction (Art. 19).

    \b
    Example:
      smoke-lineage audit requests --all --format csv
    """
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home
    from lineage_cli.listings import CASES, fit_listing

    def question(opened: Home) -> Answer:
        return opened.audit.requests(all=all_, limit=output.limit(limit))

    with ask_home(home, catalog, question) as answer:
        write_answer(fit_listing(answer, CASES, output), output)
