"""Literals of the protocol as text of Spark SQL that has the same value and the same type; None where there is none."""

from __future__ import annotations

import datetime
import decimal
import math

from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_connect.data_types import type_text
from lineage_service.plan.from_connect.messages import Message, Value

_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # of the years 1 to 9999


def literal_kind(literal: Message) -> tuple[str, Value | None]:
    """Which value is set, and the value."""
    for name, value in literal.fields.items():
        if name != "data_type":
            return name, value
    return "null", literal.get("data_type")


def literal_text(literal: Message) -> str | None:
    """The literal as text of Spark SQL."""
    kind, value = literal_kind(literal)
    match value:
        case bool():
            return "true" if value else "false"
        case int() if kind in _SUFFIXES:
            return _signed(f"{value}{_SUFFIXES[kind]}")
        case int() | float() if kind in ("float", "double"):
            return _floating(float(value), kind)
        case str() if kind == "string":
            return string_text(value)
        case bytes():
            return "X'" + value.hex().upper() + "'"
        case int() if kind == "date":
            return _date(value)
        case int() if kind in ("timestamp", "timestamp_ntz"):
            return _timestamp(value, kind)
        case int() if kind in ("year_month_interval", "day_time_interval"):
            return _interval(value, kind)
        case Message():
            return _of_message(kind, value, literal.message("data_type"))
    return None


def string_text(value: str) -> str:
    """A text in quotes, so that Spark's parser reads this text again."""
    pieces = []
    for index, character in enumerate(value):
        if character in "\\'":
            pieces.append("\\" + character)
        elif ord(character) < 32 or (character == "$" and value[index + 1 : index + 2] == "{"):
            pieces.append(f"\\u{ord(character):04x}")  # Spark replaces ${…} before it reads a text
        else:
            pieces.append(character)
    return f"'{''.join(pieces)}'"


def literal_name(literal: Message) -> str | None:
    """The literal as Spark shows it in the name of a column that has none."""
    kind, value = literal_kind(literal)
    match value:
        case bool():
            return "true" if value else "false"
        case int() if kind in _SUFFIXES:
            return str(value)
        case str() if kind == "string":
            return value
        case float() if kind == "double":
            return _java_double(value)
        case Message() if kind == "decimal":
            return value.text("value") if "e" not in value.text("value").lower() else None
        case int() if kind == "date":
            return _date(value)
    return "NULL" if kind == "null" else None


def _java_double(value: float) -> str | None:
    """As Double.toString() writes it; None for numbers that it writes with an exponent."""
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return repr(value)
    return repr(value) if 1e-3 <= abs(value) < 1e7 else None


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _floating(value: float, kind: str) -> str:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return f"CAST('{name}' AS {kind.upper()})"
    text = _signed(f"{value!r}D")
    if value == 0 and math.copysign(1, value) < 0:
        text = "CAST('-0.0' AS DOUBLE)"
    return text if kind == "double" else f"CAST({text} AS FLOAT)"


def _date(days: int) -> str | None:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    return f"DATE '{(_EPOCH + datetime.timedelta(days=days)).date().isoformat()}'"


def _timestamp(micros: int, kind: str) -> str | None:
    if not _FIRST_DAY <= micros // 86_400_000_000 <= _LAST_DAY:
        return None
    shown = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(sep=" ")
    return f"TIMESTAMP_LTZ '{shown} UTC'" if kind == "timestamp" else f"TIMESTAMP_NTZ '{shown}'"


def _interval(value: int, kind: str) -> str | None:
    sign, size = ("-" if value < 0 else ""), abs(value)
    if kind == "year_month_interval":
        return f"INTERVAL {sign}'{size // 12}-{size % 12}' YEAR TO MONTH"
    seconds, micros = divmod(size, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"INTERVAL {sign}'{days} {clock}' DAY TO SECOND"


def _of_message(kind: str, value: Message, type_: Message | None) -> str | None:
    match kind:
        case "null":
            named = type_text(value)
            return None if named is None else ("NULL" if named == "VOID" else f"CAST(NULL AS {named})")
        case "decimal":
            return _decimal(value)
        case "array" if type_ is None:
            return _call("array", value.messages("elements"))
        case "map" if type_ is None:
            pairs = zip(value.messages("keys"), value.messages("values"), strict=True)
            return _call("map", [each for pair in pairs for each in pair])
    return None


def _decimal(value: Message) -> str | None:
    """The type is as wide as the digits need, and as the message says."""
    number = decimal.Decimal(value.text("value"))
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, value.number("scale"), 0)
    precision = max(len(digits) + max(exponent, 0), value.number("precision"), scale)
    return f"CAST('{number:f}' AS DECIMAL({precision}, {scale}))" if precision <= 38 else None


def _call(name: str, elements: list[Message] | tuple[Message, ...]) -> str | None:
    texts = [literal_text(each) for each in elements]
    if not texts or any(each is None for each in texts):
        return None  # the type of an empty one is only in the message
    return f"{name}({', '.join(str(each) for each in texts)})"


def quoted(name: str) -> str:
    """A name in backticks where it needs them."""
    plain = name.isascii() and name.isidentifier() and name.islower() and len(name) > 1
    return name if plain and "__" in name else quote_identifier(name)
