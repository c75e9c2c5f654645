"""Measures that DuckDB merges from partial results, with the value and the type that Spark would return."""

from __future__ import annotations

import re

from lineage_service.equivalence.comparable_types import MOST_DIGITS
from lineage_service.plan.mergeable_measures import MergeableMeasure

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def measure_sql(measure: MergeableMeasure, part: str, kind: str | None, *, one: bool) -> str:
    """SQL of a measure over partial results in a column. `one`: there is one partial result per group. `kind`: the type
    of its argument.
    """

    def total(name: str) -> str:
        return name if one else f"sum({name})"

    if measure.distinct:
        values = part if one else f"list_distinct(flatten(list({part})))"
        return f"CAST(coalesce(len({values}), 0) AS BIGINT)"
    match measure.function:
        case "count":
            return f"CAST(coalesce({total(part)}, 0) AS BIGINT)"
        case "sum":
            return f"CAST({total(part)} AS {sum_type(str(kind))})"
        case "avg":
            return average_sql(total(part), f"CAST({total(f'{part}_n')} AS BIGINT)", str(kind))
        case _:
            return part if one else f"{measure.function}({part})"


def sum_type(kind: str) -> str:
    """The type of Spark's sum."""
    if kind in WHOLE:
        return "BIGINT"
    digits = _decimal(kind)
    return f"DECIMAL({min(MOST_DIGITS, digits[0] + 10)},{digits[1]})" if digits else "DOUBLE"


def average_sql(total: str, count: str, kind: str) -> str:
    """Spark's average, from a sum and a count. `kind` is the type of the averaged values."""
    digits = _decimal(kind)
    if digits is None:
        return f"CAST({total} AS DOUBLE) / nullif({count}, 0)"
    precision, scale = min(MOST_DIGITS, digits[0] + 4), min(MOST_DIGITS, digits[1] + 4)
    # Spark keeps four more digits and rounds half away from zero. Computed digit by digit in integers, without loss.
    whole = f"CAST(replace(CAST(abs({total}) AS VARCHAR), '.', '') AS HUGEINT)"
    more = 10 ** (scale - digits[1])
    rest = f"(2 * ({whole} % {count}) * {more} + {count}) // (2 * {count})"
    value = f"(({whole} // {count}) * {more} + {rest})"
    unit = f"{10**scale}::HUGEINT"
    spelled = f"CAST({value} // {unit} AS VARCHAR) || '.' || lpad(CAST({value} % {unit} AS VARCHAR), {scale}, '0')"
    signed = f"CASE WHEN {total} < 0 THEN '-' ELSE '' END || {spelled}"
    return f"CASE WHEN {count} = 0 THEN NULL ELSE CAST({signed} AS DECIMAL({precision},{scale})) END"


def _decimal(kind: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None
