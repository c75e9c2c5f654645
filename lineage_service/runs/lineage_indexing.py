"""Lineage after the outputs: what a run left is captured where it was deferred, indexed, and committed in one write.

The same work is done by the command that ran the workflow, by `index`, and by a question that needs it. Whoever does it
holds the lock of the run's folder; who comes second waits, and finds it done.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import FileRecord, Lineage, SubjectRecord

from lineage_service.capture.handles import Space
from lineage_service.errors import LineageError, SourceError, StoreError
from lineage_service.index.index_builder import Hop, IndexBuilder
from lineage_service.index.index_engine import IndexEngine, duckdb_index_engine
from lineage_service.index.prepared_files import PreparedFile, covered_columns
from lineage_service.progress import Stages
from lineage_service.runs.run_report import Pairs, hop_record, prepared_record
from lineage_service.store.checksums import noted_before, noted_files
from lineage_service.store.layout import RunFolder
from lineage_service.store.lineage_tables import LineageTables, TableRows
from lineage_service.store.session_settings import FILE as SETTINGS
from lineage_service.store.versions import Version, has_changed
from lineage_service.subjects.source_indexing import Known, index_sources
from lineage_service.subjects.subject_index import DeclaredSubject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_service.spark.staging import RunWriter

MOST_FOR_DUCKDB = 400_000_000  # rows of lineage tables: past that Spark makes the index


@dataclass
class LineageBuild:
    """One run's lineage on its way into the catalog.

    versions: of its sources and datasets, by space · writing: gives the stage that reads again what was deferred;
    it starts Spark where it is not there yet · engine: who makes the index · declared: whose the rows of sources are ·
    known: what was noted of a version before
    """

    folder: RunFolder
    tables: LineageTables
    versions: Mapping[str, Version]
    writing: Callable[[], RunWriter]
    engine: str = "auto"
    declared: Sequence[DeclaredSubject] = ()
    known: Known = field(default=lambda _: ())
    seconds: dict[str, float] = field(default_factory=lambda: {"capture": 0.0, "index": 0.0})
    hops: list[Hop] = field(default_factory=list)
    pairs: Pairs = field(default_factory=dict)
    members: dict[Space, int] = field(default_factory=dict)
    prepared: list[PreparedFile] = field(default_factory=list)
    sides: dict[str, TableRows] = field(default_factory=dict)
    subjects: tuple[SubjectRecord, ...] = ()
    _stage: RunWriter | None = None

    def build(self, stages: Stages) -> None:
        """Captures and indexes; nothing of it is visible yet. LineageError where it cannot be done."""
        began = time.monotonic()
        self._refuse_changed()
        later = self.tables.pending
        if self._uses_spark():
            later += self._direct_spaces()
        if later:
            self._capture(later, stages)
        self._evaluate(stages)
        captured = time.monotonic()
        self.seconds["capture"] = round(captured - began, 3)
        with stages.stage("indexing lineage") as written:
            self._index(stages)
            written.rows = sum(hop.rows for hop in self.hops) + sum(each.rows for each in self.prepared)
            written.bytes = sum(hop.bytes for hop in self.hops) + sum(each.bytes for each in self.prepared)
        if self.declared:
            with stages.stage("noting whose rows are whose"):
                self.subjects = index_sources(self.folder, self.declared, self.versions, self.known)
        self._refuse_changed()
        self.seconds["index"] = round(time.monotonic() - captured, 3)

    def _uses_spark(self) -> bool:
        """Whether Spark makes the index: as asked for, or since it is large. It finds members in sources by itself."""
        return self.engine == "spark" or (self.engine == "auto" and self._count_rows() > MOST_FOR_DUCKDB)

    def _direct_spaces(self) -> list[Space]:
        return [space for space, rows in self.tables.rows.items() if rows.kind == "direct"]

    def lineage(self, report: Mapping[str, Any] | None) -> Lineage:
        """What the catalog will hold of it."""
        run_id = self.folder.run_id
        return Lineage(
            run_id,
            "complete",
            None,
            tuple(hop_record(hop, run_id, self.folder) for hop in self.hops),
            None if report is None else json.dumps(report),
            tuple(
                (space.partition(":")[2], count) for space, count in self.members.items() if space.startswith("group:")
            ),
            tuple(prepared_record(each, run_id, self.folder) for each in self.prepared),
            self.subjects,
            tuple(self._files()),
        )

    def _files(self) -> list[FileRecord]:
        """The run's files; those of the commit as they were noted then."""
        written = noted_before(self.folder, "data", "sources", SETTINGS)
        return noted_files(self.folder, known=written, without=None if self._is_lazy else self.folder.lineage)

    @property
    def _is_lazy(self) -> bool:
        return any(rows.kind == "lazy" and rows.direct is None for rows in self.tables.rows.values())

    def clear(self) -> None:
        """Removes what the index was made from, except for what is only captured when asked for."""
        if not self._is_lazy:
            shutil.rmtree(self.folder.lineage, ignore_errors=True)

    def _refuse_changed(self) -> None:
        """Tables that were deferred are only right as long as the sources are what the run read."""
        if (
            all(rows.kind == "files" for rows in self.tables.rows.values())
            and not self.tables.workload.prepared_questions
        ):
            return
        for space, version in self.versions.items():
            if version.kind != "source":
                continue
            for file in version.files:
                if has_changed(file, self.folder.home.absolute(file.path)):
                    raise SourceError(
                        f"source '{space.partition(':')[2]}' has changed since run '{self.folder.run_id}' read it: "
                        f"file '{file.path}'; its lineage was left for later and cannot be captured any more",
                        hint="the outputs are kept; run the workflow again, or with --capture stage",
                    )

    def _capture(self, spaces: list[Space], stages: Stages) -> None:
        writing = self._writing()
        writing.stages = stages
        for space in spaces:
            writing.capture_deferred(space)
            if writing.tables[space].carrier != self.tables.rows[space].carrier:
                raise AssertionError(f"the members of '{space}' are now found another way than the run had planned")
        self.tables = replace(
            self.tables, rows={**self.tables.rows, **{space: writing.tables[space] for space in spaces}}
        )

    def _evaluate(self, stages: Stages) -> None:
        """Has Spark evaluate what declared questions need of their rows, where DuckDB might mean something else."""
        for question in self.tables.workload.prepared_questions:
            by_duckdb = question.alike is not None or (question.kind == "rows" and question.where is None)
            if question.kind == "witnesses" or (by_duckdb and not self._uses_spark()) or question.name in self.sides:
                continue
            writing = self._writing()
            writing.stages = stages
            version = self.versions[question.far[0]]
            columns = covered_columns(question, [each.name for each in version.columns])
            self.sides[question.name] = writing.write_question_rows(question, columns)

    def _writing(self) -> RunWriter:
        self._stage = self._stage or self.writing()
        return self._stage

    def _index(self, stages: Stages) -> None:
        try:
            self._finish()
        except Exception as error:
            direct = self._direct_spaces()
            if not direct or not _is_duckdb(error):
                raise
            # DuckDB refuses what Spark has read, such as text that is no UTF-8: then Spark finds the pairs.
            self._capture(direct, stages)
            self._finish()

    def _finish(self) -> None:
        shutil.rmtree(self.folder.index, ignore_errors=True)  # of an earlier try: a complete index is never made again
        self.folder.index.mkdir(parents=True)
        with self._open_engine() as engine:
            finisher = IndexBuilder(
                self.tables.tables,
                self._rows(),
                self.versions,
                self.folder.home,
                self.folder.index,
                engine,
                workload=self.tables.workload,
                sides=self.sides,
            )
            self.hops, self.pairs, self.members = finisher.build(), finisher.pairs, finisher.members
            self.prepared = finisher.prepared

    def _open_engine(self) -> AbstractContextManager[IndexEngine]:
        if self._uses_spark() and not self._direct_spaces():
            return _spark_engine(self._writing().spark, self.folder)
        return duckdb_index_engine(self.folder.temporary / "spill", self.folder.home, self.versions)

    def _rows(self) -> dict[Space, TableRows]:
        """Where all tables are: what rides in a dataset's rows is in that dataset's files."""
        found = {}
        for space, rows in self.tables.rows.items():
            if rows.within is not None:
                files = tuple(file.path for file in self.versions[f"step:{rows.within}"].files)
                found[space] = replace(rows, files=files)
            else:
                found[space] = rows
        return found

    def _count_rows(self) -> int:
        from lineage_service.store.versions import parquet_rows

        """Rows that the index is made from: of tables, and of sources that are looked through."""
        tables = self.tables.rows.values()
        files = {file for rows in tables if rows.carrier is None and rows.within is None for file in rows.files}
        sources = {
            f"source:{name}" for rows in tables if rows.direct and not rows.files for name in rows.direct.sources
        }
        read = sum(self.versions[source].rows for source in sources)
        return read + sum(parquet_rows(self.folder.home.absolute(file)) for file in files)


def _is_duckdb(error: Exception) -> bool:
    import duckdb

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, duckdb.Error) and not isinstance(cause, duckdb.OutOfMemoryException):
            return True
        cause = cause.__cause__
    return False


class _spark_engine:  # noqa: N801 (reads as a verb at its one use)
    """Spark's index engine, whose temporary tables go when it is left."""

    def __init__(self, spark: SparkSession, folder: RunFolder) -> None:
        from lineage_service.spark.spark_index_engine import SparkIndexEngine

        self.folder: Path = folder.lineage / "kept"
        self.engine = SparkIndexEngine(spark, folder.home, self.folder)

    def __enter__(self) -> IndexEngine:
        return self.engine

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def build_lineage(settling: LineageBuild, stages: Stages) -> LineageError | None:
    """Settles; gives the reason instead of raising it where it cannot be done: the outputs are there all the same."""
    try:
        settling.build(stages)
    except LineageError as error:
        return error
    except Exception as error:
        if not _is_duckdb(error):
            raise
        return StoreError(f"the index could not be made: DuckDB reports {type(error).__name__}")
    return None
