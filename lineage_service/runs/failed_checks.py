"""Describes failed checks: the failing rows and the commands that explain them. Shows row ids, no values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lineage_service.errors import Problem, join_names
from lineage_service.plan.build import Plan
from lineage_service.settings import command
from lineage_service.store.layout import RunFolder

if TYPE_CHECKING:
    from lineage_service.spark.checks import FailedCheck, RowCheck

SHORT = 8  # characters of a run's id that identify it


def failed_checks(failed: Sequence[FailedCheck], plan: Plan, folder: RunFolder, *, traced: bool) -> list[Problem]:
    """A problem per failed check. Rows of outputs and kept steps are identified by their own ids."""
    return [_problem(each, plan, folder, traced=traced) for each in failed]


def _dataset_of(check: RowCheck, plan: Plan) -> str | None:
    """The name of the dataset with the checked rows: the check's own, an output's, or the kept step's."""
    named = {**{step: step for step in plan.keep}, **plan.outputs}
    names = [name for name, step in named.items() if step == check.step]
    return check.target if check.target in names else next(iter(names), None)


def _problem(each: FailedCheck, plan: Plan, folder: RunFolder, *, traced: bool) -> Problem:
    check, run, workflow = each.check, folder.run_id[:SHORT], plan.workflow
    name = _dataset_of(check, plan) if traced else None
    dataset = f"{workflow}.{name or each.failing}@{run}"
    home, catalog = folder.home.path, folder.home.catalog
    rows = "1 row" if each.count == 1 else f"{each.count:,} rows"
    named = [str(rid) for rid in each.rids]
    more = f" and {each.count - len(named):,} more" if each.count > len(named) else ""
    rids = [word for rid in named for word in ("--rid", rid)]
    explain = command(home, "backward", dataset, *rids, "--to", "all", catalog=catalog) if traced else None
    show = command(home, "rows", f"{workflow}.{each.failing}@{run}", catalog=catalog)
    of = "" if name == check.target else f" of '{name or each.failing}'"
    severity: Literal["error", "warning"] = "warning" if check.spec.severity == "warn" else "error"
    return Problem(
        f"check {check.label} of '{check.target}' fails for {rows}: _rid {join_names(named)}{more}{of}",
        check.position,
        f"what made them: {explain}\n        all of them:    {show}" if explain else f"all of them: {show}",
        severity,
    )
