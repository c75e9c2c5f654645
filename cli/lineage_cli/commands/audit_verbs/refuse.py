"""`smoke-lineage audit refuse`."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime

import click

from lineage_cli import options
from lineage_cli.cases import actor_option, received_option, verified_by_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options

KINDS = ("access", "erasure", "rectification")  # as cases.py has them, which --help must not load


@click.command("refuse")
@click.argument("reference", metavar="REF")
@click.option("--reason", required=True, metavar="TEXT", help="Why: the person must be told (Art. 12(4)).")
@click.option("--kind", type=click.Choice(KINDS), help="What was asked for, where no verb has opened the case yet.")
@received_option
@verified_by_option
@actor_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    reference: str,
    reason: str,
    kind: str | None,
    received: datetime | None,
    verified_by: str | None,
    actor: str | None,
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Refuse a case, with the reason. Nothing is answered, planned or applied for it any more.

    The reason goes into the log: write none of the person's data into it.

    \b
    Example:
      smoke-lineage audit refuse DSR-2026-17 --reason "identity could not be verified" --kind erasure
    """
    from lineage_cli.sink import print_text
    from lineage_service.audit.cases.case_lifecycle import CaseOptions

    case = CaseOptions(reference, None if received is None else received.date(), verified_by, actor)
    with closing(options.open_home(home, catalog)) as opened:
        result = opened.audit.refuse(reference, reason, kind=kind, case=case)
    told = f"refused case {result.case.reference}"
    print_text(json.dumps(result.to_json(), ensure_ascii=False) if as_json else told)
    for note in result.notes:
        tell(f"note: {note}")
