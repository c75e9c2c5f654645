"""Measures from their parts, with the value and the type that Spark gives them. Pure SQL of DuckDB."""

from __future__ import annotations

import re

from lineage_service.plan.measures import Measure

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
MOST_DIGITS = 38


def final(measure: Measure, part: str, kind: str | None, *, one: bool) -> str:
    """A measure over the parts in a column; `one`: there is one part for each group. `kind`: of its argument."""

    def total(name: str) -> str:
        return name if one else f"sum({name})"

    if measure.distinct:
        values = part if one else f"list_distinct(flatten(list({part})))"
        return f"CAST(coalesce(len({values}), 0) AS BIGINT)"
    match measure.function:
        case "count":
            return f"CAST({total(part)} AS BIGINT)"
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
    precision, scale = min(MOST_DIGITS, digits[0] + 4), digits[1] + 4
    # Spark rounds half away from zero, four digits further; counted in whole numbers, so that nothing is lost.
    whole = f"(abs({total}) * {10 ** digits[1]}::DECIMAL({digits[1] + 1},0))::HUGEINT * 20000"
    rounded = f"(({whole} + {count}) // (2 * {count}))"
    signed = f"(CASE WHEN {total} < 0 THEN -{rounded} ELSE {rounded} END)"
    unit = f"'0.{'0' * (scale - 1)}1'::DECIMAL({scale + 1},{scale})"
    kept = f"CAST({signed} AS DECIMAL({MOST_DIGITS},0)) * {unit}"
    return f"CASE WHEN {count} = 0 THEN NULL ELSE CAST({kept} AS DECIMAL({precision},{scale})) END"


def _decimal(kind: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None
