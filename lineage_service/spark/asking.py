"""Members of a breaker's groups, read again by Spark because somebody asks: only of the ids that are asked for."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space
from lineage_service.spark.columns import col
from lineage_service.spark.faults import executing
from lineage_service.spark.staging import Writing

FEW = 200  # so many ids are spelled out, and can be pushed into the scan


def write_asked(stage: Writing, space: Space, column: str, ids: list[int] | None, near: str, folder: Path) -> None:
    """Pairs (a, b) of a group's ids and a handle of its members (`h0`, `h1`, …), those whose `near` is one of `ids`."""
    names = stage.names
    members = stage.pending[space](None)
    handle = names.handle(int(column[1:]))
    pairs = members.select(col(names.group).alias("a"), col(handle).alias("b")).filter("b IS NOT NULL")
    if ids is not None and len(ids) <= FEW:
        pairs = pairs.filter(F.col(near).isin(ids)) if ids else pairs.filter("false")
    elif ids is not None:
        import pyarrow as pa

        wanted = stage.spark.createDataFrame(pa.table({near: pa.array(ids, pa.int64())}))
        pairs = pairs.join(F.broadcast(wanted), near, "left_semi")
    with executing(None, "reading the sources again", stage.folder.home.path):
        pairs.select("a", "b").distinct().write.option("compression", "none").parquet(str(folder))
