"""`smoke-lineage audit plan-rectification`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.audit_tasks import out_option, print_document, progress_options, run_audit_task
from lineage_cli.case_options import case_options, four_eyes_option
from lineage_cli.options import Assignment, home_options
from lineage_cli.subject_options import subject_options

if TYPE_CHECKING:
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.settings import IndexOptions
    from lineage_service.subjects.subject_arguments import Subject


@click.command("plan-rectification")
@subject_options
@click.option(
    "--set",
    "assigned",
    type=Assignment(),
    multiple=True,
    metavar="COLUMN=VALUE",
    help="The correct value of a column, in every source that has this column; repeatable.",
)
@out_option("plan")
@click.option(
    "--drop-runs", is_flag=True, help="Remove entire runs that have no lineage by which rows could be traced."
)
@four_eyes_option
@case_options
@progress_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan.")
@home_options
def command(
    subjects: list[Subject],
    assigned: tuple[tuple[str, str], ...],
    out: Path | None,
    drop_runs: bool,
    four_eyes: bool,
    case: CaseOptions,
    spark: IndexOptions,
    progress_settings: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Plan a correction of a person's data (GDPR Art. 16): the same plan as for an erasure, but values are
    changed instead of rows removed. The plan names the columns; the new values are kept in the home.

    \b
    Example:
      smoke-lineage audit plan-rectification --subject customer=42 --set city=Ulm --out plan.json
    """
    if not assigned:
        raise click.UsageError("Give the values to correct: --set COLUMN=VALUE.")
    from lineage_cli.erasure_text import plan_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.plan_rectification(
            subjects, dict(assigned), drop_runs=drop_runs, most=len(subjects), four_eyes=four_eyes, case=case, out=out,
            options=spark, progress=progress,
        )  # fmt: skip

    plan = run_audit_task(home, catalog, progress_settings, work)
    print_document(plan, plan_lines(plan), as_json=as_json)
