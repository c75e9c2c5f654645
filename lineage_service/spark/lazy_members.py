"""Members of a breaker's groups, read again by Spark because somebody asks: only of the ids that are asked for."""

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
    """Pairs (a, b) of a group's ids and a handle of its members (`h0`, `h1`, …), those whose `near` is one of `ids`."""
    names = stage.names
    members = stage.pending[space](None)
    handle = names.handle(int(column[1:]))
    pairs = members.select(col(names.group).alias("a"), col(handle).alias("b")).filter("b IS NOT NULL")
    pairs = _filter_by_ids(stage, pairs, near, ids)
    with executing(None, "reading the sources again", stage.folder.home.path):
        pairs.select("a", "b").distinct().write.option("compression", "none").parquet(str(folder))


def write_members(stage: RunWriter, space: Space, ids: list[int], folder: Path) -> None:
    """Members (id, h0, h1, …) of these groups, as often as they are in them."""
    names = stage.names
    members = stage.pending[space](None)
    handles = [name for name in members.columns if name not in (names.group, names.check)]
    shown = [col(name).alias(f"h{number}") for number, name in enumerate(handles)]
    rows = _filter_by_ids(stage, members.select(col(names.group).alias("id"), *shown), "id", ids)
    with executing(None, "reading the sources again", stage.folder.home.path):
        rows.write.option("compression", "none").parquet(str(folder))


def _filter_by_ids(stage: RunWriter, rows: DataFrame, near: str, ids: list[int] | None) -> DataFrame:
    """The rows whose `near` is one of the ids; None: all."""
    if ids is None:
        return rows
    if len(ids) <= FEW:
        return rows.filter(F.col(near).isin(ids)) if ids else rows.filter("false")
    import pyarrow as pa

    wanted = local_frame(stage.spark, pa.table({near: pa.array(ids, pa.int64())}))
    return rows.join(F.broadcast(wanted), near, "left_semi")
