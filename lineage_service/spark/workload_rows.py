"""Rows of a dataset for a declared question: its expressions evaluated by Spark, each row with its id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from lineage_service.capture.handles import Space
from lineage_service.capture.workload import DeclaredQuestion, Workload
from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.faults import analysing
from lineage_service.spark.parquet_types import unwritable_reason
from lineage_service.spark.relation import Relation


def question_rows(
    question: DeclaredQuestion, relation: Relation, columns: Sequence[str], names: CaptureColumnNames
) -> DataFrame:
    """(id, c0, c1, …) of the rows that the question's predicate selects: `columns`, or its values."""
    frame = relation.frame
    if question.where is not None:
        frame = frame.where(F.expr(question.where))
    values: list[Column] = [col(name) for name in columns] or [F.expr(text) for text in question.values]
    shown = [value.alias(f"c{number}") for number, value in enumerate(values)]
    return frame.select(col(names.handle(0)).alias(names.group), *shown)


_PLAIN = (BooleanType, NumericType, DateType, TimestampType, TimestampNTZType, StringType, BinaryType)


def _preparation_problems(question: DeclaredQuestion, types: Mapping[str, DataType]) -> Iterator[str]:
    """Reasons why groups cannot be prepared: the engine that stores them compares and sums only plain values."""
    for name, text in question.keys:
        if question.kind == "groups" and not _is_plain(types[text]):
            yield f"'{name}' is {types[text].simpleString()}, which groups cannot be prepared by"
    for measure in question.measures:
        kind = None if measure.argument is None else types[measure.argument]
        if kind is None or (measure.function == "count" and not measure.distinct):
            continue
        if not _is_plain(kind) or (measure.function in ("sum", "avg") and not isinstance(kind, NumericType)):
            yield f"measure '{measure.name}' is over {kind.simpleString()}, which cannot be prepared; cast it"


def _is_plain(kind: DataType) -> bool:
    return isinstance(kind, _PLAIN) and "collate" not in kind.simpleString()


def analyse_workload(
    workload: Workload, relations: Mapping[Space, Relation], names: CaptureColumnNames, at: Mapping[str, Position]
) -> None:
    """Raises WorkflowError, before anything is written, for declared questions that Spark's analyser rejects."""
    problems: list[Problem] = []
    for question in workload.prepared_questions:
        relation = relations.get(question.far[0])
        if relation is None or not relation.handles:
            continue
        what = f"workload '{question.name}'"
        try:
            with analysing(at.get(question.name), what):
                schema = question_rows(question, relation, (), names).schema
                measures = [F.expr(each.text).alias(f"m{n}") for n, each in enumerate(question.measures)]
                if measures:
                    _ = relation.frame.agg(*measures).schema
            reasons = [reason for each in schema.fields if (reason := unwritable_reason(each.dataType))]
            reasons += _preparation_problems(question, {text: each.dataType for text, each in zip(
                question.values, schema.fields[1:], strict=True)})  # fmt: skip
            problems += [Problem(f"{what}: {reason}", at.get(question.name)) for reason in reasons]
        except WorkflowError as error:
            problems += error.problems
    if problems:
        raise WorkflowError(problems)
