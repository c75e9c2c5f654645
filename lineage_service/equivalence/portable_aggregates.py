"""Aggregates that both engines compute with the same value and type, translated into DuckDB's SQL.

These are count, min, max, sum and avg of one value that both compute alike (portable_values.py); decimals and
floating-point numbers may also be rounded to a few places. Sums of floating-point numbers may differ in their last
bits, as they may between two runs of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineage_service.equivalence.comparable_types import MOST_DIGITS, WHOLE, ComparableType
from lineage_service.equivalence.merged_measures import average_sql, sum_type
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.portable_values import ValueTranslator
from lineage_service.plan.expressions import Expression
from lineage_service.plan.mergeable_measures import NotMergeable, parse_measure

_BIGINT = ComparableType("whole", WHOLE["bigint"])
_DOUBLE = ComparableType("double")
_MOST_PLACES = 6  # behind the point that a rounded measure may have


@dataclass(frozen=True)
class PortableAggregate:
    """An aggregate in DuckDB's SQL, its type as far as known, and Spark's name of the type if that is certain."""

    sql: str
    kind: ComparableType
    spark_type: str | None = None


def translate_measure(expression: Expression, translator: ValueTranslator) -> PortableAggregate:
    """A measure: an aggregate, or a rounded one. Raises NotTranslatable for any other."""
    from sqlglot import exp

    tree, text = expression.tree, expression.text.strip()
    if not isinstance(tree, exp.Round) or not text.lower().startswith("round("):
        return _translate_aggregate(text, translator)
    digits = tree.args.get("decimals")
    places = int(digits.name) if isinstance(digits, exp.Literal) and digits.name.isdigit() else 0
    if (digits is not None and not isinstance(digits, exp.Literal)) or places > _MOST_PLACES:
        raise NotTranslatable
    inside = text[len("round(") : -1]
    found = _translate_aggregate(inside if digits is None else inside.rpartition(",")[0], translator)
    if found.kind.family == "decimal":
        kind = ComparableType("decimal", found.kind.whole + 1, places)
        return PortableAggregate(f"round({found.sql}, {places})", kind)
    if found.kind.family != "double":
        raise NotTranslatable
    # Spark rounds the number as it is written down, half away from zero.
    written = f"CAST(CAST({found.sql} AS VARCHAR) AS DECIMAL(38,24))"
    return PortableAggregate(f"CAST(round({written}, {places}) AS DOUBLE)", found.kind, found.spark_type)


def _translate_aggregate(text: str, translator: ValueTranslator) -> PortableAggregate:
    try:
        measure = parse_measure("", text)
    except NotMergeable:
        raise NotTranslatable from None
    if measure.argument is None:
        return PortableAggregate("CAST(count(*) AS BIGINT)", _BIGINT, "bigint")
    value, kind = translator.translate_value(Expression(measure.argument))
    match measure.function:
        case "count":
            if measure.distinct and kind.family in ("double", "float"):
                raise NotTranslatable
            counted = f"DISTINCT {value}" if measure.distinct else value
            return PortableAggregate(f"CAST(count({counted}) AS BIGINT)", _BIGINT, "bigint")
        case "min" | "max":
            return PortableAggregate(f"{measure.function}({value})", kind)
        case "sum":
            return _sum(value, kind)
        case _:
            return _average(value, kind)


def _sum(value: str, kind: ComparableType) -> PortableAggregate:
    match kind.family:
        case "whole":
            return PortableAggregate(f"CAST(sum({value}) AS BIGINT)", _BIGINT, "bigint")
        case "decimal":
            digits = min(MOST_DIGITS, kind.whole + kind.scale + 10)
            after = ComparableType("decimal", digits - kind.scale, kind.scale)
            return PortableAggregate(f"CAST(sum({value}) AS {sum_type(_decimal_name(kind))})", after)
        case "double" | "float":
            return PortableAggregate(f"sum(CAST({value} AS DOUBLE))", _DOUBLE, "double")
        case _:
            raise NotTranslatable


def _average(value: str, kind: ComparableType) -> PortableAggregate:
    match kind.family:
        case "decimal":
            text = average_sql(f"sum({value})", f"CAST(count({value}) AS BIGINT)", _decimal_name(kind))
            return PortableAggregate(text, ComparableType("decimal", kind.whole, kind.scale + 4))
        case "whole" | "double" | "float":
            # As Spark does it: each number as a floating-point one, then their sum.
            return PortableAggregate(f"(sum(CAST({value} AS DOUBLE)) / nullif(count({value}), 0))", _DOUBLE, "double")
        case _:
            raise NotTranslatable


def _decimal_name(kind: ComparableType) -> str:
    return f"DECIMAL({kind.whole + kind.scale},{kind.scale})"
