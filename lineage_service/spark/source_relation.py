"""An opened source: its version, its files as Spark reads them, and its rows with rids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.errors import Position, Problem, SourceError
from lineage_service.plan.schema import Column, Schema
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.file_scan import apply_patch, read_files, rows_with_rids, unread_rids, with_row_index
from lineage_service.spark.relation import Relation
from lineage_service.store.versions import Version, has_changed


@dataclass(frozen=True)
class OpenSource:
    """An opened source: its version, and its files as Spark reads them (including partition columns).

    alike: columns whose values every engine reads alike
    options: Spark's reader options
    parts: of a patched version, the files shared with the earlier version, and each file of added rows
    """

    name: str
    version: Version
    paths: tuple[str, ...]
    frame: DataFrame
    position: Position | None
    alike: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[OpenSource, ...] = ()
    absolute: Callable[[str], str] = str

    @property
    def schema(self) -> Schema:
        return Schema(
            tuple(Column(each.name, each.type, each.name in self.alike, each.pii) for each in self.version.columns)
        )

    def relation(
        self, names: CaptureColumnNames, *, captured: bool, placed: bool = True, pruned: bool = False
    ) -> Relation:
        """The rows. If lineage is captured, their rid is the only handle; it must not be read unless `placed`, and is
        null if `pruned`, because no question needs it.
        """
        columns = tuple(column.name for column in self.version.columns)
        if self.parts:
            return self._patched_rows(names, columns, captured=captured, pruned=pruned)
        if captured and placed and not pruned:
            return Relation(
                rows_with_rids(self._frame_with_positions(), self.version, self.paths, names.handle(0)), columns, 1
            )
        handle = F.lit(None).cast("bigint") if pruned else unread_rids()
        handles = [handle.alias(names.handle(0))] if captured else []
        shown = [col(column.original).alias(column.name) for column in self.version.columns]
        return Relation(self.frame.select(*shown, *handles), columns, len(handles))

    def _patched_rows(
        self, names: CaptureColumnNames, columns: tuple[str, ...], *, captured: bool, pruned: bool
    ) -> Relation:
        """The rows of a patched version. Their ids determine which rows count, so ids are always read."""
        handle = names.handle(0)
        frames = [
            apply_patch(
                rows_with_rids(part._frame_with_positions(), part.version, part.paths, handle),
                part.version,
                self.absolute,
                handle,
            )
            for part in self.parts
        ]
        frame = frames[0].select(*map(col, columns), col(handle))
        for other in frames[1:]:
            frame = frame.union(other.select(*map(col, columns), col(handle)))
        if pruned:
            frame = frame.withColumn(handle, F.lit(None).cast("bigint"))
        return Relation(frame if captured else frame.drop(handle), columns, int(captured))

    def _frame_with_positions(self) -> DataFrame:
        """The rows with their positions, if these can be requested by schema. Not possible if a folder defines a
        column.
        """
        if any(column.partition is not None for column in self.version.columns):
            return self.frame
        schema = with_row_index(self.frame.schema, self.paths)
        if schema == self.frame.schema:
            return self.frame
        return read_files(self.frame.sparkSession, self.paths, schema=schema, options=self.options)

    def refuse_changed(self) -> None:
        """Raises SourceError if a file has changed since the run began."""
        if self.version.kind != "source":
            return
        for file, path in zip(self.version.files, self.paths, strict=True):
            if has_changed(file, path):
                message = f"source '{self.name}' changed while the run was reading it: file '{path}'"
                raise SourceError(Problem(message, self.position, "run again when it is complete"))
