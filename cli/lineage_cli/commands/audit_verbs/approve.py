"""`smoke-lineage audit approve`."""

from __future__ import annotations

from contextlib import closing

import click

from lineage_cli import options
from lineage_cli.case_options import actor_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options


@click.command("approve")
@click.argument("plan", metavar="PLAN.json|REF")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@actor_option
@home_options
def command(plan: str, as_json: bool, actor: str | None, home: str | None, catalog: str | None) -> None:
    """Approve the plan of a case. Name the plan's file or the reference of the case.

    The approval is valid for this plan only. If the plan was made with --four-eyes, the approver must be another
    operating system user than the planner, and must give another --actor name if both give one.

    \b
    Example:
      smoke-lineage audit approve plan.json --actor "Ada Byron"
    """
    from lineage_cli.output_stream import print_text
    from lineage_service.render.json.documents import case_document

    with closing(options.open_home(home, catalog)) as opened:
        result = opened.audit.approve(plan, actor=actor)
    case = result.case
    text = f"approved plan {case.plan_id} of case {case.reference}"
    print_text(case_document(result) if as_json else text)
    for note in result.notes:
        tell(f"note: {note}")
