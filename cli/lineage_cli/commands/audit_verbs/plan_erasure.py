"""`smoke-lineage audit plan-erasure`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.audit_tasks import out_option, print_document, progress_options, run_audit_task
from lineage_cli.case_options import case_options, four_eyes_option
from lineage_cli.options import home_options
from lineage_cli.subject_options import subject_options

if TYPE_CHECKING:
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.settings import IndexOptions
    from lineage_service.subjects.subject_arguments import Subject


@click.command("plan-erasure")
@subject_options
@out_option("plan")
@click.option("--rewrite-sources", is_flag=True, help="Also delete the rows from the source files themselves.")
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
    out: Path | None,
    rewrite_sources: bool,
    drop_runs: bool,
    four_eyes: bool,
    case: CaseOptions,
    spark: IndexOptions,
    progress_settings: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Plan the erasure of a person (GDPR Art. 17): for every dataset of every run, the number of rows to delete,
    recompute, insert and retain, and what cannot be erased by this command. Nothing is changed.

    The plan contains names, counts and keyed hashes, no personal data. It is sealed, and valid only for the
    versions of the datasets that it was made from. `audit apply` carries it out.

    \b
    Examples:
      smoke-lineage audit plan-erasure --subject customer=42 --out plan.json
      smoke-lineage audit plan-erasure --subject - --out plan.json --request 2026-117 --four-eyes
    """
    from lineage_cli.erasure_text import plan_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.plan_erasure(
            subjects, rewrite_sources=rewrite_sources, drop_runs=drop_runs, most=len(subjects), four_eyes=four_eyes,
            case=case, out=out, options=spark, progress=progress,
        )  # fmt: skip

    plan = run_audit_task(home, catalog, progress_settings, work)
    print_document(plan, plan_lines(plan), as_json=as_json)
