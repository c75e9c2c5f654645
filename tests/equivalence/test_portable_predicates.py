"""Predicates that DuckDB may evaluate in Spark's place, and those that only Spark may."""

from __future__ import annotations

import pytest

from lineage_service.equivalence.comparable_types import comparable_type
from lineage_service.equivalence.portable_predicates import PortableColumn, translate_predicate
from lineage_service.plan.expressions import Expression

TYPES = {"i": "bigint", "d": "decimal(15,2)", "w": "decimal(38,20)", "s": "string", "t": "date", "b": "boolean"}


def resolve(parts):
    return PortableColumn(0, parts[0], comparable_type(TYPES[parts[0]])) if parts[0] in TYPES else None


@pytest.mark.parametrize(
    "text",
    ["i = 3", "i <> -3 AND s = 'its'", "t < DATE '1998-12-01'", "i IN (1, 2) OR NOT b", "d >= 0.05 AND d < 7",
     "t >= '1998-12-01'", "s IS NOT NULL", "i BETWEEN 1 AND 3", "i <=> 3", "(i = 1)", "s = s"],
)  # fmt: skip
def test_predicates_that_duckdb_may_evaluate(text):
    assert translate_predicate(Expression(text), resolve) is not None


@pytest.mark.parametrize(
    ("text", "day"),
    [("DATE '1998-12-01' - INTERVAL '90' DAY", "1998-09-02"), ("DATE '1993-10-31' + INTERVAL 1 MONTH", "1993-11-30"),
     ("DATE '2024-02-29' + INTERVAL '1' YEAR", "2025-02-28"), ("DATE '2024-01-31' - INTERVAL 2 MONTHS", "2023-11-30")],
)  # fmt: skip
def test_days_that_are_spelled_out_are_what_spark_makes_of_them(spark, text, day):
    assert translate_predicate(Expression(f"t < {text}"), resolve) == f"(t0.\"t\" < DATE '{day}')"
    assert str(spark.sql(f"SELECT CAST({text} AS STRING)").first()[0]).startswith(day)


@pytest.mark.parametrize(
    "text",
    ["i + 1 = 3", "s = 3", "t < '1998-2-1'", "t < '1998-02-31'", "lower(s) = 'a'", "s LIKE 'a%'", "x = 1", "i = 1e3", "i / 2 = 1",
     r"s = 'a\tb'", "i = 99999999999999999999", "s IN ('a', NULL)", "cast(s as int) = 3", "t = DATE '98-1-1'", "i", "w = i", "w > 0.000000000000000000001", "i IN (1, w)"],
)  # fmt: skip
def test_predicates_that_only_spark_may_evaluate(text):
    assert translate_predicate(Expression(text), resolve) is None
