"""Rows of an evaluation for questions about lost rows, as DataFrames that are written to files for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame

from lineage_service.capture.handles import Handle, Role
from lineage_service.spark.capture_columns import col
from lineage_service.spark.evaluation import RowProvenance
from lineage_service.spark.faults import executing


def rids_behind_node(reach: RowProvenance, node: str, handles: Sequence[Handle]) -> DataFrame:
    """(rid): the requested rows behind the rows of a node, including those that are only peers of a window."""
    everything = replace(reach, most=Role.PEER, _found={})
    rows = everything.rows(reach.stage.computed[node].frame, list(enumerate(handles)))
    return rows.select(col(reach.rid).alias("rid")).distinct()


def values_behind_node(
    reach: RowProvenance, node: str, handles: Sequence[Handle], columns: Mapping[str, str], rids: Sequence[int]
) -> DataFrame:
    """(rid, columns…): for these requested rows, the values of the node's rows that derive from them. `columns` maps
    the node's columns to their names in the result.
    """
    below = reach.stage.read[node]
    frame = below.frame.select(
        *[col(name).alias(place) for name, place in columns.items()],
        *[col(reach.stage.names.handle(index)) for index in range(below.handles)],
    )
    rows = reach.rows(frame, list(enumerate(handles)), list(columns.values()))
    return rows.filter(col(reach.rid).isin(list(rids))).withColumnRenamed(reach.rid, "rid")


def union_rows(frames: Sequence[DataFrame]) -> DataFrame:
    """The union of frames with equal columns."""
    return reduce(DataFrame.unionByName, frames)


def write_rows(frame: DataFrame, folder: Path, home: Path) -> None:
    """Writes rows to Parquet files in a folder."""
    with executing(None, "evaluating the steps again", home):
        frame.write.mode("overwrite").parquet(str(folder))
