"""`smoke-lineage audit apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.audit_tasks import out_option, print_document, progress_options, run_audit_task
from lineage_cli.case_options import actor_option
from lineage_cli.options import home_options

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
    progress_settings: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Carry out a plan exactly as it is, or not at all. The plan is refused if it was changed, or if a dataset
    has changed since it was made.

    Each run concerned is replaced by a new one, all in one transaction. Then published copies are replaced, old
    files are removed, and the catalog is compacted. If this is interrupted, the same command finishes it. The
    certificate begins with what it does not cover.

    \b
    Example:
      smoke-lineage audit apply plan.json --out certificate.json
    """
    from lineage_cli.erasure_text import certificate_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.apply(plan, out=out, actor=actor, options=spark, progress=progress)

    try:
        certificate = run_audit_task(home, catalog, progress_settings, work)
    except KeyboardInterrupt:
        from lineage_service.errors import RunError

        # The same command finds out whether the runs were replaced already.
        raise RunError(
            "interrupted; part of the plan may have been carried out",
            hint="run the same command again: it finishes the plan, or starts over if nothing was changed yet",
        ) from None
    print_document(certificate, certificate_lines(certificate), as_json=as_json)
