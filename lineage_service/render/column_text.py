"""Arrow columns as text, one column at a time: plain text for CSV and tables, and JSON.

Values stay in Arrow wherever possible, so that ten million pairs become text in seconds. The results have the type
`large_string`, because a batch may hold more than 2 GiB of text.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lineage_service.render.json_values import EXACT_INTEGER, dump_json

TEXT = pa.large_string()
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_text(column: pa.Array) -> pa.Array:
    """Returns the values as text. Nulls stay null, and nested values become JSON."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return _texts(None if value is None else str(value) for value in column.to_pylist())
        return plain_text(column.storage)
    if pa.types.is_dictionary(kind):
        return plain_text(column.dictionary_decode())
    if pa.types.is_floating(kind):
        return _float_text(column)
    if pa.types.is_decimal(kind):
        return _decimal_text(column)
    if pa.types.is_timestamp(kind):
        return _timestamp_text(column)
    if pa.types.is_time(kind):
        return _without_zero_fraction(pc.cast(column, TEXT))
    if pa.types.is_duration(kind):
        scale = UNITS[kind.unit]
        return _texts(None if n is None else _duration(0, 0, n, scale) for n in column.cast(pa.int64()).to_pylist())
    if pa.types.is_interval(kind):
        return _texts(
            None if v is None else _duration(v.months, v.days, v.nanoseconds, UNITS["ns"]) for v in column.to_pylist()
        )
    if _is_binary(kind):
        return _texts(None if v is None else base64.b64encode(v).decode("ascii") for v in column.to_pylist())
    if pa.types.is_nested(kind):
        return pc.if_else(column.is_valid(), json_text(column), pa.scalar(None, TEXT))
    return pc.cast(column, TEXT)


def json_text(column: pa.Array) -> pa.Array:
    """Returns the values as JSON text; a null becomes `null`."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json":
        return pc.fill_null(pc.cast(column.storage, TEXT), "null")
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
        return json_text(column.storage)
    if pa.types.is_dictionary(kind):
        return json_text(column.dictionary_decode())
    if pa.types.is_nested(kind):
        return _texts(_nested_json(column))
    text = plain_text(column)
    if pa.types.is_integer(kind):
        text = _quoted_where(_is_inexact(column), text)
    elif pa.types.is_floating(kind):
        text = _quoted_where(pc.invert(pc.is_finite(column)), text)
    elif not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        text = _json_strings(text)
    return pc.fill_null(text, "null")


def _texts(values: Iterable[str | None]) -> pa.Array:
    return pa.array(values, TEXT)


def join_texts(*pieces: pa.Array | str) -> pa.Array:
    """Concatenates the pieces row by row."""
    return pc.binary_join_element_wise(*(pa.scalar(p, TEXT) if isinstance(p, str) else p for p in pieces), _EMPTY)


_EMPTY = pa.scalar("", TEXT)


def text_bytes(texts: pa.Array) -> memoryview:
    """Returns the UTF-8 bytes of all texts, one behind the other, without copying them from Arrow's memory."""
    _, ends, data = texts.buffers()
    if data is None:
        return memoryview(b"")
    first, last = (struct.unpack_from("=q", ends, 8 * (texts.offset + n))[0] for n in (0, len(texts)))
    return memoryview(data)[first:last]


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_inexact(column: pa.Array) -> pa.Array | None:
    """Marks the integers that a double may not hold exactly; None if there are none."""
    ends = pc.min_max(column).as_py()
    if ends["min"] is None or (ends["min"] >= -EXACT_INTEGER and ends["max"] <= EXACT_INTEGER):
        return None
    above = pc.greater(column, pa.scalar(EXACT_INTEGER, column.type))
    if pa.types.is_unsigned_integer(column.type):
        return above
    return pc.or_(above, pc.less(column, pa.scalar(-EXACT_INTEGER, column.type)))


def _quoted_where(mask: pa.Array | None, text: pa.Array) -> pa.Array:
    return text if mask is None else pc.if_else(mask, join_texts('"', text, '"'), text)


def _json_strings(text: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(text, r'[\x00-\x1f"\\]')).as_py():
        return _texts(None if value is None else json.dumps(value, ensure_ascii=False) for value in text.to_pylist())
    return join_texts('"', text, '"')


def _float_text(column: pa.Array) -> pa.Array:
    """Returns the shortest text that reads back as the same number; whole numbers keep `.0`."""
    text = pc.replace_substring_regex(pc.cast(column, TEXT), r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(pc.is_finite(column)).as_py() is False:
        text = pc.replace_substring_regex(text, "inf$", "Infinity")
        text = pc.replace_substring_regex(text, "^-?nan$", "NaN")
    return text


def _decimal_text(column: pa.Array) -> pa.Array:
    text = pc.cast(column, TEXT)
    if pc.any(pc.match_substring(text, "E")).as_py():  # small numbers, such as '0E-10'
        return _texts(None if value is None else format(value, "f") for value in column.to_pylist())
    return text


def _timestamp_text(column: pa.Array) -> pa.Array:
    """Returns ISO 8601 text. A timestamp with a time zone is shown in UTC."""
    zoned = column.type.tz is not None
    if zoned:
        column = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))
    text = pc.replace_substring(pc.cast(column, TEXT), " ", "T", max_replacements=1)
    text = _without_zero_fraction(text)
    return join_texts(text, "+00:00") if zoned else text


def _without_zero_fraction(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(text, r"\.0+$", "")


def _duration(months: int, days: int, parts: int, scale: int) -> str:
    """Returns an ISO 8601 duration, such as P2M3DT4.5S."""
    seconds = format((Decimal(parts) / scale).normalize(), "f")
    time = f"T{seconds}S" if parts or not (months or days) else ""
    return f"P{f'{months}M' if months else ''}{f'{days}D' if days else ''}{time}"


def _nested_json(column: pa.Array) -> Iterable[str | None]:
    kind = column.type
    if pa.types.is_map(kind):
        return _map_json(column)
    if pa.types.is_struct(kind):
        return _struct_json(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_json(column)
    # Unions and list views are rare: they are converted value by value.
    return [dump_json(value) for value in column.to_pylist()]


def _list_json(column: pa.Array) -> Iterable[str]:
    items = iter(json_text(column.flatten()).to_pylist())  # flatten omits the items of null lists
    for length in pc.list_value_length(column).to_pylist():
        yield "null" if length is None else "[" + ", ".join(next(items) for _ in range(length)) + "]"


def _struct_json(column: pa.Array) -> Iterable[str]:
    names = [json.dumps(field.name, ensure_ascii=False) for field in column.type]
    fields = [json_text(field).to_pylist() for field in column.flatten()]
    for row, valid in enumerate(column.is_valid().to_pylist()):
        pairs = (f"{name}: {field[row]}" for name, field in zip(names, fields, strict=True))
        yield "{" + ", ".join(pairs) + "}" if valid else "null"


def _map_json(column: pa.Array) -> Iterable[str]:
    """Yields an object if the keys are strings, else a list of {key, value}."""
    keys, values = json_text(column.keys).to_pylist(), json_text(column.items).to_pylist()
    as_object = pa.types.is_string(column.type.key_type) or pa.types.is_large_string(column.type.key_type)
    ends = column.offsets.to_pylist()  # relative to the start of keys, also in a slice
    for row, valid in enumerate(column.is_valid().to_pylist()):
        entries = range(ends[row], ends[row + 1])
        if not valid:
            yield "null"
        elif as_object:
            yield "{" + ", ".join(f"{keys[i]}: {values[i]}" for i in entries) + "}"
        else:
            yield "[" + ", ".join(f'{{"key": {keys[i]}, "value": {values[i]}}}' for i in entries) + "]"
