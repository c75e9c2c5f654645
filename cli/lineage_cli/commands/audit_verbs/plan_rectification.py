"""`smoke-lineage audit plan-rectification`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.cases import case_options, four_eyes_option
from lineage_cli.options import Assignment, home_options
from lineage_cli.planning import out_option, print_document, progress_options, with_audit
from lineage_cli.subjects import subject_options

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
    help="The right value of a column, in every source that has it; repeatable.",
)
@out_option("plan")
@click.option("--drop-runs", is_flag=True, help="Remove runs as a whole that have no lineage to trace rows by.")
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
    telling: dict[str, bool],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Find out what correcting a person's values would do (GDPR Art. 16): the same plan as for an erasure,
    with values changed instead of rows removed. The new values stay in the home; the plan names the columns.

    \b
    Example:
      smoke-lineage audit plan-rectification --subject customer=42 --set city=Ulm --out plan.json
    """
    if not assigned:
        raise click.UsageError("Say what is to be corrected: --set COLUMN=VALUE.")
    from lineage_cli.plans import plan_lines

    def work(audit: Any, progress: Any) -> Any:
        return audit.plan_rectification(
            subjects, dict(assigned), drop_runs=drop_runs, most=len(subjects), four_eyes=four_eyes, case=case, out=out,
            options=spark, progress=progress,
        )  # fmt: skip

    plan = with_audit(home, catalog, telling, work)
    print_document(plan, plan_lines(plan), as_json=as_json)
