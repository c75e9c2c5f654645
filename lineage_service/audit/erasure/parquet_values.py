"""Decodes everything in a Parquet file: column values, dictionary pages, statistics, names and metadata.

A search of raw bytes finds nothing in compressed pages, so each page is decoded. Values are yielded as text, distinct
per column chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_HEAD = 1 << 16  # maximum size of a page header


@dataclass
class DecodedCounts:
    """Counts of what was decoded."""

    columns: int = 0
    dictionaries: int = 0
    statistics: int = 0


@dataclass(frozen=True)
class DecodedValues:
    """Values of a file: their location, their column, and whether they are texts."""

    where: str
    column: str | None
    is_text: bool
    values: set[str]


def decode_parquet(path: Path, count: DecodedCounts) -> Iterator[DecodedValues]:
    """All values of a file by location: columns, dictionary pages, statistics and footer. Raises StoreError if the file
    cannot be read completely.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        metadata = opened.metadata
        with path.open("rb") as stream:
            for group in range(metadata.num_row_groups):
                for index in range(metadata.num_columns):
                    chunk = metadata.row_group(group).column(index)
                    name = chunk.path_in_schema
                    is_text = chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
                    yield DecodedValues(f"statistics of '{name}'", name, is_text, _statistics(chunk, count))
                    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                        count.dictionaries += 1
                        yield DecodedValues(f"dictionary of '{name}'", name, is_text, _dictionary(stream, chunk))
                table = opened.read_row_group(group)
                for name, column in zip(table.column_names, table.columns, strict=True):
                    count.columns += 1
                    for leaf, is_text, values in _leaves(name, column):
                        yield DecodedValues(f"column '{leaf}'", leaf, is_text, values)
        notes = {**(metadata.metadata or {})}
        texts = {part.decode("utf-8", "replace") for pair in notes.items() for part in pair}
        yield DecodedValues(
            "names of columns", None, True, {name for leaf in _names(metadata) for name in leaf.split(".")}
        )
        yield DecodedValues("notes in the footer", None, True, texts)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise StoreError(f"'{path}' cannot be decoded ({type(error).__name__})") from None


def _names(metadata: Any) -> list[str]:
    return [metadata.schema.column(number).path for number in range(metadata.num_columns)]


def _leaves(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, bool, set[str]]]:
    """All distinct values inside a column, at any depth, as text; and whether they are texts in the file."""
    import pyarrow as pa

    for chunk in column.chunks:
        kind = chunk.type
        inside: list[tuple[str, Any]] = []
        if pa.types.is_struct(kind):
            inside = [(f"{name}.{kind.field(number).name}", chunk.field(number)) for number in range(kind.num_fields)]
        elif pa.types.is_map(kind):
            inside = [(f"{name}.key", chunk.keys), (f"{name}.value", chunk.items)]
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            inside = [(name, chunk.flatten())]
        elif pa.types.is_dictionary(kind):
            inside = [(name, chunk.dictionary)]
        else:
            values = {_text(value) for value in chunk.unique().to_pylist() if value is not None}
            yield name, not pa.types.is_primitive(kind) and not pa.types.is_decimal(kind), values
        for leaf, values_inside in inside:
            yield from _leaves(leaf, pa.chunked_array([values_inside]))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text and text.replace(".", "").lstrip("-").isdigit() else text


def _statistics(chunk: Any, count: DecodedCounts) -> set[str]:
    if not chunk.is_stats_set or chunk.statistics is None or not chunk.statistics.has_min_max:
        return set()
    count.statistics += 1
    found = chunk.statistics
    return {_text(value) for value in (found.min, found.max, found.min_raw, found.max_raw) if value is not None}


# --- dictionary pages -----------------------------------------------------------------------------------------


def _dictionary(stream: Any, chunk: Any) -> set[str]:
    """The values of a column chunk's dictionary page, including those that no row refers to."""
    import pyarrow as pa

    stream.seek(chunk.dictionary_page_offset)
    head = stream.read(PAGE_HEAD)
    fields, length = _compact_struct(head, 0)
    size, packed, values = int(fields[2]), int(fields[3]), int(fields[7][1])
    stream.seek(chunk.dictionary_page_offset + length)
    body = stream.read(packed)
    if chunk.compression != "UNCOMPRESSED":
        body = pa.Codec({"LZ4": "lz4_raw"}.get(chunk.compression, chunk.compression.lower())).decompress(body, size)
        body = body.to_pybytes()
    return set(_decode_plain_page(body, chunk.physical_type, values))


_FIXED = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}


def _decode_plain_page(body: bytes, kind: str, values: int) -> Iterator[str]:
    if kind in _FIXED:
        for (value,) in struct.iter_unpack(_FIXED[kind], body[: values * struct.calcsize(_FIXED[kind])]):
            yield _text(value)
    elif kind == "BYTE_ARRAY":
        at = 0
        for _ in range(values):
            (length,) = struct.unpack_from("<I", body, at)
            yield _text(body[at + 4 : at + 4 + length])
            at += 4 + length
    elif values:
        width = len(body) // values
        for number in range(values):
            part = body[number * width : (number + 1) * width]
            yield _text(part)
            yield str(int.from_bytes(part, "big", signed=True))


def _compact_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Parses a struct in Thrift's compact protocol, as in Parquet's page headers: fields by number, and the end
    offset.
    """
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        kind, delta = head & 0x0F, head >> 4
        if delta:
            number += delta
        else:
            raw, at = _varint(data, at)
            number = _zigzag(raw)
        fields[number], at = _compact_value(data, at, kind)


def _compact_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):  # a boolean is encoded in its type
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        raw, at = _varint(data, at)
        return _zigzag(raw), at
    if kind == 7:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == 8:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind in (9, 10):
        head, at = data[at], at + 1
        length = head >> 4
        if length == 15:
            length, at = _varint(data, at)
        items = []
        for _ in range(length):
            item, at = _compact_value(data, at, head & 0x0F)
            items.append(item)
        return items, at
    if kind == 12:
        return _compact_struct(data, at)
    raise ValueError("a page header that cannot be read")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
