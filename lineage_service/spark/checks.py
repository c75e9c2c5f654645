"""Checks on the rows of steps and outputs. They never change the data; a failed error check stops the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.errors import Position, Problem, RunError
from lineage_service.plan.expressions import Expression, with_stars_expanded
from lineage_service.spark.columns import col
from lineage_service.spark.relation import Relation
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenOutput, BrokenStep, CheckSpec


def run_checks(loaded: LoadedWorkflow, relations: Mapping[str, Relation]) -> list[Problem]:
    """Warnings of failed `warn` checks; RunError with every failed `error` check. Counts are told, values are not."""
    failed: list[Problem] = []
    for step, check, position in _checks(loaded):
        if step in relations and (count := _failing(check, relations[step])):
            severity: Literal["error", "warning"] = "warning" if check.severity == "warn" else "error"
            failed.append(
                Problem(f"check {_told(check)} of '{step}' fails for {count} rows", position, severity=severity)
            )
    if any(problem.severity == "error" for problem in failed):
        raise RunError(failed)
    return failed


def _checks(loaded: LoadedWorkflow) -> Iterator[tuple[str, CheckSpec, Position]]:
    for name, output in loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            for index, check in enumerate(output.checks):
                yield output.step or name, check, loaded.marks.at("outputs", name, "checks", index)
    for number, step in enumerate(loaded.spec.steps):
        if not isinstance(step, BrokenStep):
            for index, check in enumerate(step.checks):
                yield step.name, check, loaded.marks.at("steps", number, "checks", index)


def _failing(check: CheckSpec, relation: Relation) -> int:
    """How many rows fail. As in SQL, a predicate that is null does not fail, and null is not equal to null."""
    frame = relation.frame
    if check.not_null is not None:
        missing = F.lit(False)
        for name in check.not_null:
            missing = missing | col(name).isNull()
        return frame.filter(missing).count()
    if check.unique is not None:
        keys = frame.select(*[col(name).alias(f"k{index}") for index, name in enumerate(check.unique)])
        for name in keys.columns:
            keys = keys.filter(F.col(name).isNotNull())
        repeated = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias("n")).filter("n > 1")
        found = repeated.agg(F.sum("n")).first()
        return int(found[0] or 0) if found else 0
    text = with_stars_expanded(Expression(str(check.where)), relation.columns)
    return frame.filter(~F.expr(text)).count()


def _told(check: CheckSpec) -> str:
    if check.not_null is not None:
        return f"not_null({', '.join(check.not_null)})"
    if check.unique is not None:
        return f"unique({', '.join(check.unique)})"
    return f"where({check.where})"
