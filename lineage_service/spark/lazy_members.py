"""Reads members of a breaker's groups again for a question: those of the requested ids only."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space
from lineage_service.spark.capture_columns import col
from lineage_service.spark.faults import executing
from lineage_service.spark.spark_session import local_frame
from lineage_service.spark.staging import RunWriter

FEW = 200  # so many ids are spelled out, and can be pushed into the scan


def write_pairs(stage: RunWriter, space: Space, column: str, ids: list[int] | None, near: str, folder: Path) -> None:
    """Writes pairs (a, b) of group ids and one handle of their members (`h0`, `h1`, …), where column `near` has one of
    `ids`.
    """
    names = stage.names
    members = stage.pending[space](None)
    handle = names.handle(int(column[1:]))
    pairs = members.select(col(names.group).alias("a"), col(handle).alias("b")).filter("b IS NOT NULL")
    pairs = _filter_by_ids(stage, pairs, near, ids)
    with executing(None, "reading the sources again", stage.folder.home.path):
        pairs.select("a", "b").distinct().write.option("compression", "none").parquet(str(folder))


def write_members(stage: RunWriter, space: Space, ids: list[int], folder: Path) -> None:
    """Writes the members (id, h0, h1, …) of these groups, including duplicates."""
    names = stage.names
    members = stage.pending[space](None)
    handles = [name for name in members.columns if name not in (names.group, names.check)]
    shown = [col(name).alias(f"h{number}") for number, name in enumerate(handles)]
    rows = _filter_by_ids(stage, members.select(col(names.group).alias("id"), *shown), "id", ids)
    with executing(None, "reading the sources again", stage.folder.home.path):
        rows.write.option("compression", "none").parquet(str(folder))


def _filter_by_ids(stage: RunWriter, rows: DataFrame, near: str, ids: list[int] | None) -> DataFrame:
    """The rows whose column `near` has one of the ids; all rows for None."""
    if ids is None:
        return rows
    if len(ids) <= FEW:
        return rows.filter(F.col(near).isin(ids)) if ids else rows.filter("false")
    import pyarrow as pa

    wanted = local_frame(stage.spark, pa.table({near: pa.array(ids, pa.int64())}))
    return rows.join(F.broadcast(wanted), near, "left_semi")
