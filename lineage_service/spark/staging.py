"""Where lowered relations are written: for real, or not at all when only the analysis is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, StructType

from lineage_service.capture.handles import Space
from lineage_service.capture.instrument import Instrumented
from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.nodes import keeps_order
from lineage_service.progress import Stages, silent
from lineage_service.spark.columns import Names, col, with_nullability
from lineage_service.spark.faults import executing
from lineage_service.spark.relation import Relation
from lineage_service.spark.scan import read_files, rows_with_rids
from lineage_service.store.layout import RunFolder
from lineage_service.store.versions import Version
from lineage_service.store.written import size_of_folder, version_of_folder


class Stage(Protocol):
    """What lowering needs written on its way."""

    def once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        """The same rows, computed once and read from there."""

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        """A lineage table: ids and handles; built only where it is written."""

    def dataset(self, each: Instrumented, relation: Relation) -> Relation:
        """A dataset's rows, kept; readers see them with their rid as the one handle."""

    def cancel(self) -> None:
        """Ends what is still being written."""


class Rehearsal:
    """Writes nothing: building every DataFrame finds what Spark's analyser finds, before any job runs."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.writes: list[str] = []  # what the real thing will write

    def once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        self.writes.append(label)
        _refuse_unwritable(frame.schema, label, position)  # asking also makes a remote session analyse
        return frame

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        _ = frame, position
        self.writes.append(space)

    def dataset(self, each: Instrumented, relation: Relation) -> Relation:
        self.writes.append(each.node.step)
        _refuse_unwritable(relation.frame.schema, each.node.step, each.node.position)
        columns = [col(name) for name in relation.columns]
        handles = [F.lit(0).cast("bigint").alias(self.names.handle(0))] if each.handles else []
        return Relation(relation.frame.select(*columns, *handles), relation.columns, len(handles))

    def cancel(self) -> None:
        """Nothing is being written."""


@dataclass(frozen=True)
class Failing:
    """Rows that fail checks of a step: how many handles each carries, the step's own."""

    step: str
    handles: int


@dataclass
class Writing:
    """Writes below the run's folder and remembers what it wrote."""

    spark: SparkSession
    names: Names
    folder: RunFolder
    versions: dict[str, Version] = field(default_factory=dict)
    tables: dict[Space, Path] = field(default_factory=dict)
    stages: Stages = field(default_factory=lambda: Stages(silent))
    failed: dict[str, Failing] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def once(self, label: str, frame: DataFrame, position: Position | None) -> DataFrame:
        folder = self._fresh(label)
        self.rows[label] = self._write(frame, folder, f"rows of step '{label.partition(':')[0]}'", position)
        files = sorted(str(path) for path in folder.glob("*.parquet"))
        return with_nullability(read_files(self.spark, files, schema=frame.schema), frame.schema)

    def table(self, space: Space, frame: Callable[[], DataFrame], position: Position | None) -> None:
        folder = self._fresh(space)
        self._write(frame(), folder, f"lineage of step '{space.partition(':')[2].partition(':')[0]}'", position)
        self.tables[space] = folder

    def dataset(self, each: Instrumented, relation: Relation) -> Relation:
        step = each.node.step
        folder = self.folder.dataset(step)
        self._write(relation.frame, folder, f"step '{step}'", each.node.position)
        version = version_of_folder(folder, relation.schema_types(), self.folder)
        self.versions[step] = version
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        frame = read_files(self.spark, paths, schema=relation.frame.schema)
        rows = with_nullability(rows_with_rids(frame, version, paths, self.names.handle(0)), relation.frame.schema)
        if keeps_order(each.node):
            rows = rows.orderBy(self.names.handle(0))  # files are not read back in order
        if not each.handles:
            return Relation(rows.drop(self.names.handle(0)), relation.columns, 0)
        return Relation(rows, relation.columns, 1)

    def is_dataset(self, step: str) -> bool:
        return step in self.versions

    def failing(self, name: str, step: str, relation: Relation, position: Position | None) -> DataFrame:
        """Rows that fail checks of a step, kept as a dataset; read back with the ids they are named by.

        Those are the step's own where it is a dataset, else their own.
        """
        folder = self.folder.dataset(name)
        frame = relation.frame
        if relation.handles and self.is_dataset(step):
            frame = frame.orderBy(self.names.handle(0))
        self._write(frame, folder, f"rows that fail checks of '{step}'", position)
        version = version_of_folder(folder, relation.schema_types(), self.folder)
        self.versions[name] = version
        self.failed[name] = Failing(step, relation.handles)
        paths = [self.folder.home.absolute(file.path) for file in version.files]
        written = read_files(self.spark, paths, schema=frame.schema)
        if relation.handles and self.is_dataset(step):
            return written.withColumnRenamed(self.names.handle(0), self.names.row)
        return rows_with_rids(written, version, paths, self.names.row)

    def cancel(self) -> None:
        # A session that cannot interrupt will end its jobs by itself; the run has failed either way.
        with suppress(Exception):
            self.spark.interruptAll()

    def _fresh(self, label: str) -> Path:
        safe = re.sub(r"[^a-z0-9_]+", "-", label)
        return self.folder.temporary / f"{next(self._numbers)}-{safe}"

    def _write(self, frame: DataFrame, folder: Path, what: str, position: Position | None) -> int:
        with self.stages.stage(f"writing {what}") as written, executing(position, what, self.folder.home.path):
            frame.write.parquet(str(folder))
            rows, written.bytes = size_of_folder(folder)
            written.rows = rows
        return rows


def _refuse_unwritable(schema: StructType, label: str, position: Position | None) -> None:
    """WorkflowError before the run for a column that Parquet cannot hold: its rows could not be written once."""
    for each in schema.fields:
        reason = unwritable(each.dataType)
        if reason:
            step = label.partition(":")[0]
            raise WorkflowError(
                Problem(
                    f"step '{step}': column '{each.name}' cannot be written to Parquet: {reason}",
                    position,
                    "turn it into another type before this step",
                )
            )


def unwritable(kind: DataType) -> str | None:
    if isinstance(kind, CalendarIntervalType):
        return "a calendar interval has no Parquet type"
    if isinstance(kind, ArrayType):
        return unwritable(kind.elementType)
    if isinstance(kind, MapType):
        return unwritable(kind.keyType) or unwritable(kind.valueType)
    if isinstance(kind, StructType):
        names = [each.name.lower() for each in kind.fields]
        if not names:
            return "a struct without fields has no Parquet type"
        if len(set(names)) < len(names):
            return "a struct has two fields whose names differ in case only"
        return next((reason for each in kind.fields if (reason := unwritable(each.dataType))), None)
    return None
