"""Lowers the plan of a committed run again, over what it read and wrote, to capture lineage that was deferred.

Rows that the run wrote are not computed again: datasets are read from its versions, and materialised rows from its
folder if they still exist. Everything else is read again from the sources, which must be unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan
from lineage_service.errors import Position
from lineage_service.spark.capture_columns import CaptureColumnNames
from lineage_service.spark.file_scan import read_files, rows_with_rids
from lineage_service.spark.lowering import lower_plan
from lineage_service.spark.relation import Relation
from lineage_service.spark.source_relation import OpenSource
from lineage_service.spark.staging import RunWriter
from lineage_service.store.layout import RunFolder
from lineage_service.store.output_versions import version_of_folder
from lineage_service.store.versions import Version


@dataclass
class Rereading(RunWriter):
    """A stage that writes nothing."""

    def write_once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        _ = position
        copy = self._copy(label)
        if copy is None:
            return frame
        return read_files(self.spark, [str(path) for path in sorted(copy.glob("*.parquet"))], schema=frame.schema)

    def _copy(self, label: str) -> Path | None:
        """The folder of materialised rows that the run wrote, if it still exists."""
        safe = self._safe_label(label)
        found = [path for path in self.folder.lineage.glob(f"*-{safe}") if path.name.partition("-")[2] == safe]
        return found[0] if len(found) == 1 and any(found[0].glob("*.parquet")) else None

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        if space in self.pending:  # captured now; what the run wrote itself is there
            super().table(space, frame, position)

    def same_rows(self, space: Space, label: str, handles: Sequence[str], where: str | None = None) -> None:
        """Does nothing, because the run wrote this table."""

    def groups(self, each: InstrumentedNode, space: Space, rows: DataFrame, handles: int) -> DataFrame:
        _ = space, handles
        copy = self._copy(f"{each.node.id}:groups")
        if copy is None:
            return rows.withColumn(self.names.group, F.lit(None).cast("bigint"))
        columns = [name for name in rows.columns if name != self.names.group]
        version = version_of_folder(copy, [(name, "") for name in columns], self.folder)
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        return rows_with_rids(read_files(self.spark, paths, schema=rows.schema), version, paths, self.names.group)

    def write_window_rows(self, each: InstrumentedNode, rows: DataFrame, handles: int) -> DataFrame:
        _ = handles
        copy = self._copy(f"{each.node.id}:ordered")
        if copy is None:
            return rows.withColumn(self.names.group, F.lit(None).cast("bigint"))
        return self._with_positions(rows, copy)

    def note_carried_table(self, space: Space, dataset: str, handles: int) -> None:
        """Does nothing, because the run wrote this table."""

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        step = each.node.step
        self._written[step] = (each, relation)
        return self.dataset_rows(step)


def reread_plan(
    plan: InstrumentedPlan,
    sources: Mapping[str, OpenSource],
    versions: Mapping[str, Version],
    folder: RunFolder,
    names: CaptureColumnNames,
    salt: int,
) -> Rereading:
    """The plan over what the run read and wrote (`versions`, by step), with ids for every row. Nothing is
    computed yet.
    """
    spark = next(iter(sources.values())).frame.sparkSession
    stage = Rereading(spark, names, folder, versions=dict(versions), salt=salt)
    relations = {
        name: source.relation(names, captured=True, pruned=name in plan.unreached_sources)
        for name, source in sources.items()
    }
    stage.sources = relations
    lower_plan(plan, relations, stage, names)
    return stage
