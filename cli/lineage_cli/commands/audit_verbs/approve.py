"""`smoke-lineage audit approve`."""

from __future__ import annotations

import json
from contextlib import closing

import click

from lineage_cli import options
from lineage_cli.cases import actor_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options


@click.command("approve")
@click.argument("plan", metavar="PLAN.json|REF")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@actor_option
@home_options
def command(plan: str, as_json: bool, actor: str | None, home: str | None, catalog: str | None) -> None:
    """Approve the plan of a case, by the plan's file or the case's reference.

    The approval holds for just this plan. Where it was planned with --four-eyes, another user of the operating
    system than the planner has to approve, and under another name where both claim one.

    \b
    Example:
      smoke-lineage audit approve plan.json --actor "Ada Byron"
    """
    from lineage_cli.sink import print_text

    with closing(options.open_home(home, catalog)) as opened:
        result = opened.audit.approve(plan, actor=actor)
    case = result.case
    told = f"approved plan {case.plan_id} of case {case.reference}"
    print_text(json.dumps(result.to_json(), ensure_ascii=False) if as_json else told)
    for note in result.notes:
        tell(f"note: {note}")
