"""Parquet: rows have stable positions, so files are read in place. Footers contain columns, types and row counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lineage_service.equivalence.stored_values import is_read_alike
from lineage_service.equivalence.type_names import spark_type_of_arrow
from lineage_service.errors import SourceError, StoreError
from lineage_service.plan.schema import Column
from lineage_service.spec.file_formats import format_declaration
from lineage_service.store.duckdb_engine import file_literal
from lineage_service.store.formats.source_format import FileCut, Reading
from lineage_service.store.listing import Listing, listing
from lineage_service.store.original_text import UnknownReading
from lineage_service.store.versions import Footer, VersionColumn, parquet_footer, parquet_rows

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 65_536  # rows of a row group, in a file that has none


class ParquetFormat:
    declaration = format_declaration("parquet")
    is_read_in_place = True
    change_file_suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def list_files(self, path: str, folder: Path) -> Listing:
        return listing(path, folder)

    def columns(self, file: str, options: Mapping[str, str]) -> list[Column] | None:
        if any(key.lower() == "mergeschema" and value.lower() == "true" for key, value in options.items()):
            return None  # one file does not tell those of the others
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            schema = pq.read_schema(file)
        except (pa.ArrowException, OSError):
            raise SourceError(
                f"'{file}' is no readable Parquet file: it is damaged, truncated or of another format"
            ) from None
        return [
            Column(field.name, file_type(field.type), alike=spark_type_of_arrow(str(field.type)) is not None)
            for field in schema
        ]

    def declared_columns(self, columns: Sequence[Column], file: str) -> list[Column]:
        """A column is read alike by all engines if its declared type is that in the file."""
        footers = [parquet_footer(file)]
        return [
            replace(
                each, alike=is_read_alike(VersionColumn(each.name, each.type or "", each.name), footers, rebased=False)
            )
            for each in columns
        ]

    def row_count(self, file: str) -> int | None:
        return parquet_rows(file)

    def record_framing(self, reading: Reading) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 (the protocol's)
        return (("format", self.declaration.name),)

    def record_lines(self, file: str, reading: Reading) -> Iterator[Sequence[int]]:  # noqa: ARG002 (the protocol's)
        raise UnknownReading  # rows are not on lines

    def refuse_unwritable(self, cut: FileCut) -> None:
        """Every Parquet file can be rewritten."""

    def write_without(self, cut: FileCut, target: Path) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        kept = np.setdiff1d(np.arange(cut.rows, dtype=np.int64), cut.places)
        opened = pq.ParquetFile(cut.path, coerce_int96_timestamp_unit="us")
        metadata = opened.metadata
        old = any(opened.schema.column(number).physical_type == "INT96" for number in range(len(opened.schema)))
        packed = metadata.row_group(0).column(0).compression if metadata.num_row_groups else "SNAPPY"
        size = max((metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)), default=_BATCH)
        schema = opened.schema_arrow
        with pq.ParquetWriter(
            target,
            schema,
            compression="NONE" if packed == "UNCOMPRESSED" else packed,
            use_deprecated_int96_timestamps=old,
        ) as writer:
            first = 0
            for batch in opened.iter_batches(max(1, size)):
                begin, end = np.searchsorted(kept, [first, first + batch.num_rows])
                if end > begin:
                    writer.write_batch(batch.take(pa.array(kept[begin:end] - first)), row_group_size=max(1, size))
                first += batch.num_rows
        if parquet_footer(str(target)).rows != len(kept):
            raise StoreError(f"'{cut.path}' could not be rewritten: it has other rows than it had")

    def changed_rows(self, file: Path) -> str | list[dict[str, Any]]:
        return f"SELECT * FROM read_parquet({file_literal(str(file.absolute()))})"


def refuse_mixed_types(files: Sequence[str], footers: Sequence[Footer]) -> None:
    """Raises SourceError if a file has no columns, or if the types of a column differ in kind between files, because
    Spark would fail while reading.
    """
    first: dict[str, tuple[str, str]] = {}
    for file, footer in zip(files, footers, strict=True):
        if not footer.types:
            raise SourceError(f"file '{file}' has no columns", hint="write it with columns, or leave it out")
        for name, kind in footer.types.items():
            known, where = first.setdefault(name.lower(), (kind, file))
            if _type_family(known) != _type_family(kind):
                raise SourceError(
                    f"column '{name}' is {known} in file '{where}' but {kind} in file '{file}'",
                    hint="write the files alike, or name only those that are",
                )


def _type_family(kind: str) -> str:
    """Types of one family may be read as one another. Spark decides whether values fit."""
    if kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
        return "number"
    if kind.startswith(("timestamp", "date")):
        return "time"
    if kind in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        return "text"
    return kind.partition("<")[0]


def file_type(kind: pa.DataType) -> str | None:
    """Spark's type of a column of a Parquet file, as far as it is known without a session. Only the first word, such as
    `struct`, if parts of it are unknown.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        fields = [f"{_field_name(field.name)}:{inner}" for field in kind if (inner := file_type(field.type))]
        return f"struct<{','.join(fields)}>" if len(fields) == kind.num_fields else "struct"
    if types.is_map(kind):
        key, value = file_type(kind.key_type), file_type(kind.item_type)
        return f"map<{key},{value}>" if key and value else "map"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = file_type(kind.value_type)
        return f"array<{element}>" if element else "array"
    if types.is_dictionary(kind):  # known to Arrow alone: the file holds the values
        return file_type(kind.value_type)
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_time(kind):
        return "time"
    if types.is_fixed_size_binary(kind):
        return "binary"
    return spark_type_of_arrow(str(kind)) or _UNSIGNED.get(str(kind))


_UNSIGNED = {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)"}


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"
