"""Snapshots of CSV and JSON files. They have no stable positions, so their records are first written to the home, in
file order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import DataType, StringType, StructType

from lineage_service.errors import Position, Problem, SourceError, WorkflowError, join_names
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.faults import analysing
from lineage_service.spark.file_scan import escape_glob, read_files
from lineage_service.spark.file_schema import parse_schema_text
from lineage_service.store.duckdb_engine import column, file_literal, open_duckdb


@dataclass(frozen=True)
class TextRecords:
    """Records of CSV or JSON files. If `strict`, column `bad` contains what did not match the schema."""

    frame: DataFrame
    names: CaptureColumnNames
    strict: bool

    @property
    def bad(self) -> str:
        return self.names.prefix + "bad"

    @property
    def columns(self) -> list[str]:
        return [name for name in self.frame.columns if name != self.bad]


def open_text(
    spark: SparkSession,
    source: str,
    format: str,
    files: Sequence[str],
    base: str,
    schema: str | None,
    options: Mapping[str, str],
    position: Position | None,
) -> TextRecords:
    """The records of the files. A record that does not match the schema is marked, unless the user allows it."""
    modes = [value.upper() for key, value in options.items() if key.lower() == "mode"]
    mode = modes[0] if modes else "FAILFAST"
    if mode == "DROPMALFORMED":
        raise WorkflowError(
            Problem(
                f"source '{source}': mode DROPMALFORMED would shift the positions of the records behind a dropped one",
                position,
                "leave out `mode` to have bad records reported, or use PERMISSIVE to keep them with nulls",
            )
        )
    paths = [escape_glob(file) for file in files]
    rest = {key: value for key, value in options.items() if key.lower() != "mode"}
    if len(files) > 1 and schema is None:
        # The columns are the first file's: another order in a later file must not be taken for it.
        rest = {"enforceSchema": "false", **rest}
    with analysing(position, f"source '{source}'"):
        reader = spark.read.options(**rest).option("basePath", base).format(format)
        declared = parse_schema_text(schema) if schema is not None else reader.load(paths).schema
        if not declared.fields:
            raise SourceError(
                Problem(
                    f"source '{source}' has no columns: its files are empty",
                    position,
                    "declare the columns: `schema: a INT, b STRING`",
                )
            )
        names = CaptureColumnNames.apart_from(declared.names)
        strict = mode != "PERMISSIVE"
        if not strict:
            return TextRecords(reader.schema(declared).load(paths), names, strict)
        bad = names.prefix + "bad"
        marked = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", bad)
        wanted = StructType([*declared.fields]).add(bad, StringType())
        return TextRecords(marked.schema(wanted).load(paths), names, strict)


def write_snapshot(records: TextRecords, folder: Path) -> None:
    """Writes the records in the order of files and of positions in them. Spark itself would start with the largest
    file.
    """
    frame, prefix = records.frame, records.names.prefix
    metadata = frame.metadataColumn("_metadata")
    # Names are percent-encoded in the scan, and their order is that of the plain names.
    plain = F.url_decode(F.replace(metadata.getField("file_path"), F.lit("+"), F.lit("%2B")))
    bad = [col(records.bad).isNotNull().alias(records.bad)] if records.strict else []
    marked = frame.select(
        *[col(name) for name in records.columns],
        *bad,
        plain.alias(f"{prefix}path"),
        metadata.getField("file_block_start").alias(f"{prefix}block"),
        F.monotonically_increasing_id().alias(f"{prefix}row"),
    )
    marked.orderBy(f"{prefix}path", f"{prefix}block", f"{prefix}row").write.parquet(str(folder))


def records_per_file(records: TextRecords, written: Sequence[str], spill: Path) -> dict[str, int]:
    """The number of records of each original file; files without records are left out."""
    if not written:
        return {}
    path = column(f"{records.names.prefix}path")
    files = ", ".join(file_literal(file) for file in written)
    scan = f"read_parquet([{files}], hive_partitioning = false)"
    with open_duckdb(spill) as connection:
        counted = connection.execute(f"SELECT {path}, count(*) FROM {scan} GROUP BY ALL").fetchall()
    return {_local_path(uri): int(count) for uri, count in counted}


def _local_path(uri: str) -> str:
    """The path of a decoded `file:` URI, which Spark writes with one slash or three."""
    return uri.removeprefix("file://") if uri.startswith("file:///") else uri.removeprefix("file:")


def refuse_bad_records(
    spark: SparkSession, records: TextRecords, written: Sequence[str], source: str, position: Position | None
) -> None:
    """Raises SourceError with file and number of records that do not match the schema. The records are not quoted."""
    if not records.strict:
        return
    prefix = records.names.prefix
    snapshot = read_files(spark, written)
    if not snapshot.filter(col(records.bad)).take(1):
        return
    path, number = col(f"{prefix}path"), f"{prefix}number"
    in_file = Window.partitionBy(path).orderBy(f"{prefix}block", f"{prefix}row")
    numbered = snapshot.withColumn(number, F.row_number().over(in_file))
    # Values are not quoted; that a column was left without one tells where to look.
    typed = [
        (name, records.frame.schema[name].dataType)
        for name in records.columns
        if not isinstance(records.frame.schema[name].dataType, StringType)
    ]
    empty = [col(name).isNull() for name, _ in typed]
    found = numbered.filter(col(records.bad)).orderBy(path, number).select(path, number, *empty).take(5)
    raise SourceError(
        [
            Problem(
                f"source '{source}': file '{_local_path(file)}', record {record} does not fit the columns: "
                f"a value of another type, or a wrong number of columns{_without_value(typed, flags)}",
                position,
                "correct the file, or read such records with nulls: `options: {mode: PERMISSIVE}`",
            )
            for file, record, *flags in found
        ]
    )


def _without_value(typed: Sequence[tuple[str, DataType]], flags: Sequence[bool]) -> str:
    """The columns of a bad record that have no value. The one that does not match is among them."""
    named = [f"'{name}' ({kind.simpleString()})" for (name, kind), empty in zip(typed, flags, strict=True) if empty]
    return f"; look at column {join_names(named)}" if named else ""
