"""Stages: where lowering writes rows and tables; a rehearsal writes nothing and only analyses."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from lineage_service.capture.handles import Space, group_space, window_space
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.capture.workload import DeclaredQuestion
from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.nodes import keeps_order
from lineage_service.progress import Stages, silent
from lineage_service.spark.capture_columns import CaptureColumnNames, col, no_id, with_nullability
from lineage_service.spark.faults import executing
from lineage_service.spark.file_scan import read_files, rows_with_rids, with_row_index
from lineage_service.spark.parquet_types import unreadable_reason, unwritable_reason
from lineage_service.spark.relation import Relation
from lineage_service.store.layout import RunFolder
from lineage_service.store.lineage_tables import Kind, TableRows, parquet_files
from lineage_service.store.output_versions import FileLayout, size_of_folder, version_of_folder
from lineage_service.store.versions import Version

Later = Callable[[DataFrame | None], DataFrame]


def new_salt() -> int:
    return secrets.randbits(62)


class Stage(Protocol):
    """What lowering writes on its way, and what it leaves for later."""

    @property
    def salt(self) -> int:
        """The salt of key hashes."""

    def write_once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        """Writes rows once and returns them read from there."""

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        """Writes a lineage table of ids and handles. `frame` is called only if the table is written."""

    def same_rows(self, space: Space, label: str, handles: Sequence[str], where: str | None = None) -> None:
        """Registers a lineage table that consists of columns of materialised rows: group, check and these handles."""

    def groups(self, each: InstrumentedNode, space: Space, rows: DataFrame, handles: int) -> DataFrame:
        """Writes groups with the list of their members (column `group`), and returns them with their ids in its
        place.
        """

    def write_window_rows(self, each: InstrumentedNode, rows: DataFrame, handles: int) -> DataFrame:
        """Writes a window's rows in their order, with the bounds of what they read, and returns them with their
        positions (column `group`).
        """

    def note_carried_table(self, space: Space, dataset: str, handles: int) -> None:
        """Registers a lineage table that is stored in the rows of a dataset, as a list in its first handle."""

    def defer_table(self, space: Space, members: Later, each: InstrumentedNode) -> None:
        """Leaves a lineage table for later. `members` computes it from the rows of the dataset that carries it."""

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        """Writes a dataset's rows and returns them with their rid as the only handle."""

    def cancel(self) -> None:
        """Cancels running writes."""


class Rehearsal:
    """Writes nothing. Building every DataFrame finds all analysis errors before any job runs.

    What it builds above sources only is reused by the second lowering.
    """

    def __init__(self, names: CaptureColumnNames, salt: int) -> None:
        self.names = names
        self.salt = salt
        self.writes: list[str] = []  # what the real thing will write
        self._built: dict[str, Relation] = {}
        self._left: dict[str, list[Callable[[Stage], None]]] = {}
        self._here = threading.local()  # nodes are lowered side by side, each in one thread

    def record_node(self, each: InstrumentedNode, relation: Relation) -> None:
        """Records a node's rows before they are written as a dataset or materialised."""
        wrote, self._here.wrote = getattr(self._here, "wrote", False), False
        left, self._here.left = getattr(self._here, "left", []), []
        below = all(inner.node.id in self._built and inner.materialised is None for inner in each.inputs)
        if below and not wrote:
            self._built[each.node.id] = relation
            self._left[each.node.id] = left

    def replay_node(self, each: InstrumentedNode, stage: Stage) -> Relation | None:
        """A node's rows as recorded, after passing what it leaves for later to `stage`; None if it was not recorded."""
        for leave in self._left.get(each.node.id, ()):
            leave(stage)
        return self._built.get(each.node.id)

    def write_once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        self._here.wrote = True
        self.writes.append(label)
        _refuse_unwritable(frame.schema, label, position)  # asking also makes a remote session analyse
        return frame

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        _ = frame, position
        self._here.wrote = True
        self.writes.append(space)

    def same_rows(self, space: Space, label: str, handles: Sequence[str], where: str | None = None) -> None:
        """Does nothing, because the rows were registered."""

    def groups(self, each: InstrumentedNode, space: Space, rows: DataFrame, handles: int) -> DataFrame:
        _ = space, handles
        written = self.write_once(f"{each.node.id}:groups", rows, each.node.position)
        return written.withColumn(self.names.group, F.lit(0).cast("bigint"))

    def write_window_rows(self, each: InstrumentedNode, rows: DataFrame, handles: int) -> DataFrame:
        _ = handles
        self._here.wrote = True
        written = rows if each.is_dataset else self.write_once(f"{each.node.id}:ordered", rows, each.node.position)
        return written.withColumn(self.names.group, F.lit(0).cast("bigint"))

    def note_carried_table(self, space: Space, dataset: str, handles: int) -> None:
        self._leave(lambda stage: stage.note_carried_table(space, dataset, handles))

    def defer_table(self, space: Space, members: Later, each: InstrumentedNode) -> None:
        self._leave(lambda stage: stage.defer_table(space, members, each))

    def _leave(self, leave: Callable[[Stage], None]) -> None:
        self._here.left = [*getattr(self._here, "left", []), leave]

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        self.writes.append(each.node.step)
        _refuse_unwritable(relation.frame.schema, each.node.step, each.node.position, is_dataset=True)
        columns = [col(name) for name in relation.columns]
        handles = [F.lit(0).cast("bigint").alias(self.names.handle(0))] if each.handles else []
        return Relation(relation.frame.select(*columns, *handles), relation.columns, len(handles))

    def cancel(self) -> None:
        """Does nothing, because nothing is written."""


@dataclass(frozen=True)
class FailingRows:
    """Rows that fail checks of a step, and the number of the step's handles that each has."""

    step: str
    handles: int


@dataclass
class RunWriter:
    """Writes below the run's folder, and records what it wrote and what is left for later."""

    spark: SparkSession
    names: CaptureColumnNames
    folder: RunFolder
    versions: dict[str, Version] = field(default_factory=dict)
    tables: dict[Space, TableRows] = field(default_factory=dict)
    pending: dict[Space, Later] = field(default_factory=dict)
    stages: Stages = field(default_factory=lambda: Stages(silent))
    failed: dict[str, FailingRows] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    sources: dict[str, Relation] = field(default_factory=dict)
    salt: int = 0
    keeps_windows: bool = True  # whether datasets are written as they are computed, all rows of them
    layouts: Mapping[str, FileLayout] = field(default_factory=dict)
    _copies: dict[str, Path] = field(default_factory=dict)
    _written: dict[str, tuple[InstrumentedNode, Relation]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def write_once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        self._copies[label] = folder = self._new_folder(label)
        self.rows[label] = self._write(frame, folder, f"rows of step '{label.partition(':')[0]}'", position)
        files = [str(path) for path in parquet_files(folder)]
        return with_nullability(read_files(self.spark, files, schema=frame.schema), frame.schema)

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        folder, rows = self._new_folder(space), frame()
        self._write(rows, folder, f"lineage of step '{space.step_name}'", position)
        check = self.names.check if self.names.check in rows.columns else None
        handles = [name for name in rows.columns if name not in (self.names.group, check)]
        self.tables[space] = TableRows("files", self._files(folder), self.names.group, tuple(handles), check)

    def same_rows(self, space: Space, label: str, handles: Sequence[str], where: str | None = None) -> None:
        files = self._files(self._copies[label])
        self.tables[space] = TableRows("files", files, self.names.group, tuple(handles), self.names.check, where)

    def groups(self, each: InstrumentedNode, space: Space, rows: DataFrame, handles: int) -> DataFrame:
        label = f"{each.node.id}:groups"
        folder = self._new_folder(label)
        self._write(rows, folder, f"groups of step '{each.node.step}'", each.node.position)
        nested = self.names.group
        self.tables[space] = TableRows(
            "files", self._files(folder), None, tuple(self.names.handles(handles)), nested=nested
        )
        columns = [name for name in rows.columns if name != nested]
        version = version_of_folder(folder, [(name, "") for name in columns], self.folder)
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        frame = read_files(self.spark, paths, schema=rows.schema)
        return with_nullability(rows_with_rids(frame, version, paths, nested), rows.drop(nested).schema)

    def write_window_rows(self, each: InstrumentedNode, rows: DataFrame, handles: int) -> DataFrame:
        # A task writes its rows as the window gives them: one partition after the other, each in its order.
        order, window = group_space(each.node.id), window_space(each.node.id)
        members = TableRows("files", (), None, tuple(self.names.handles(handles)))
        bounds = tuple(name for index in range(count_frames(each)) for name in self.names.bounds(index))
        frames = TableRows("files", (), None, bounds, framed=True)
        if self.keeps_windows and each.is_dataset:
            # The rows are the dataset's own: positions are its row ids, and the bounds are written with it.
            step = each.node.step
            self.tables[order] = replace(members, within=step)
            self.tables[window] = replace(frames, within=step, carrier=step)
            return rows.withColumn(self.names.group, no_id())
        folder = self._new_folder(f"{each.node.id}:ordered")
        self.rows[each.node.id] = self._write(rows, folder, f"rows of step '{each.node.step}'", each.node.position)
        files = self._files(folder)
        self.tables[order], self.tables[window] = replace(members, files=files), replace(frames, files=files)
        return self._with_positions(rows, folder)

    def _with_positions(self, rows: DataFrame, folder: Path) -> DataFrame:
        """The rows of a folder, with their positions."""
        version = version_of_folder(folder, [(name, "") for name in rows.columns], self.folder)
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        frame = read_files(self.spark, paths, schema=rows.schema)
        return with_nullability(rows_with_rids(frame, version, paths, self.names.group), rows.schema)

    def note_carried_table(self, space: Space, dataset: str, handles: int) -> None:
        columns = tuple(self.names.handles(handles))
        self.tables[space] = TableRows(
            "files", (), None, columns, nested=self.names.handle(0), carrier=dataset, within=dataset
        )

    def defer_table(self, space: Space, members: Later, each: InstrumentedNode) -> None:
        assert each.choice is not None
        kind: Kind = "lazy" if each.choice.strategy == "lazy" else "direct" if each.is_direct else "later"
        direct = each.direct if each.is_direct else None
        self.tables[space] = TableRows(kind, carrier=each.carrier if direct else None, direct=direct)
        self.pending[space] = members

    def capture_deferred(self, space: Space) -> None:
        """Reads a deferred table again and writes it."""
        rows, members = self.tables[space], self.pending[space]
        dataset = self.dataset_rows(rows.carrier).frame if rows.carrier is not None else None
        self.table(space, lambda: members(dataset), None)
        self.tables[space] = replace(self.tables[space], carrier=rows.carrier)

    def write_question_rows(self, question: DeclaredQuestion, columns: Sequence[str]) -> TableRows:
        """Writes rows for a declared question as a table of ids and values."""
        from lineage_service.spark.workload_rows import question_rows

        step = question.far[0].name
        relation = self.sources[step] if question.far[0].is_source else self.dataset_rows(step)
        folder, rows = self._new_folder(f"side-{question.name}"), question_rows(question, relation, columns, self.names)
        self._write(rows, folder, f"rows for '{question.name}'", None)
        values = [name for name in rows.columns if name != self.names.group]
        return TableRows("files", self._files(folder), self.names.group, tuple(values))

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        step = each.node.step
        folder = self.folder.dataset(step)
        layout, frame = self.layouts.get(step, FileLayout()), relation.frame
        frame = frame if layout.partitions is None else frame.repartition(layout.partitions)
        self._write(frame, folder, f"step '{step}'", each.node.position, kept=relation.handles, by=layout.by)
        self.versions[step] = version_of_folder(folder, relation.schema_types(), self.folder)
        self._written[step] = (each, relation)
        return self.dataset_rows(step) if each.read else relation

    def schema_of(self, step: str) -> StructType:
        """The columns of a dataset, without its handles."""
        _, relation = self._written[step]
        schema = relation.frame.schema
        return StructType([schema[name] for name in relation.columns])

    def dataset_rows(self, step: str) -> Relation:
        """A dataset's rows as its readers see them. Opened with the first call."""
        if step not in self.relations:
            each, relation = self._written[step]
            self.relations[step] = dataset_relation(each, relation, self.versions[step], self.folder, self.names)
        return self.relations[step]

    def is_dataset(self, step: str) -> bool:
        return step in self.versions

    def write_failing_rows(self, name: str, step: str, relation: Relation, position: Position | None) -> DataFrame:
        """Writes rows that fail checks of a step as a dataset, and returns them with their ids.

        Those are the step's row ids if it is a dataset, otherwise their own.
        """
        folder = self.folder.dataset(name)
        frame = relation.frame
        if relation.handles and self.is_dataset(step):
            frame = frame.orderBy(self.names.handle(0))
        self._write(frame, folder, f"rows that fail checks of '{step}'", position, kept=relation.handles)
        version = version_of_folder(folder, relation.schema_types(), self.folder)
        self.versions[name] = version
        self.failed[name] = FailingRows(step, relation.handles)
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        written = read_files(self.spark, paths, schema=frame.schema)
        if relation.handles and self.is_dataset(step):
            return written.withColumnRenamed(self.names.handle(0), self.names.row)
        return rows_with_rids(written, version, paths, self.names.row)

    def cancel(self) -> None:
        with suppress(Exception):  # a session that cannot interrupt will end its jobs by itself
            self.spark.interruptAll()

    def _new_folder(self, label: str) -> Path:
        """A folder that does not exist yet, even after an attempt that was interrupted."""
        paths = (self.folder.lineage / f"{number}-{self._safe_label(label)}" for number in self._numbers)
        return next(path for path in paths if not path.exists())

    def _safe_label(self, label: str) -> str:
        return re.sub(r"[^a-z0-9_]+", "-", label)

    def _files(self, folder: Path) -> tuple[str, ...]:
        return tuple(self.folder.home.relative(path) for path in parquet_files(folder))

    def _write(
        self,
        frame: DataFrame,
        folder: Path,
        what: str,
        position: Position | None,
        kept: int | None = None,
        by: Sequence[str] = (),
    ) -> int:
        """Writes rows and returns their number. Rows that are `kept`, with so many handles, are compressed well. `by`:
        columns by whose values files are divided; the files keep them."""
        folders = {self.names.partition(index): col(name) for index, name in enumerate(by)}
        frame = frame.withColumns(folders) if folders else frame
        ours = [name for name in frame.columns if name.startswith(self.names.prefix)]
        options = {f"parquet.enable.dictionary#{name}": "false" for name in ours}
        options |= {"compression": "none"} if kept is None else {"parquet.writer.version": "PARQUET_2_0"}
        with self.stages.stage(f"writing {what}") as written, executing(position, what, self.folder.home.path):
            frame.write.options(**options).parquet(str(folder), partitionBy=list(folders) or None)
            rows, written.bytes = size_of_folder(folder)
            written.rows = rows
        return rows


def count_frames(each: InstrumentedNode) -> int:
    """The number of intervals whose bounds a window's rows have."""
    return next(table.frames for table in each.tables if table.frames)


def dataset_relation(
    each: InstrumentedNode, relation: Relation, version: Version, folder: RunFolder, names: CaptureColumnNames
) -> Relation:
    """A dataset's rows as its readers see them, read from its files. `relation` is what was written."""
    if version.is_patched:
        return _patched_relation(each, relation, version, folder, names)
    paths = [folder.home.absolute(file.path) for file in version.files]
    schema = with_row_index(relation.frame.schema, paths)
    frame = read_files(relation.frame.sparkSession, paths, schema=schema)
    rows = with_nullability(rows_with_rids(frame, version, paths, names.handle(0)), relation.frame.schema)
    if keeps_order(each.node):
        rows = rows.orderBy(names.handle(0))  # files are not read back in order
    if not each.handles:
        return Relation(rows.drop(names.handle(0)), relation.columns, 0)
    return Relation(rows, relation.columns, 1)


def _patched_relation(
    each: InstrumentedNode, relation: Relation, version: Version, folder: RunFolder, names: CaptureColumnNames
) -> Relation:
    """A dataset that a refresh made, which shares files with an earlier version. Its order is not kept."""
    from lineage_service.spark.open_sources import SourceOpener

    opener = SourceOpener(relation.frame.sparkSession, folder)
    found = opener.reopen_dataset(each.node.step, version).relation(names, captured=bool(each.handles))
    return Relation(found.frame, relation.columns, found.handles)


def _refuse_unwritable(schema: StructType, label: str, position: Position | None, *, is_dataset: bool = False) -> None:
    """Raises WorkflowError before the run for a column that Parquet cannot store."""
    for each in schema.fields:
        reason = unwritable_reason(each.dataType) or (unreadable_reason(each.dataType) if is_dataset else None)
        if reason:
            step = label.partition(":")[0]
            raise WorkflowError(
                Problem(
                    f"step '{step}': column '{each.name}' cannot be written to Parquet: {reason}",
                    position,
                    "cast it to another type before this step",
                )
            )
