"""Aggregates in DuckDB's SQL: the values and types that Spark gives them, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest

from lineage_service.equivalence.comparable_types import ComparableType, comparable_type
from lineage_service.equivalence.portable_aggregates import PortableAggregate, translate_measure
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.portable_values import ValueTranslator
from lineage_service.plan.expressions import Expression

TYPES = {"i": "int", "d": "decimal(10,2)", "s": "string", "t": "date"}
ROWS = (
    "(VALUES (1, 0.05::DECIMAL(10,2), 0.5::DOUBLE), (2, 0.10, 1.5), (NULL, NULL, NULL), (2, -0.20, 0.625)) t(i, d, f)"
)


def resolve(parts: tuple[str, ...]) -> tuple[str, ComparableType]:
    (name,) = parts
    kind = ComparableType("double") if name == "f" else comparable_type(TYPES[name])
    assert kind is not None
    return f't."{name}"', kind


def translate(text: str):
    return translate_measure(Expression(text), ValueTranslator(resolve))


def spark_type(found: PortableAggregate) -> str | None:
    """Spark's type of an aggregate, as far as its translation tells it."""
    if found.kind.family == "decimal":
        return f"decimal({found.kind.whole + found.kind.scale},{found.kind.scale})"
    return found.spark_type


VALUES = [
    ("count(*)", 4, "bigint"), ("count(i)", 3, "bigint"), ("count(distinct i)", 2, "bigint"), ("sum(i)", 5, "bigint"),
    ("sum(i * 2 + 1)", 13, "bigint"), ("avg(i)", 5 / 3, "double"), ("max(i)", 2, None), ("sum(d)", Decimal("-0.05"), None),
    ("avg(d)", Decimal("-0.016667"), None), ("min(d)", Decimal("-0.20"), None), ("sum(f)", 2.625, "double"),
    ("round(avg(d), 2)", Decimal("-0.02"), None), ("round(sum(f), 2)", 2.63, "double"),
    ("round(avg(f), 3)", 0.875, "double"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "spark_type"), VALUES)
def test_values_and_types(text, value, spark_type):
    found = translate(text)
    ((computed,),) = duckdb.sql(f"SELECT {found.sql} FROM {ROWS}").fetchall()
    assert (computed, type(computed)) == (value, type(value))
    assert found.spark_type == spark_type


def test_spark_gives_the_same_values_and_types(spark):
    rows = ROWS.replace("0.05::DECIMAL(10,2)", "CAST(0.05 AS DECIMAL(10,2))").replace("0.5::DOUBLE", "0.5D")
    frame = spark.sql(f"SELECT {', '.join(text for text, _, _ in VALUES)} FROM {rows}")
    assert list(frame.first()) == [value for _, value, _ in VALUES]
    types = {text: each.dataType.simpleString() for (text, *_), each in zip(VALUES, frame.schema.fields, strict=True)}
    assert {text: spark_type(translate(text)) or types[text] for text, _, _ in VALUES} == types


@pytest.mark.parametrize("text", ["sum(i)", "avg(d)", "avg(f)", "sum(d)", "max(i)"])
def test_no_rows_give_null(text):
    assert duckdb.sql(f"SELECT {translate(text).sql} FROM {ROWS} WHERE false").fetchall() == [(None,)]


@pytest.mark.parametrize(
    "text",
    ["sum(s)", "avg(t)", "sum(distinct i)", "count(distinct f)", "first(i)", "sum(i) + 1", "round(sum(i), 2)",
     "round(avg(f), 7)", "round(sum(d), i)", "sum(lower(s))", "bround(avg(f), 1)", "stddev(f)"],
)  # fmt: skip
def test_aggregates_that_only_spark_may_compute(text):
    with pytest.raises(NotTranslatable):
        translate(text)
