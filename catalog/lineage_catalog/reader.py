"""Reading the catalog; nothing here writes. Runs that failed a check are found by their id alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, case, func, select
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, named, short_message
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

Record = TypeVar("Record")

_RUN = [column for column in models.runs.c if column.name not in ("ordinal", "content")]
_HELD = case((models.runs.c.status.in_(("committed", "failed")), 1))  # null where nothing is held any more
_STAMP = select(func.coalesce(func.max(models.runs.c.ordinal), 0), func.count(_HELD))
_HOP = [column for column in models.hops.c if column.name != "ordinal"]
_COMMITTED = models.runs.c.status == "committed"
_STEP = [column for column in models.run_steps.c if column.name != "run_id"]


class CatalogReader:
    """Answers about committed runs. Each call sees the state of its moment; a run once seen never changes.

    CatalogError where the database cannot be read: locked, damaged, gone.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._connection: Connection | None = None

    def runs(
        self, workflow: str | None = None, limit: int | None = None, *, status: str = "committed"
    ) -> list[RunRecord]:
        """Runs of a status, newest first."""
        query = select(*_RUN).where(models.runs.c.status == status).order_by(models.runs.c.ordinal.desc()).limit(limit)
        if workflow is not None:
            query = query.where(models.runs.c.workflow == workflow)
        return self._all(query, RunRecord)

    def run(self, run_id: str) -> RunRecord | None:
        """The run of just that id, committed or kept for its failed checks."""
        return next(iter(self._all(select(*_RUN).where(models.runs.c.id == run_id), RunRecord)), None)

    def unfinished_runs(self) -> list[RunRecord]:
        """Runs whose lineage is not complete, oldest first."""
        query = select(*_RUN).where(models.runs.c.lineage != "complete").order_by(models.runs.c.ordinal)
        return self._all(query, RunRecord)

    def stamp(self) -> tuple[int, int]:
        """Changes whenever a run is committed or taken out: what was found by name before may then be another."""
        (row,) = self._rows(_STAMP)
        return int(row[0]), int(row[1])

    def latest_run(self, workflow: str) -> RunRecord | None:
        found = self.runs(workflow, limit=1)
        return found[0] if found else None

    def runs_with_prefix(self, prefix: str) -> list[RunRecord]:
        query = select(*_RUN).where(models.runs.c.id.startswith(prefix, autoescape=True)).limit(20)
        return self._all(query.order_by(models.runs.c.ordinal.desc()), RunRecord)

    def workflows(self) -> list[str]:
        query = select(models.runs.c.workflow).where(_COMMITTED).distinct().order_by(models.runs.c.workflow)
        return [str(row[0]) for row in self._rows(query)]

    def steps(self, run_id: str) -> list[StepRecord]:
        return self._all(select(*_STEP).where(models.run_steps.c.run_id == run_id), StepRecord)

    def datasets(self, run_id: str) -> list[DatasetRecord]:
        query = select(models.run_datasets).where(models.run_datasets.c.run_id == run_id)
        return self._all(query.order_by(models.run_datasets.c.role.desc(), models.run_datasets.c.name), DatasetRecord)

    def latest_runs_of_owners(self, name: str) -> list[RunRecord]:
        """The latest run of each workflow that has, or had, a dataset of that name."""
        committed = select(models.runs.c.id).where(_COMMITTED)
        # What a saved query reads goes by its own workflow's name.
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
        return self._all(query, RunRecord)

    def readers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        """Every committed run's dataset that is one of these versions, as a source."""
        table = models.run_datasets
        committed = select(models.runs.c.id).where(_COMMITTED)
        query = select(table).where(
            table.c.version_id.in_(version_ids), table.c.role == "source", table.c.run_id.in_(committed)
        )
        return self._all(query, DatasetRecord)

    def makers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        """The runs' outputs and kept steps that are one of these versions."""
        table = models.run_datasets
        query = select(table).where(table.c.version_id.in_(version_ids), table.c.role != "source")
        return self._all(query, DatasetRecord)

    def version(self, version_id: str) -> VersionRecord | None:
        query = select(models.dataset_versions).where(models.dataset_versions.c.id == version_id)
        return next(iter(self._all(query, VersionRecord)), None)

    def columns(self, run_id: str) -> list[ColumnRecord]:
        """The columns of a run's datasets, in their order; none of a run that was made before they were kept."""
        table = models.dataset_columns
        query = select(table).where(table.c.run_id == run_id).order_by(table.c.dataset, table.c.ordinal)
        return self._all(query, ColumnRecord)

    def hops(self, run_id: str) -> list[HopRecord]:
        query = select(*_HOP).where(models.hops.c.run_id == run_id).order_by(models.hops.c.ordinal)
        return self._all(query, HopRecord)

    def prepared(self, run_id: str) -> list[PreparedRecord]:
        """What was made for the declared questions of a run."""
        query = select(*models.prepared.c).where(models.prepared.c.run_id == run_id).order_by(models.prepared.c.name)
        return self._all(query, PreparedRecord)

    def files(self, run_id: str) -> dict[str, str]:
        """The checksums of the files in a run's folder, by path there; none of a run made before they were kept."""
        table = models.run_files
        rows = self._rows(select(table.c.path, table.c.sums).where(table.c.run_id == run_id))
        return {str(row[0]): str(row[1]) for row in rows}

    def subjects(self, version_id: str) -> list[SubjectRecord]:
        """Which rows of a version are whose, per kind of person and column."""
        table = models.subject_rows
        return self._all(select(table).where(table.c.version_id == version_id), SubjectRecord)

    def erasures(self) -> int:
        """How many erasures and rectifications have changed runs."""
        (row,) = self._rows(select(func.count()).select_from(models.erasures))
        return int(row[0])

    def erased(self, kind: str) -> dict[str, str]:
        """The keyed hashes of persons of a kind that were erased, each with the id of its key."""
        table = models.erased_subjects
        rows = self._rows(select(table.c.hash, table.c.key_id).where(table.c.kind == kind))
        return {str(row[0]): str(row[1]) for row in rows}

    def content(self, run_id: str) -> str | None:
        """The workflow as JSON, as the run read it: variables replaced, with privacy, subjects, pii, workload."""
        row = next(iter(self._rows(select(models.runs.c.content).where(models.runs.c.id == run_id))), None)
        return None if row is None else str(row[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.engine.dispose()

    def _all(self, query: Select[Any], record: type[Record]) -> list[Record]:
        return [record(**row._mapping) for row in self._rows(query)]

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        """What every answer is made of. CatalogError where the database does not give it."""
        try:
            # One connection is kept: opening one costs more than most of these queries.
            if self._connection is None:
                self._connection = self.engine.connect()
            try:
                return self._connection.execute(query).all()
            finally:
                self._connection.rollback()
        except SQLAlchemyError as error:
            self._forget_connection()
            raise CatalogError(f"cannot read {named(self.engine)}: {short_message(error)}") from error
        except (ValueError, TypeError, OverflowError) as error:  # a value that is none of its column's type
            self._forget_connection()
            raise CatalogError(f"cannot read {named(self.engine)}: it is damaged") from error

    def _forget_connection(self) -> None:
        """After an error the next question gets a new one: a server may be back by then."""
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.invalidate()
            with suppress(SQLAlchemyError):
                self._connection.close()
            self._connection = None
