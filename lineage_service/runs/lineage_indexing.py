"""Builds lineage after the outputs are committed: captures deferred lineage, indexes it, and commits it in one write.

The command that ran the workflow, `index`, and a question that needs the lineage all do the same work. Each holds the
lock of the run's folder; the second one waits and finds the work done.
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

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.errors import LineageError, SourceError, StoreError
from lineage_service.index.hops import Hop
from lineage_service.index.index_builder import IndexBuilder
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
    from lineage_service.spark.spark_types import SparkSession
    from lineage_service.spark.staging import RunWriter

MOST_FOR_DUCKDB = 400_000_000  # rows of lineage tables above which Spark builds the index


@dataclass
class LineageBuild:
    """Builds one run's lineage.

    versions: the versions of its sources and datasets, by space
    writing: returns the stage that reads deferred lineage again; starts Spark if necessary
    engine: the engine that builds the index
    declared: the persons declared for rows of sources
    known: the subject indexes recorded for a version before
    """

    folder: RunFolder
    tables: LineageTables
    versions: Mapping[Space, Version]
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
        """Captures and indexes. Nothing is visible yet. Raises LineageError if it fails."""
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
            with stages.stage("recording the persons of rows"):
                self.subjects = index_sources(self.folder, self.declared, self.versions, self.known)
        self._refuse_changed()
        self.seconds["index"] = round(time.monotonic() - captured, 3)

    def _uses_spark(self) -> bool:
        """Whether Spark builds the index: because it was requested, or because the index is large. Spark finds members
        in sources by itself.
        """
        return self.engine == "spark" or (self.engine == "auto" and self._count_rows() > MOST_FOR_DUCKDB)

    def _direct_spaces(self) -> list[Space]:
        return [space for space, rows in self.tables.rows.items() if rows.kind == "direct"]

    def lineage(self, report: Mapping[str, Any] | None) -> Lineage:
        """The catalog records of the lineage."""
        run_id = self.folder.run_id
        return Lineage(
            run_id,
            "complete",
            None,
            tuple(hop_record(hop, run_id, self.folder) for hop in self.hops),
            None if report is None else json.dumps(report),
            tuple((space.name, count) for space, count in self.members.items() if space.is_group),
            tuple(prepared_record(each, run_id, self.folder) for each in self.prepared),
            self.subjects,
            tuple(self._files()),
        )

    def _files(self) -> list[FileRecord]:
        """The run's files. Those of the commit are as recorded then."""
        written = noted_before(self.folder, "data", "sources", SETTINGS)
        return noted_files(self.folder, known=written, without=None if self._is_lazy else self.folder.lineage)

    @property
    def _is_lazy(self) -> bool:
        return any(rows.kind == "lazy" and rows.direct is None for rows in self.tables.rows.values())

    def clear(self) -> None:
        """Removes the tables that the index was built from, except lineage that is captured on demand."""
        if not self._is_lazy:
            shutil.rmtree(self.folder.lineage, ignore_errors=True)

    def _refuse_changed(self) -> None:
        """Raises an error if the sources have changed, because deferred lineage would be wrong."""
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
                        f"source '{space.name}' has changed since run '{self.folder.run_id}' read it: "
                        f"file '{file.path}'; its lineage was to be captured later and cannot be captured any more",
                        hint="the outputs are kept; run the workflow again, or with --capture stage",
                    )

    def _capture(self, spaces: list[Space], stages: Stages) -> None:
        writing = self._writing()
        writing.stages = stages
        for space in spaces:
            writing.capture_deferred(space)
            if writing.tables[space].carrier != self.tables.rows[space].carrier:
                raise AssertionError(f"the members of '{space}' are now found in another way than the run planned")
        self.tables = replace(
            self.tables, rows={**self.tables.rows, **{space: writing.tables[space] for space in spaces}}
        )

    def _evaluate(self, stages: Stages) -> None:
        """Lets Spark evaluate the expressions of declared questions that may differ in DuckDB."""
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
            # DuckDB rejects data that Spark accepts, such as text that is not UTF-8. Then Spark computes the pairs.
            self._capture(direct, stages)
            self._finish()

    def _finish(self) -> None:
        shutil.rmtree(
            self.folder.index, ignore_errors=True
        )  # left by an earlier attempt; a complete index is never rebuilt
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
        """The locations of all tables. Members stored in a dataset's rows are in that dataset's files."""
        found = {}
        for space, rows in self.tables.rows.items():
            if rows.within is not None:
                files = tuple(file.path for file in self.versions[step_space(rows.within)].files)
                found[space] = replace(rows, files=files)
            else:
                found[space] = rows
        return found

    def _count_rows(self) -> int:
        """The number of rows that the index is built from: those of tables, and of sources that are scanned."""
        from lineage_service.store.versions import parquet_rows

        tables = self.tables.rows.values()
        files = {file for rows in tables if rows.carrier is None and rows.within is None for file in rows.files}
        sources = {
            source_space(name) for rows in tables if rows.direct and not rows.files for name in rows.direct.sources
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
    """Spark's index engine. Its temporary tables are dropped on exit."""

    def __init__(self, spark: SparkSession, folder: RunFolder) -> None:
        from lineage_service.spark.spark_index_engine import SparkIndexEngine

        self.folder: Path = folder.lineage / "kept"
        self.engine = SparkIndexEngine(spark, folder.home, self.folder)

    def __enter__(self) -> IndexEngine:
        return self.engine

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def build_lineage(build: LineageBuild, stages: Stages) -> LineageError | None:
    """Builds the lineage. Returns an error instead of raising it, because the outputs are committed already."""
    try:
        build.build(stages)
    except LineageError as error:
        return error
    except Exception as error:
        if not _is_duckdb(error):
            raise
        return StoreError(f"the index could not be made: DuckDB reports {type(error).__name__}")
    return None
