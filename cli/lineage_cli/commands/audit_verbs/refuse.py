"""`smoke-lineage audit refuse`."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

import click

from lineage_cli import options
from lineage_cli.case_options import actor_option, received_option, verified_by_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options

KINDS = ("access", "erasure", "rectification")  # a copy, because --help must not import the audit package


@click.command("refuse")
@click.argument("reference", metavar="REF")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; the person must be told it (Art. 12(4)).")
@click.option("--kind", type=click.Choice(KINDS), help="What was requested; needed if the case was not opened before.")
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
    """Refuse a case, with the reason. After that, no verb answers, plans or applies anything for it.

    The reason is written to the log: do not include personal data.

    \b
    Example:
      smoke-lineage audit refuse DSR-2026-17 --reason "identity could not be verified" --kind erasure
    """
    from lineage_cli.output_stream import print_text
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.render.json.documents import case_document

    case = CaseOptions(reference, None if received is None else received.date(), verified_by, actor)
    with closing(options.open_home(home, catalog)) as opened:
        result = opened.audit.refuse(reference, reason, kind=kind, case=case)
    text = f"refused case {result.case.reference}"
    print_text(case_document(result) if as_json else text)
    for note in result.notes:
        tell(f"note: {note}")
