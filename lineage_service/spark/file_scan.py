"""Reads versions: rows with rids, computed from file name and position in the file, without shuffle or extra pass.

Filters and columns are still pushed into the scan, because the rid is computed above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import LongType, StructField, StructType

from lineage_service.errors import SourceError
from lineage_service.spark.capture_columns import col, decision_tree
from lineage_service.spark.faults import OWN_FAULT
from lineage_service.spark.file_schema import parse_schema_text, schema_of_files
from lineage_service.spark.spark_session import local_frame
from lineage_service.store.checksums import verify
from lineage_service.store.patched_rids import AS, AT
from lineage_service.store.rids import RidMap
from lineage_service.store.versions import Version

# A column of this name that a schema asks for is filled with the row's position in its file: it is what Spark's
# `_metadata.row_index` is made from, without a struct around it. Nobody promises it, so each value is looked at.
ROW_INDEX = "_tmp_metadata_row_index"

# Up to so many files (or gaps) the look-up is an expression; beyond, a broadcast join.
MOST_BRANCHES = 128


def escape_glob(path: str) -> str:
    """A path with glob characters escaped, so that Spark's reader takes it literally."""
    return "".join("\\" + char if char in "\\*?[]{}," else char for char in path)


def read_files(
    spark: SparkSession,
    files: Sequence[str],
    *,
    base: str | None = None,
    schema: StructType | str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads Parquet files by exact name. Partition columns come from the folders below `base`."""
    verify(*files)
    reader = spark.read.options(**dict(options or {}))
    if base is not None:
        reader = reader.option("basePath", base)
    if schema is None and not options and not _in_folders(files, base):
        schema = schema_of_files(files)
    if schema is not None:
        # Spark's reader refuses `name: TYPE`, which other parts of Spark accept in a schema.
        reader = reader.schema(parse_schema_text(schema) if isinstance(schema, str) else schema)
    return reader.parquet(*[escape_glob(file) for file in files])


def _in_folders(files: Sequence[str], base: str | None) -> bool:
    """Whether folder names may define columns."""
    return base is not None and any("=" in file.removeprefix(base) for file in files)


def with_row_index(schema: StructType, files: Sequence[str]) -> StructType:
    """The schema with a column of row positions, if these are sufficient for rids: for a single file."""
    if len(files) != 1 or any(field.name.lower() == ROW_INDEX for field in schema.fields):
        return schema
    return StructType([*schema.fields, StructField(ROW_INDEX, LongType())])


def in_utc(spark: SparkSession, text: str | None) -> str | None:
    """A timestamp in a folder name, which is in the session's time zone, as text with the same meaning everywhere."""
    if text is None:
        return None
    moment = F.to_utc_timestamp(F.lit(text).cast("timestamp"), F.current_timezone())
    found = spark.range(1).select(F.date_format(moment, "yyyy-MM-dd HH:mm:ss.SSSSSS")).first()
    return f"{found[0]}+00" if found else None


def rows_with_rids(frame: DataFrame, version: Version, paths: Sequence[str], name: str) -> DataFrame:
    """The columns of a version under the user's names, with rids as column `name`."""
    placed = _with_positions(frame, version, paths, name)
    return placed if version.is_dense or version.is_patched else positions_to_rids(placed, version.rids, name)


def apply_patch(frame: DataFrame, version: Version, absolute: Callable[[str], str], name: str) -> DataFrame:
    """Removes the excluded rows of files whose positions are in column `name`, and replaces positions by
    assigned rids.
    """
    for file in version.files:
        if file.only is not None:
            given = _read_positions(frame, absolute(file.only), name, given=True)
            joined = frame.join(given, col(name) == col(f"{name}_at") + F.lit(file.base), "inner")
            frame = joined.drop(name, f"{name}_at").withColumnRenamed(f"{name}_as", name)
        elif file.without is not None:
            gone = _read_positions(frame, absolute(file.without), name, given=False)
            frame = frame.join(gone, col(name) == col(f"{name}_at") + F.lit(file.base), "left_anti")
    return frame


def _read_positions(frame: DataFrame, path: str, name: str, *, given: bool) -> DataFrame:
    """A file of positions (and rids) with column names that no other column has."""
    schema = ", ".join(f"{each} BIGINT" for each in ((AT, AS) if given else (AT,)))
    side = read_files(frame.sparkSession, [path], schema=schema)
    names = {AT: f"{name}_at", AS: f"{name}_as"}
    return side.select(*[col(each).alias(names[each]) for each in side.columns])


def _with_positions(frame: DataFrame, version: Version, paths: Sequence[str], name: str) -> DataFrame:
    columns = [col(column.original).alias(column.name) for column in version.columns]
    if len(paths) == 1 and ROW_INDEX in frame.columns:
        index = F.coalesce(col(ROW_INDEX), _raise_fault("Spark returned a row without its position"))
        return frame.select(*columns, _position_in_version(index, version).alias(name))
    metadata = frame.metadataColumn("_metadata")
    path, index = metadata.getField("file_path"), metadata.getField("row_index")
    if len(paths) == 1:
        return frame.select(*columns, _position_in_version(index, version).alias(name))
    bases = dict(zip(_scan_names(frame, paths), (file.base for file in version.files), strict=True))
    # A file nobody knows must stop the run: a wrong rid is worse.
    stop = _raise_fault("the scan read a file that was not listed")
    if len(bases) <= MOST_BRANCHES:
        leaves = [
            (scanned, F.when(path == F.lit(scanned), F.lit(first).cast("bigint")).otherwise(stop))
            for scanned, first in sorted(bases.items())
        ]
        return frame.select(*columns, (decision_tree(path, leaves) + index).alias(name))
    table = _arrow_frame(frame, {f"{name}_path": list(bases), f"{name}_base": list(bases.values())})
    placed = frame.select(*columns, path.alias(f"{name}_path"), index.alias(f"{name}_index"))
    joined = placed.join(F.broadcast(table), f"{name}_path", "left")
    position = F.coalesce(col(f"{name}_base"), stop) + col(f"{name}_index")
    return joined.select(*[col(c.name) for c in version.columns], position.alias(name))


def _position_in_version(index: Column, version: Version) -> Column:
    """The position in a single file as position in the version."""
    base = version.files[0].base
    return index if base == 0 else index + F.lit(base).cast("bigint")


def unread_rids() -> Column:
    """A column in place of rids that must not be read. The optimiser removes it if nothing reads it; otherwise
    evaluating it fails the run.
    """
    return _raise_fault("ids of rows are read that were left out")


def _raise_fault(message: str) -> Column:
    return F.raise_error(F.lit(f"{OWN_FAULT}{message}")).cast("bigint")


def positions_to_rids(frame: DataFrame, rids: RidMap, name: str) -> DataFrame:
    """The rows with positions in column `name` replaced by rids."""
    position, kept = col(name), [col(each) for each in frame.columns if each != name]
    if len(rids.segments) <= MOST_BRANCHES:
        segments = [(start, F.lit(ahead).cast("bigint")) for start, ahead in rids.segments]
        return frame.select(*kept, (position + decision_tree(position, segments)).alias(name))
    width = max(1, rids.rows // len(rids.segments))
    block, before, segs = f"{name}_block", f"{name}_before", f"{name}_segments"
    joined = frame.withColumn(block, F.floor(position / F.lit(width))).join(
        F.broadcast(_arrow_frame(frame, _blocks(rids, width, (block, before, segs)))), block, "left"
    )
    ahead = F.aggregate(
        col(segs), col(before), lambda last, seg: F.when(seg["start"] <= position, seg["ahead"]).otherwise(last)
    )
    return joined.select(*kept, (position + ahead).alias(name))


def _blocks(rids: RidMap, width: int, names: tuple[str, str, str]) -> dict[str, list[Any]]:
    """For each block of `width` positions, the offset of rids before it and the segments that begin in it."""
    blocks = -(-rids.rows // width)
    inside: list[list[dict[str, int]]] = [[] for _ in range(blocks)]
    for start, ahead in rids.segments:
        inside[start // width].append({"start": start, "ahead": ahead})
    before, last = [], 0
    for found in inside:
        before.append(last)
        last = found[-1]["ahead"] if found else last
    return dict(zip(names, (list(range(blocks)), before, inside), strict=True))


def _arrow_frame(frame: DataFrame, columns: dict[str, list[Any]]) -> DataFrame:
    """A small table as DataFrame, passed as Arrow, which needs no job and no Python worker."""
    import pyarrow as pa

    return local_frame(frame.sparkSession, pa.table(columns))


def _scan_names(frame: DataFrame, paths: Sequence[str]) -> list[str]:
    """The name under which the scan reports each path, percent-encoded as in Spark."""
    reported: dict[str, str] = {}
    for uri in frame.inputFiles():
        plain = uri.removeprefix("file://") if uri.startswith("file:///") else uri.removeprefix("file:")
        reported[unquote(plain)] = f"file:{plain}"
    missing = [path for path in paths if path not in reported]
    if missing or len(reported) != len(paths):
        raise SourceError(
            f"Spark reads other files than were listed; first difference: '{(missing or [*reported])[0]}'"
        )
    return [reported[path] for path in paths]
