"""Windows captured by an earlier version: each row has a handle to its partition, whose rows are all its peers.

Needed only to read such a run again for deferred capture, whose pairs must be those that the run would have stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import group_space
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.capture.strategies import LATER
from lineage_service.spark.capture_columns import CaptureColumnNames, col, cols, field_types
from lineage_service.spark.key_hashes import is_hashable, key_hashes
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import Stage


def partition_ids(
    below: Relation, keys: Sequence[str], stage: Stage, names: CaptureColumnNames
) -> tuple[Relation, dict[str, Column]]:
    """The input of a window, and the ids of its partitions as columns over it: hashes of the keys, otherwise the
    smallest row number.
    """
    types = field_types(below.frame, keys)
    if all(map(is_hashable, types)):
        group, check = key_hashes(below.frame, [col(key) for key in keys], types, stage.salt)
        return below, {names.group: group, names.check: check}
    numbered = below.frame.withColumn(names.row, F.monotonically_increasing_id())
    smallest = F.min(col(names.row)).over(Over.partitionBy(*map(col, keys)))
    return Relation(numbered, below.columns, below.handles), {names.group: smallest}


def rows_with_partitions(
    each: InstrumentedNode,
    computed: Relation,
    below: Relation,
    keys: Sequence[str],
    stage: Stage,
    names: CaptureColumnNames,
) -> DataFrame:
    """A window's rows with the ids of their partitions. The members of partitions are passed to the stage."""
    assert each.choice is not None
    space, handles = group_space(each.node.id), names.handles(below.handles)
    if each.choice.strategy in LATER:

        def members(_: DataFrame | None) -> DataFrame:
            group, check = key_hashes(
                below.frame, [col(key) for key in keys], field_types(below.frame, keys), stage.salt
            )
            rows = below.frame.withColumns({names.group: group, names.check: check})
            return rows.select(col(names.group), col(names.check), *cols(handles))

        stage.defer_table(space, members, each)
        return computed.frame
    staged = stage.write_once(each.node.id, computed.frame, each.node.position)
    stage.same_rows(space, each.node.id, handles)
    return staged
