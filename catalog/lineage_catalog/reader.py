"""Reads the catalog; nothing here writes. Runs that failed a check are found only by their id."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, Select, case, func, select
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, DamagedCatalog, catalog_label, short_message
from lineage_catalog.records import (
    ColumnRecord,
    DatasetRecord,
    HopRecord,
    PreparedRecord,
    RunRecord,
    StepRecord,
    SubjectRecord,
    VersionRecord,
)
from lineage_catalog.seals import all_broken_scopes, scope_text

Record = TypeVar("Record")

_RUN = [column for column in models.runs.c if column.name not in ("ordinal", "content")]
_HELD = case((models.runs.c.status.in_(("committed", "failed")), 1))  # null if the run's records were removed
_LATEST = select(models.runs.c.id).order_by(models.runs.c.ordinal.desc()).limit(1).scalar_subquery()
_ERASURES = select(func.count()).select_from(models.erasures).scalar_subquery()
_STAMP = select(func.coalesce(func.max(models.runs.c.ordinal), 0), func.count(_HELD), _ERASURES, _LATEST)
_HOP = [column for column in models.hops.c if column.name != "ordinal"]
_COMMITTED = models.runs.c.status == "committed"
_STEP = [column for column in models.run_steps.c if column.name != "run_id"]


class Stamp(NamedTuple):
    """A state of the catalog's runs: the last ordinal, how many runs are held, how many erasures there were, and the
    run of that ordinal (an ordinal is given again where a failed run was taken out)."""

    ordinal: int
    held: int
    erasures: int
    latest: str | None

    def only_adds_to(self, before: Stamp) -> bool:
        """Whether runs were only added since: none was removed, replaced or changed."""
        added = self.ordinal - before.ordinal
        if added == 0:
            return self == before
        return added > 0 and self.held - before.held == added and self.erasures == before.erasures


class _Snapshot(threading.local):
    """The transaction in which a thread's question reads the catalog."""

    active = False
    lost = False  # its connection broke: nothing more can be read in it
    connection: Connection | None = None
    stamp: Stamp | None = None


class CatalogReader:
    """Answers about committed runs. Inside of `snapshot` all calls of a thread see one state of the catalog; outside,
    each sees the state of its moment.

    CatalogError where the database cannot be read: locked, damaged, gone.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._snapshot = _Snapshot()

    # --- snapshots --------------------------------------------------------------------------------------------

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One state of the catalog for all that this thread reads inside: one transaction, begun by the first read.

        Snapshots nest; the outermost one counts. No writer waits for it, nor does it wait for one: SQLite keeps a
        write-ahead log, PostgreSQL reads with REPEATABLE READ.
        """
        here = self._snapshot
        if here.active:
            yield
            return
        here.active, here.lost = True, False
        try:
            yield
        finally:
            self._end_snapshot()

    @property
    def in_snapshot(self) -> bool:
        """Whether this thread is inside a snapshot."""
        return self._snapshot.active

    def release(self) -> None:
        """Ends this thread's snapshot before the end of its block: to be called before the same thread writes. A
        SQLite that cannot keep a write-ahead log would wait for itself."""
        self._end_snapshot()

    def _end_snapshot(self) -> None:
        here = self._snapshot
        connection, here.connection, here.stamp, here.active = here.connection, None, None, False
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()

    # --- runs -------------------------------------------------------------------------------------------------

    def runs(
        self, workflow: str | None = None, limit: int | None = None, *, status: str = "committed"
    ) -> list[RunRecord]:
        """Runs of a status, newest first."""
        query = select(*_RUN).where(models.runs.c.status == status).order_by(models.runs.c.ordinal.desc()).limit(limit)
        if workflow is not None:
            query = query.where(models.runs.c.workflow == workflow)
        return self._records(query, RunRecord)

    def run(self, run_id: str) -> RunRecord | None:
        """Returns the run with exactly this id, committed or kept because checks failed."""
        return next(iter(self._records(select(*_RUN).where(models.runs.c.id == run_id), RunRecord)), None)

    def unfinished_runs(self) -> list[RunRecord]:
        """Runs whose lineage is not complete, oldest first."""
        query = select(*_RUN).where(models.runs.c.lineage != "complete").order_by(models.runs.c.ordinal)
        return self._records(query, RunRecord)

    def stamp(self) -> Stamp:
        """Returns a value that changes whenever a run is committed or removed: names may then mean other datasets."""
        if self.in_snapshot and self._snapshot.stamp is not None:
            return self._snapshot.stamp
        (row,) = self._rows(_STAMP)
        found = Stamp(int(row[0]), int(row[1]), int(row[2]), row[3])
        if self.in_snapshot:
            self._snapshot.stamp = found
        return found

    def latest_run(self, workflow: str) -> RunRecord | None:
        found = self.runs(workflow, limit=1)
        return found[0] if found else None

    def latest_runs(self) -> list[RunRecord]:
        """The latest committed run of each workflow."""
        table = models.runs
        latest = select(func.max(table.c.ordinal)).where(_COMMITTED).group_by(table.c.workflow)
        return self._records(select(*_RUN).where(table.c.ordinal.in_(latest)).order_by(table.c.workflow), RunRecord)

    def runs_with_prefix(self, prefix: str) -> list[RunRecord]:
        query = select(*_RUN).where(models.runs.c.id.startswith(prefix, autoescape=True)).limit(20)
        return self._records(query.order_by(models.runs.c.ordinal.desc()), RunRecord)

    def workflows(self) -> list[str]:
        query = select(models.runs.c.workflow).where(_COMMITTED).distinct().order_by(models.runs.c.workflow)
        return [str(row[0]) for row in self._rows(query)]

    def steps(self, run_id: str) -> list[StepRecord]:
        return self._records(select(*_STEP).where(models.run_steps.c.run_id == run_id), StepRecord)

    def datasets(self, run_id: str) -> list[DatasetRecord]:
        query = select(models.run_datasets).where(models.run_datasets.c.run_id == run_id)
        return self._records(
            query.order_by(models.run_datasets.c.role.desc(), models.run_datasets.c.name), DatasetRecord
        )

    def latest_runs_of_owners(self, name: str) -> list[RunRecord]:
        """The latest run of each workflow that has, or had, a dataset of that name."""
        committed = select(models.runs.c.id).where(_COMMITTED)
        # The sources of a saved query have the names of their own workflows.
        queries = select(models.runs.c.id).where(models.runs.c.capture == "query")
        table = models.run_datasets
        owners = select(table.c.workflow).where(
            table.c.name == name,
            table.c.run_id.in_(committed),
            (table.c.role != "source") | table.c.run_id.not_in(queries),
        )
        latest = (
            select(func.max(models.runs.c.ordinal))
            .where(models.runs.c.workflow.in_(owners), _COMMITTED)
            .group_by(models.runs.c.workflow)
        )
        query = select(*_RUN).where(models.runs.c.ordinal.in_(latest)).order_by(models.runs.c.workflow)
        return self._records(query, RunRecord)

    def readers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        """Returns the datasets of committed runs that read one of these versions as a source."""
        table = models.run_datasets
        committed = select(models.runs.c.id).where(_COMMITTED)
        query = select(table).where(
            table.c.version_id.in_(version_ids), table.c.role == "source", table.c.run_id.in_(committed)
        )
        return self._records(query, DatasetRecord)

    def makers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        """The runs' outputs and kept steps that are one of these versions."""
        table = models.run_datasets
        query = select(table).where(table.c.version_id.in_(version_ids), table.c.role != "source")
        return self._records(query, DatasetRecord)

    def outputs_written_to(self, place: str) -> list[DatasetRecord]:
        """Outputs of committed runs in whose declaration this text is a place that a program has written; the latest
        first.
        """
        table = models.run_datasets
        query = (
            select(table)
            .join(models.runs, models.runs.c.id == table.c.run_id)
            .where(_COMMITTED, table.c.role == "output")
            .where(table.c.declared.contains(json.dumps({"place": place})[1:-1], autoescape=True))
            .order_by(models.runs.c.ordinal.desc())
        )
        return self._records(query, DatasetRecord)

    def version(self, version_id: str) -> VersionRecord | None:
        query = select(models.dataset_versions).where(models.dataset_versions.c.id == version_id)
        return next(iter(self._records(query, VersionRecord)), None)

    def columns(self, run_id: str) -> list[ColumnRecord]:
        """The columns of a run's datasets, in their order; none of a run that was made before they were kept."""
        table = models.dataset_columns
        query = select(table).where(table.c.run_id == run_id).order_by(table.c.dataset, table.c.ordinal)
        return self._records(query, ColumnRecord)

    def hops(self, run_id: str) -> list[HopRecord]:
        query = select(*_HOP).where(models.hops.c.run_id == run_id).order_by(models.hops.c.ordinal)
        return self._records(query, HopRecord)

    def prepared_questions(self, run_id: str) -> list[PreparedRecord]:
        """Returns the files prepared for the declared questions of a run."""
        query = select(*models.prepared.c).where(models.prepared.c.run_id == run_id).order_by(models.prepared.c.name)
        return self._records(query, PreparedRecord)

    def files(self, run_id: str) -> dict[str, str]:
        """The checksums of the files in a run's folder, by path there; none of a run made before they were kept."""
        table = models.run_files
        rows = self._rows(select(table.c.path, table.c.sums).where(table.c.run_id == run_id))
        return {str(row[0]): str(row[1]) for row in rows}

    def subjects(self, version_id: str) -> list[SubjectRecord]:
        """Returns the indexes of persons of a version, by kind of person and column."""
        table = models.subject_rows
        return self._records(select(table).where(table.c.version_id == version_id), SubjectRecord)

    def erasures(self) -> int:
        """Returns the number of erasures and rectifications that have changed runs."""
        (row,) = self._rows(select(func.count()).select_from(models.erasures))
        return int(row[0])

    def erased_hashes(self, kind: str) -> dict[str, str]:
        """The keyed hashes of persons of a kind that were erased, each with the id of its key."""
        table = models.erased_subjects
        rows = self._rows(select(table.c.hash, table.c.key_id).where(table.c.kind == kind))
        return {str(row[0]): str(row[1]) for row in rows}

    def content(self, run_id: str) -> str | None:
        """The workflow as JSON, as the run read it: variables replaced, with privacy, subjects, pii, workload."""
        row = next(iter(self._rows(select(models.runs.c.content).where(models.runs.c.id == run_id))), None)
        return None if row is None else str(row[0])

    def broken_scopes(self) -> list[str]:
        """Describes everything that is damaged."""
        with self.snapshot():
            return [scope_text(scope) for scope in all_broken_scopes(self._rows)]

    def close(self) -> None:
        self._end_snapshot()
        self.engine.dispose()

    def _records(self, query: Select[Any], record: type[Record]) -> list[Record]:
        rows = self._rows(query)
        try:
            return [record(**row._mapping) for row in rows]
        except ValueError as error:  # a text that is no space, or no form of lineage
            raise DamagedCatalog(f"cannot read {catalog_label(self.engine)}: it is damaged") from error

    def _rows(self, query: Select[Any], parameters: Mapping[str, Any] | None = None, /) -> Sequence[Any]:
        """Executes a query; all answers use this. Raises CatalogError if the database fails."""
        try:
            with self.connection() as connection:
                return connection.execute(query, parameters).all()
        except SQLAlchemyError as error:
            self._drop_connection()
            raise CatalogError(f"cannot read {catalog_label(self.engine)}: {short_message(error)}") from error
        except (ValueError, TypeError, OverflowError) as error:  # a value that does not have its column's type
            self._drop_connection()
            raise DamagedCatalog(f"cannot read {catalog_label(self.engine)}: it is damaged") from error

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection to read with: that of the snapshot, else one whose statements see one state."""
        here = self._snapshot
        if not self.in_snapshot:
            with self._open_connection() as connection:
                yield connection
            return
        if here.lost:
            raise CatalogError("the catalog could not be read while a question was answered", "ask again")
        if here.connection is None:
            here.connection = self._open_connection()
        yield here.connection

    def _open_connection(self) -> Connection:
        connection = self.engine.connect()
        if self.engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        return connection

    def _drop_connection(self) -> None:
        """After an error the next question gets a new connection: a server may be back by then. The question at hand
        has lost its snapshot and must not go on with another."""
        connection, self._snapshot.connection = self._snapshot.connection, None
        self._snapshot.lost = True
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
            with suppress(SQLAlchemyError):
                connection.close()
