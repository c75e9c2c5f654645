"""Checks on the rows of steps and outputs. They do not change the data. Failing rows are written as a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.expressions import Expression, with_stars_expanded
from lineage_service.spark.capture_columns import CaptureColumnNames, col, comparable
from lineage_service.spark.faults import analysing, executing
from lineage_service.spark.parquet_types import unwritable_reason
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import RunWriter
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenOutput, BrokenStep
from lineage_service.spec.step_models import CheckSpec

NAMED = 10  # so many failing rows are named


@dataclass(frozen=True)
class RowCheck:
    """A check of the workflow file: the step whose rows it checks, and the name under which it is declared (an output's
    or the step's).
    """

    target: str
    step: str
    spec: CheckSpec
    position: Position

    @property
    def label(self) -> str:
        if self.spec.not_null is not None:
            return f"not_null({', '.join(self.spec.not_null)})"
        if self.spec.unique is not None:
            return f"unique({', '.join(self.spec.unique)})"
        return f"where({self.spec.where})"


@dataclass(frozen=True)
class FailedCheck:
    """A check that some rows fail. `rids` are ids of the checked dataset, or of the dataset of failing rows if the
    checked rows are no dataset.
    """

    check: RowCheck
    count: int
    failing: str
    rids: tuple[int, ...]


def declared_checks(loaded: LoadedWorkflow) -> Iterator[RowCheck]:
    for name, output in loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            for index, check in enumerate(output.checks):
                yield RowCheck(name, output.step or name, check, loaded.marks.at("outputs", name, "checks", index))
    for number, step in enumerate(loaded.spec.steps):
        if not isinstance(step, BrokenStep):
            for index, check in enumerate(step.checks):
                yield RowCheck(step.name, step.name, check, loaded.marks.at("steps", number, "checks", index))


def analyse_checks(checks: Sequence[RowCheck], relations: Mapping[str, Relation], names: CaptureColumnNames) -> None:
    """Raises WorkflowError, before anything is written, for checks that Spark's analyser rejects."""
    problems: list[Problem] = []
    for check in checks:
        if check.step in relations:
            try:
                with analysing(check.position, f"check {check.label} of '{check.target}'"):
                    _ = _failing_rows(check.spec, relations[check.step], names.copies).schema
            except WorkflowError as error:
                problems += error.problems
    if problems:
        raise WorkflowError(problems)


def run_checks(
    checks: Sequence[RowCheck],
    relations: Mapping[str, Relation],
    writing: RunWriter,
    names: CaptureColumnNames,
    taken: set[str],
) -> list[FailedCheck]:
    """The failed checks. Failing rows are written as one dataset per target, under a name that is not `taken`."""
    failed: dict[str, list[tuple[RowCheck, DataFrame, int]]] = {}
    for check in checks:
        if check.step not in relations:
            continue
        relation = relations[check.step]
        with executing(check.position, f"check {check.label} of '{check.target}'", writing.folder.home.path):
            count = _count(check.spec, relation)
        if count:
            rows = _failing_rows(check.spec, relation, names.copies)
            failed.setdefault(check.target, []).append((check, rows, count))
    taken = {*taken, *relations}
    return [
        each
        for target, found in failed.items()
        for each in _write_failing_rows(target, found, relations, writing, names, taken)
    ]


def count_failing(check: CheckSpec, relation: Relation, home: Path) -> int:
    """The number of rows that fail a check."""
    with executing(None, "counting rows that fail a check", home):
        return _count(check, relation)


def _write_failing_rows(
    target: str,
    found: list[tuple[RowCheck, DataFrame, int]],
    relations: Mapping[str, Relation],
    writing: RunWriter,
    names: CaptureColumnNames,
    taken: set[str],
) -> Iterator[FailedCheck]:
    """Writes the failing rows of one target, each with its failed check, and yields the checks with some row ids."""
    first = found[0][0]
    relation = relations[first.step]
    failing = _unused_name(f"{target}_failing", taken)
    column = _unused_name("_check", {name.lower() for name in relation.columns})
    once = {check.label: rows for check, rows, _ in found}  # the same check may be asked twice, of unlike severity
    marked = [
        rows.select(
            *_writable(rows, relation.columns),
            F.lit(label).alias(column),
            *map(col, names.handles(relation.handles)),
        )
        for label, rows in once.items()
    ]
    union = marked[0]
    for other in marked[1:]:
        union = union.unionByName(other)
    written = writing.write_failing_rows(
        failing, first.step, Relation(union, (*relation.columns, column), relation.handles), first.position
    )
    for check, _, count in found:
        ids = written.filter(col(column) == check.label).select(names.row).orderBy(names.row).limit(NAMED).collect()
        yield FailedCheck(check, count, failing, tuple(int(row[0]) for row in ids))


def _writable(rows: DataFrame, columns: Sequence[str]) -> list[Column]:
    """The columns, with those that Parquet cannot store as text, so that a check does not fail because of a type."""
    kinds = [rows.schema[name].dataType for name in columns]
    return [
        col(name).cast("string").alias(name) if unwritable_reason(kind) else col(name)
        for name, kind in zip(columns, kinds, strict=True)
    ]


def _unused_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    return free


def _count(check: CheckSpec, relation: Relation) -> int:
    """The number of failing rows. Duplicates are counted by groups, which is cheaper than finding them."""
    if check.unique is None:
        return _failing_rows(check, relation, None).count()
    frame, keys = _rows_with_key(check.unique, relation)
    named = [key.alias(f"k{index}") for index, key in enumerate(keys)]
    groups = frame.select(*named).groupBy(*[f"k{index}" for index in range(len(keys))])
    repeated = groups.agg(F.count(F.lit(1)).alias("n")).filter("n > 1")
    found = repeated.agg(F.sum("n")).first()
    return int(found[0] or 0) if found else 0


def _failing_rows(check: CheckSpec, relation: Relation, copies: str | None) -> DataFrame:
    """The rows that fail. As in SQL, a predicate that is null does not fail, and null is not equal to null.

    `copies` is the name of a temporary column that the rows do not have.
    """
    frame = relation.frame
    if check.not_null is not None:
        missing = F.lit(False)
        for name in check.not_null:
            missing = missing | col(name).isNull()
        return frame.filter(missing)
    if check.unique is not None and copies is not None:
        frame, keys = _rows_with_key(check.unique, relation)
        counted = frame.withColumn(copies, F.count(F.lit(1)).over(Window.partitionBy(*keys)))
        return counted.filter(col(copies) > 1).drop(copies)
    text = with_stars_expanded(Expression(str(check.where)), relation.columns)
    return frame.filter(~F.expr(text))


def _rows_with_key(names: Sequence[str], relation: Relation) -> tuple[DataFrame, list[Column]]:
    """The rows whose key is not null, and the key's columns in a form that can be grouped."""
    frame = relation.frame
    for name in names:
        frame = frame.filter(col(name).isNotNull())
    types = [field.dataType for field in frame.select(*map(col, names)).schema.fields]
    return frame, [comparable(col(name), kind) for name, kind in zip(names, types, strict=True)]
