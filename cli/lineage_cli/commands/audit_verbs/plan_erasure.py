"""`smoke-lineage audit plan-erasure`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.cases import case_options, four_eyes_option
from lineage_cli.options import home_options
from lineage_cli.planning import out_option, print_document, progress_options, with_audit
from lineage_cli.subjects import subject_options

if TYPE_CHECKING:
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.settings import IndexOptions
    from lineage_service.subjects.subject_arguments import Subject


@click.command("plan-erasure")
@subject_options
@out_option("plan")
@click.option("--rewrite-sources", is_flag=True, help="Also take the rows out of the source files themselves.")
@click.option("--drop-runs", is_flag=True, help="Remove runs as a whole that have no lineage to trace rows by.")
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
    telling: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Find out what erasing a person would do (GDPR Art. 17): in every dataset of every run that is held the
    rows to delete, to compute anew, to insert and to retain, and what is out of reach. Nothing is changed.

    The plan holds names, counts and keyed hashes; it is bound to the versions it was made from, and sealed.
    `audit apply` carries it out.

    \b
    Examples:
      smoke-lineage audit plan-erasure --subject customer=42 --out plan.json
      smoke-lineage audit plan-erasure --subject - --out plan.json --request 2026-117 --four-eyes
    """
    from lineage_cli.plans import plan_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.plan_erasure(
            subjects, rewrite_sources=rewrite_sources, drop_runs=drop_runs, most=len(subjects), four_eyes=four_eyes,
            case=case, out=out, options=spark, progress=progress,
        )  # fmt: skip

    plan = with_audit(home, catalog, telling, work)
    print_document(plan, plan_lines(plan), as_json=as_json)
