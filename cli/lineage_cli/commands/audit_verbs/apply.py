"""`smoke-lineage audit apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.cases import actor_option
from lineage_cli.options import home_options
from lineage_cli.planning import out_option, print_document, progress_options, with_audit

if TYPE_CHECKING:
    from lineage_service.settings import IndexOptions


@click.command("apply")
@click.argument("plan", metavar="PLAN.json", type=click.Path(path_type=Path))
@out_option("certificate")
@actor_option
@progress_options
@click.option("--json", "as_json", is_flag=True, help="Print the certificate.")
@home_options
def command(
    plan: Path,
    out: Path | None,
    actor: str | None,
    spark: IndexOptions,
    telling: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Carry out a plan: just that, or nothing. Refused where a version has moved since, or the plan was changed.

    Runs are made anew and switched in one transaction; the old ones are superseded. Then published copies are
    replaced, old files removed, and the catalog written anew. Where it was interrupted, the same command finishes
    it. The certificate says first what it does not cover.

    \b
    Example:
      smoke-lineage audit apply plan.json --out certificate.json
    """
    from lineage_cli.plans import certificate_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.apply(plan, out=out, actor=actor, options=spark, progress=progress)

    try:
        certificate = with_audit(home, catalog, telling, work)
    except KeyboardInterrupt:
        from lineage_service.errors import RunError

        # Whether the runs were switched already is for the same command to find out.
        raise RunError(
            "interrupted; the plan may have been carried out in part",
            hint="the same command finishes it, or begins again where nothing was changed yet",
        ) from None
    print_document(certificate, certificate_lines(certificate), as_json=as_json)
