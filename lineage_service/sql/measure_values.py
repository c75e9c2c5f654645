"""Measures from their parts, with the value and the type that Spark gives them. Pure SQL of DuckDB."""

from __future__ import annotations

import re

from lineage_service.plan.mergeable_measures import MergeableMeasure

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
MOST_DIGITS = 38


def measure_sql(measure: MergeableMeasure, part: str, kind: str | None, *, one: bool) -> str:
    """A measure over the parts in a column; `one`: there is one part for each group. `kind`: of its argument."""

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
            return _average(total(part), f"CAST({total(f'{part}_n')} AS BIGINT)", str(kind))
        case _:
            return part if one else f"{measure.function}({part})"


def sum_type(kind: str) -> str:
    """The type of Spark's sum."""
    if kind in WHOLE:
        return "BIGINT"
    digits = _decimal(kind)
    return f"DECIMAL({min(MOST_DIGITS, digits[0] + 10)},{digits[1]})" if digits else "DOUBLE"


def _average(total: str, count: str, kind: str) -> str:
    digits = _decimal(kind)
    if digits is None:
        return f"CAST({total} AS DOUBLE) / nullif({count}, 0)"
    precision, scale = min(MOST_DIGITS, digits[0] + 4), min(MOST_DIGITS, digits[1] + 4)
    # Spark rounds half away from zero, four digits further. Counted in whole numbers, digit by digit: nothing is lost.
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
