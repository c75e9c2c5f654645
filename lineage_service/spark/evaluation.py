"""Evaluates the plan of a committed run again, to examine the input and output rows of each step.

The run is not changed. Materialised rows are written to a temporary folder of the question. Datasets are not computed
again for their readers, who get the rows that the run wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Handle, Role, Space, Table, group_space, window_space
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan
from lineage_service.errors import Position
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.file_scan import read_files, rows_with_rids
from lineage_service.spark.lowering import lower_plan
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import RunWriter, count_frames, dataset_relation
from lineage_service.store.versions import Version


@dataclass
class Evaluation(RunWriter):
    """The result of lowering a plan for an evaluation: the rows of each node, and the members of each breaker's
    groups.
    """

    keeps_windows: bool = False
    temporary: Path = field(default_factory=Path)
    target: str = ""
    computed: dict[str, Relation] = field(default_factory=dict)  # by node, with the handles that the operator gives
    read: dict[str, Relation] = field(default_factory=dict)  # by node, as its readers see it
    members: dict[Space, DataFrame] = field(default_factory=dict)
    _frames: dict[str, DataFrame] = field(default_factory=dict)

    def _new_folder(self, label: str) -> Path:
        return self.temporary / f"{next(self._numbers)}-{self._safe_label(label)}"

    def write_once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        self._frames[label] = copy = super().write_once(label, frame, position)
        return copy

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        _ = position
        rows = frame()
        self.members[space] = rows.drop(self.names.check) if self.names.check in rows.columns else rows

    def same_rows(self, space: Space, label: str, handles: Sequence[str], where: str | None = None) -> None:
        rows = self._frames[label] if where is None else self._frames[label].filter(where)
        numbered = [col(name).alias(self.names.handle(index)) for index, name in enumerate(handles)]
        self.members[space] = rows.select(col(self.names.group), *numbered)

    def write_window_rows(self, each: InstrumentedNode, rows: DataFrame, handles: int) -> DataFrame:
        placed = super().write_window_rows(each, rows, handles)
        position = col(self.names.group)
        self.members[group_space(each.node.id)] = placed.select(position, *map(col, self.names.handles(handles)))
        bounds = [name for index in range(count_frames(each)) for name in self.names.bounds(index)]
        self.members[window_space(each.node.id)] = placed.select(
            position, *[(position + col(name)).alias(name) for name in bounds]
        )
        return placed

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        self.computed[each.node.id] = relation
        if each.node.step == self.target:
            return relation
        return dataset_relation(each, relation, self.versions[each.node.step], self.folder, self.names)

    def written_rows(self, version: Version, *, in_order: bool) -> Relation:
        """A dataset of the run as its readers see it."""
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        frame = rows_with_rids(read_files(self.spark, paths), version, paths, self.names.handle(0))
        columns = tuple(column.name for column in version.columns)
        return Relation(frame.orderBy(self.names.handle(0)) if in_order else frame, columns, 1)

    def write_temporary(self, frame: DataFrame, label: str, what: str) -> DataFrame:
        """Writes temporary rows once and returns them read from there."""
        folder = self._new_folder(label)
        self._write(frame, folder, what, None)
        return read_files(self.spark, [str(path) for path in sorted(folder.glob("*.parquet"))], schema=frame.schema)


def evaluate_plan(
    plan: InstrumentedPlan, relations: Mapping[str, Relation], stage: Evaluation, names: CaptureColumnNames
) -> Evaluation:
    stage.read = lower_plan(plan, relations, stage, names)
    for node_id, relation in stage.read.items():
        stage.computed.setdefault(node_id, relation)
    return stage


@dataclass
class RowProvenance:
    """Determines which of the requested rows are behind the ids of each space.

    asked: the rids of the requested rows; None for all
    pairs: (id, rid, role) of datasets from the index
    start: the dataset of the requested rows; None if the pairs determine that too
    """

    stage: Evaluation
    plan: InstrumentedPlan
    start: Space | None
    asked: DataFrame | None
    pairs: Mapping[Space, DataFrame]
    most: Role = Role.OWN
    _found: dict[Space, DataFrame | None] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.stage.names.prefix}id"

    @property
    def rid(self) -> str:
        return f"{self.stage.names.prefix}rid"

    def rows(self, frame: DataFrame, handles: Sequence[tuple[int, Handle]], kept: Sequence[str] = ()) -> DataFrame:
        """(rid, kept…): the requested rows behind each row of a frame, by the handles at these places."""
        found: DataFrame | None = None
        for place, handle in handles:
            part = self._rows_behind_handle(frame, place, handle, kept)
            if part is not None:
                found = part if found is None else found.unionByName(part)
        if found is None:
            return frame.select(F.lit(None).cast("bigint").alias(self.rid), *map(col, kept)).filter("false")
        return found

    def _rows_behind_handle(
        self, frame: DataFrame, place: int, handle: Handle, kept: Sequence[str]
    ) -> DataFrame | None:
        if handle.role > self.most:
            return None
        name = self.stage.names.handle(place)
        if handle.space == self.start and self.asked is None:
            return frame.select(col(name).alias(self.rid), *map(col, kept)).filter(col(self.rid).isNotNull())
        pairs = self.pairs_behind(handle.space)
        if pairs is None:
            return None
        narrow = frame.select(col(name), *map(col, kept))
        return narrow.join(pairs, col(name) == col(self.id)).select(col(self.rid), *map(col, kept))

    def pairs_behind(self, space: Space) -> DataFrame | None:
        """(id, rid) of a space; None if no requested row is behind any of its ids."""
        if space not in self._found:
            self._found[space] = self._pairs(space)
        return self._found[space]

    def _pairs(self, space: Space) -> DataFrame | None:
        if space == self.start:
            return (
                None if self.asked is None else self.asked.select(col("rid").alias(self.id), col("rid").alias(self.rid))
            )
        if space in self.pairs:
            rows = self.pairs[space].filter(col("role") <= int(self.most))
            return rows.select(col("id").alias(self.id), col("rid").alias(self.rid))
        for each in self.plan.nodes:
            for table in each.tables:
                if table.space == space and table.frames:
                    return self._pairs_of_frames(table)
                if table.space == space and table.everything is None:
                    return self._pairs_of_members(space, table.handles)
        return None

    def _pairs_of_frames(self, table: Table) -> DataFrame | None:
        """The requested rows behind a window's rows, by the intervals that those read."""
        behind = self.pairs_behind(table.handles[0].space)
        if behind is None:
            return None
        names, frames = self.stage.names, self.stage.members[table.space]
        found: DataFrame | None = None
        for index in range(table.frames):
            lo, hi = names.bounds(index)
            inside = col(self.id).between(col(lo), col(hi))
            part = frames.join(behind, inside).select(col(names.group), col(self.rid))
            found = part if found is None else found.union(part)
        assert found is not None
        rows = found.select(col(names.group).alias(self.id), col(self.rid)).distinct()
        step = table.space.step_name
        return self.stage.write_temporary(rows, f"reach-{table.space}", f"rows behind step '{step}'")

    def _pairs_of_members(self, space: Space, handles: Sequence[Handle]) -> DataFrame | None:
        names = self.stage.names
        members, numbered = self.stage.members[space], list(enumerate(handles))
        reached = any(
            handle.role <= self.most and (handle.space == self.start or self.pairs_behind(handle.space) is not None)
            for handle in handles
        )
        if not reached:
            return None
        rows = self.rows(members, numbered, [names.group])
        found = rows.select(col(names.group).alias(self.id), col(self.rid)).distinct()
        return self.stage.write_temporary(found, f"reach-{space}", f"rows behind step '{space.step_name}'")
