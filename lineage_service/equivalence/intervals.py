"""Intervals in files and in DuckDB. Spark stores an interval of days to seconds as a number of microseconds, and one of
years to months as a number of months.

Whatever copies or compares stored rows keeps these numbers. Users see the text that Spark prints, and their predicates
and queries read values of DuckDB's type INTERVAL. Both are SQL, also for intervals inside arrays, maps and structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lineage_service.plan.nested_types import constructor, exploded_type, field_names, struct_fields

Conversion = Callable[[str, str], str]  # a value and its Spark type to SQL

_UNITS = ("day", "hour", "minute", "second")
_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_PER_LARGER_UNIT = {"hour": 24, "minute": 60, "second": 60}
_INTERVAL = re.compile(r"interval (year|month|day|hour|minute|second)(?: to (month|hour|minute|second))?")


def has_intervals(spark_type: str) -> bool:
    """Whether values of a type are intervals, or have some inside."""
    return _converted("", spark_type, lambda value, _: value) is not None


def printed_interval(value: str, spark_type: str) -> str | None:
    """SQL that gives stored intervals as the text that Spark prints; None if the type has none."""
    return _converted(value, spark_type, _text)


def duckdb_interval(value: str, spark_type: str) -> str | None:
    """SQL that gives stored intervals as INTERVAL; None if the type has none."""
    return _converted(value, spark_type, _interval)


def stored_interval(text: str, spark_type: str) -> int | None:
    """The number that is stored for an interval as it is printed; None if the text is none of this type."""
    found = _INTERVAL.fullmatch(spark_type)
    units = spark_type.removeprefix("interval ").upper()
    body = re.fullmatch(rf"(?i)interval\s+'(-?)([0-9 :.-]+)'\s+{units}", text.strip())
    if found is None or body is None:
        return None
    first, last, sign = found[1], found[2] or found[1], -1 if body[1] else 1
    if _is_of_months(spark_type):
        parts = body[2].split("-")
        sizes = [{"year": 12, "month": 1}[unit] for unit in dict.fromkeys((first, last))]
        fraction = ""
    else:
        whole, _, fraction = body[2].partition(".")
        parts = re.split("[ :]", whole)
        sizes = [_MICROSECONDS[unit] for unit in _UNITS[_UNITS.index(first) : _UNITS.index(last) + 1]]
    if len(parts) != len(sizes) or not all(map(str.isdecimal, parts)) or (fraction and last != "second"):
        return None
    if not re.fullmatch("[0-9]{0,6}", fraction):
        return None
    total = sum(int(part) * size for part, size in zip(parts, sizes, strict=True)) + int(fraction.ljust(6, "0") or 0)
    return sign * total if -(2**63) <= sign * total < 2**63 else None


def interval_example(spark_type: str) -> str:
    """An interval of a type as it is printed."""
    found = _INTERVAL.fullmatch(spark_type)
    numbers = {
        "day": "1", "day to hour": "1 02", "day to minute": "1 02:03", "day to second": "1 02:03:04",
        "hour": "02", "hour to minute": "02:03", "hour to second": "02:03:04", "minute": "02",
        "minute to second": "02:03", "second": "02", "year": "1", "year to month": "1-2", "month": "1",
    }  # fmt: skip
    units = spark_type.removeprefix("interval ")
    return f"INTERVAL '{numbers[units]}' {units.upper()}" if found is not None else "INTERVAL '1' DAY"


def _interval(value: str, spark_type: str) -> str:
    if _is_of_months(spark_type):
        return f"to_months({value})"
    day = _MICROSECONDS["day"]
    # Days apart from the rest: a number of nanoseconds, which Arrow has, would not hold 300 years.
    return f"(to_days(CAST({value} // {day} AS INTEGER)) + to_microseconds({value} % {day}))"


def _text(value: str, spark_type: str) -> str:
    found = _INTERVAL.fullmatch(spark_type)
    assert found is not None
    first, last = found[1], found[2] or found[1]
    size, sign = f"abs(CAST({value} AS HUGEINT))", f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
    if _is_of_months(spark_type):
        years, months = f"CAST({size} // 12 AS VARCHAR)", f"CAST({size} % 12 AS VARCHAR)"
        number = {"year": years, "month": f"CAST({size} AS VARCHAR)"}[first]
        number = f"{years} || '-' || {months}" if first != last else number
    else:
        parts: list[str] = []
        for unit in _UNITS[_UNITS.index(first) : _UNITS.index(last) + 1]:
            count = f"{size} // {_MICROSECONDS[unit]}"
            if unit != first:
                count = f"({count}) % {_PER_LARGER_UNIT[unit]}"
            digits = "{}" if unit == "day" else "{:02d}"
            parts += ["' '" if parts and len(parts) == 1 and first == "day" else "':'"] if parts else []
            parts.append(f"format('{digits}', CAST({count} AS BIGINT))")
        if last == "second":
            rest = f"CAST({size} % 1000000 AS BIGINT)"
            parts.append(f"CASE WHEN {rest} = 0 THEN '' ELSE '.' || rtrim(format('{{:06d}}', {rest}), '0') END")
        number = " || ".join(parts)
    shown = f"'INTERVAL ''' || {sign} || {number} || ''' {spark_type.removeprefix('interval ').upper()}'"
    return f"CASE WHEN {value} IS NOT NULL THEN {shown} END"


def _is_of_months(spark_type: str) -> bool:
    return spark_type.split()[1] in ("year", "month")


def _converted(value: str, spark_type: str, convert: Conversion, depth: int = 0) -> str | None:
    if _INTERVAL.fullmatch(spark_type):
        return convert(value, spark_type)
    if "interval" not in spark_type:
        return None
    element = f"element{depth}"
    match constructor(spark_type):
        case "array":
            inner = _converted(element, exploded_type(spark_type) or "", convert, depth + 1)
            return None if inner is None else f"list_transform({value}, lambda {element}: {inner})"
        case "map":
            entry = exploded_type(spark_type) or ""
            inner = _converted(element, entry, convert, depth + 1)
            if inner is None:
                return None
            entries = f"map_from_entries(list_transform(map_entries({value}), lambda {element}: {inner}))"
            return f"CASE WHEN {value} IS NOT NULL THEN {entries} END"
        case "struct":
            return _converted_struct(value, spark_type, convert, depth)
    return None


def _converted_struct(value: str, spark_type: str, convert: Conversion, depth: int) -> str | None:
    kinds = struct_fields(spark_type) or {}
    items, changed = [], False
    for name in field_names(spark_type) or ():
        quoted = '"' + name.replace('"', '""') + '"'
        of = f"({value}).{quoted}"
        inner = _converted(of, kinds[name.lower()], convert, depth)
        changed = changed or inner is not None
        items.append(f"{quoted} := {inner or of}")
    if not changed:
        return None
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(items)}) END"
