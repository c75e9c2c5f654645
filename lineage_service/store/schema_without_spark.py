"""Columns of sources as far as they can be told without Spark: from footers, headers and declared schemas."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import SourceError, WorkflowError, did_you_mean
from lineage_service.plan.bounded_parsing import parse_statements
from lineage_service.plan.schema import Column, ColumnError, Schema, csv_hint
from lineage_service.spec.models import SourceSpec
from lineage_service.store.engine_agreement import is_read_alike, spark_type
from lineage_service.store.listing import Listing, is_vast, listing
from lineage_service.store.versions import Footer, Version, VersionColumn, parquet_footer

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN = Schema(known=False)
TYPES = ("array", "bigint", "binary", "boolean", "byte", "char", "date", "decimal", "double", "float", "int", "integer",
         "interval", "long", "map", "numeric", "real", "short", "smallint", "string", "struct", "timestamp",
         "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "variant", "void")  # fmt: skip


def known_schema(source: SourceSpec, folder: Path, version_of: Callable[[str], Version]) -> Schema:
    """The source's columns under the user's names.

    SourceError where its files are not there or not readable, NotFound where no run has made it.
    """
    if source.output is not None:
        version = version_of(source.output)
        return apply_renames(
            [Column(each.name, each.type, alike=True, pii=each.pii) for each in version.columns], source.rename
        )
    if is_vast(str(source.path), folder):
        return UNKNOWN  # the run looks through all of it, once
    found = listing(str(source.path), folder)
    columns = _columns(source, found)
    if columns is None:
        return UNKNOWN
    names = {column.name.lower() for column in columns}
    partitions = [Column(name) for name in found.partitions if name.lower() not in names]
    return apply_renames([*columns, *partitions], source.rename)


def _columns(source: SourceSpec, found: Listing) -> list[Column] | None:
    if source.schema_ is not None:
        columns = _parse_ddl(source.schema_)
        if columns is None:
            return None
        if source.file_format != "parquet":  # a snapshot is written in the types that were declared
            return [replace(each, alike=True) for each in columns]
        return _mark_alike(columns, found.files[0])
    if source.file_format == "parquet":
        return _from_footer(found.files[0]) if not _merges_schemas(source.reader_options) else None
    if source.file_format == "csv":
        return _from_header(found.files[0], source.reader_options)
    return None


def _merges_schemas(options: Mapping[str, str]) -> bool:
    return any(key.lower() == "mergeschema" and value.lower() == "true" for key, value in options.items())


def _parse_ddl(ddl: str) -> list[Column] | None:
    """Names and types of a Spark DDL schema; None where it cannot be read here: Spark will tell."""
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    _refuse_foreign_types(ddl)
    try:
        (tree,) = parse_statements(f"CREATE TABLE t ({ddl})", Spark())
    except (SqlglotError, ValueError):
        _refuse_mistyped(ddl)
        return None
    except RecursionError:
        raise WorkflowError("schema: its types are nested too deeply to be read") from None
    if tree is None:
        return None
    columns = [
        Column(each.name, each.kind.sql(dialect="spark").lower() if each.kind else None)
        for each in tree.find_all(exp.ColumnDef)
        if isinstance(each.parent, exp.Schema)
    ]
    twice = next(
        (each.name for each in columns if [one.name.lower() for one in columns].count(each.name.lower()) > 1), None
    )
    if twice is not None:
        raise WorkflowError(f"schema: two columns are called '{twice}' (case is not told apart)")
    return columns or None


_FOREIGN_TYPES = {
    **dict.fromkeys(("str", "text", "object", "uuid", "json", "nvarchar"), "string"), "bool": "boolean",
    **dict.fromkeys(("int64", "uint64", "uint32", "serial"), "bigint"), "int32": "int", "int8": "tinyint",
    "int16": "smallint", "float64": "double", "float32": "float", "datetime": "timestamp", "datetime64": "timestamp",
    "number": "decimal(18, 2)", "bytes": "binary", "bytea": "binary", "blob": "binary",
}  # fmt: skip


def _refuse_foreign_types(ddl: str) -> None:
    """WorkflowError for types of Python and of other databases, which sqlglot reads and Spark does not."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "''", ddl)
    if re.match(r"\s*create\s+(?:or\s+replace\s+)?(?:external\s+)?table\b", plain, re.IGNORECASE):
        raise WorkflowError(
            "schema: only the columns are written", hint="without CREATE TABLE: `id bigint, name string`"
        )
    for word in re.findall(r"(?:^|,|<)\s*(?:`[^`]+`|\w+)\s*(?::\s*|\s+)([A-Za-z_]\w*)", plain):
        if word.lower() in _FOREIGN_TYPES:
            hint = f"here it is `{_FOREIGN_TYPES[word.lower()]}`"
            raise WorkflowError(f"schema: '{word}' is no type of Spark's", hint=hint)


def _refuse_mistyped(ddl: str) -> None:
    """WorkflowError for a type that is surely a slip of the pen; what else is wrong, Spark will tell."""
    for word in re.findall(r"(?:^|,)\s*(?:`[^`]+`|\w+)\s*:?\s+([A-Za-z_]+)", ddl):
        hint = did_you_mean(word.lower(), TYPES)
        if word.lower() not in TYPES and hint:
            raise WorkflowError(f"schema: '{word}' is no type of Spark's", hint=hint)


def _from_footer(path: str) -> list[Column]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise SourceError(
            f"'{path}' is no readable Parquet file: it is damaged, truncated or of another format"
        ) from None
    return [
        Column(field.name, file_type(field.type), alike=spark_type(str(field.type)) is not None) for field in schema
    ]


def file_type(kind: pa.DataType) -> str | None:
    """Spark's type of a column of a Parquet file, as far as it needs no session to be told. Of a type with parts that
    are not known, only the first word: `struct`."""
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
    return spark_type(str(kind)) or _UNSIGNED.get(str(kind))


_UNSIGNED = {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)"}


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _mark_alike(columns: Sequence[Column], path: str) -> list[Column]:
    """Declared columns, each with whether it is what the file says."""
    footers = [parquet_footer(path)]
    return [
        replace(each, alike=is_read_alike(VersionColumn(each.name, each.type or "", each.name), footers, rebased=False))
        for each in columns
    ]


def _from_header(path: str, options: Mapping[str, str]) -> list[Column] | None:
    given = {key.lower(): value for key, value in options.items()}
    if given.get("header", "false").lower() != "true" or Path(path).suffix not in (".csv", ".tsv", ".txt"):
        return None
    separator = given.get("sep", given.get("delimiter", ","))
    try:
        with Path(path).open(encoding=given.get("encoding", "utf-8"), newline="") as stream:
            header = next(
                csv.reader([stream.readline(1 << 20)], delimiter=separator, quotechar=given.get("quote", '"') or None)
            )
    except (OSError, UnicodeError, StopIteration, TypeError, csv.Error, LookupError):
        return None
    names = [name.lstrip("\ufeff") for name in header]
    if len({name.lower() for name in names}) != len(names) or not all(names):
        return None  # Spark gives such columns names of its own
    return [Column(name) for name in names]


def refuse_mixed_types(files: Sequence[str], footers: Sequence[Footer]) -> None:
    """SourceError where a file has no columns, or a column has one kind of type in one file and another in the next:
    Spark fails midway."""
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
    """Types of one family may be read as one another; whether they fit, Spark decides."""
    if kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
        return "number"
    if kind.startswith(("timestamp", "date")):
        return "time"
    if kind in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        return "text"
    return kind.partition("<")[0]


def apply_renames(columns: Sequence[Column], rename: Mapping[str, str]) -> Schema:
    """The columns under the user's names. SourceError where there is none to rename, or two get one name."""
    by_old = {old.lower(): new for old, new in rename.items()}
    missing = [old for old in rename if old.lower() not in (column.name.lower() for column in columns)]
    if missing:
        names = [column.name for column in columns]
        hint = csv_hint(missing[0], names) or did_you_mean(missing[0], names)
        raise SourceError(f"rename: no column '{missing[0]}'; columns here: {', '.join(names)}", hint=hint)
    try:
        return Schema(tuple(replace(each, name=by_old.get(each.name.lower(), each.name)) for each in columns))
    except ColumnError as error:
        raise SourceError(error.message, hint=error.hint or "give one of them another name with `rename`") from None
