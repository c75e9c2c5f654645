"""Writing the catalog: a run becomes visible in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Engine, Table, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, short_message
from lineage_catalog.records import Commit, FileRecord, HopRecord, Lineage, SubjectRecord
from lineage_catalog.seals import NAMES, RUNS, refuse_broken, seal


class ErasedMeanwhile(CatalogError):
    """The run read data that was erased since; it was not committed."""


def commit_run(engine: Engine, commit: Commit, erasures: int | None = None) -> None:
    """Commits a run in one transaction. Records that other runs added (a workflow, a version) are left unchanged.

    `erasures`: how many there were when the run began to read. One more in between, and it may hold what was erased.
    """
    try:
        with engine.execution_options(writing=True).begin() as connection:
            refuse_broken(connection, [RUNS, NAMES])
            counted = connection.execute(select(func.count()).select_from(models.erasures)).scalar_one()
            if erasures is not None and counted != erasures:
                raise ErasedMeanwhile(
                    "the run could not be committed: data was erased or corrected while it was running", "do it again"
                )
            _write_commit(connection, commit)
    except SQLAlchemyError as error:
        raise CatalogError(f"the run could not be committed: {short_message(error)}") from error


def commit_lineage(engine: Engine, lineage: Lineage) -> bool:
    """Commits a run's lineage. Returns False if it is complete already, because complete lineage is never replaced."""
    runs = models.runs
    try:
        with engine.execution_options(writing=True).begin() as connection:
            open_ = select(runs.c.id).where(runs.c.id == lineage.run_id, runs.c.lineage != "complete")
            if connection.execute(open_).first() is None:
                return False
            refuse_broken(connection, [RUNS, NAMES, f"run:{lineage.run_id}", f"of:{lineage.run_id}"])
            values = {"lineage": lineage.status, "lineage_note": lineage.note}
            if lineage.report is not None:
                values["report"] = lineage.report
            connection.execute(update(runs).where(runs.c.id == lineage.run_id).values(**values))
            for table in (models.hops, models.prepared):
                connection.execute(delete(table).where(table.c.run_id == lineage.run_id))
            _insert_hops(connection, lineage.hops)
            if lineage.prepared:
                connection.execute(insert(models.prepared), [asdict(each) for each in lineage.prepared])
            _insert_subjects(connection, lineage.subjects)
            steps = models.run_steps
            for node, members in lineage.members:
                counted = update(steps).where(steps.c.run_id == lineage.run_id, steps.c.node == node)
                connection.execute(counted.values(members=members))
            if lineage.files is not None:
                _replace_files(connection, lineage.run_id, lineage.files)
            seal(connection, runs=[lineage.run_id], versions=[each.version_id for each in lineage.subjects])
    except SQLAlchemyError as error:
        raise CatalogError(f"the lineage could not be committed: {short_message(error)}") from error
    return True


def _insert_hops(connection: Connection, hops: Sequence[HopRecord]) -> None:
    if hops:
        connection.execute(insert(models.hops), [asdict(hop) | {"ordinal": number} for number, hop in enumerate(hops)])


def _replace_files(connection: Connection, run_id: str, files: Sequence[FileRecord]) -> None:
    table = models.run_files
    connection.execute(delete(table).where(table.c.run_id == run_id))
    if files:
        connection.execute(insert(table), [asdict(each) | {"run_id": run_id} for each in files])


def forget_files(connection: Connection, gone: Mapping[str, Sequence[str]]) -> None:
    """Removes the checksums of files, by run, that were removed because no run needs them."""
    table = models.run_files
    for run_id, paths in gone.items():
        for path in paths:
            connection.execute(delete(table).where(table.c.run_id == run_id, table.c.path == path))
    seal(connection, runs=gone)


def _insert_subjects(connection: Connection, subjects: Sequence[SubjectRecord]) -> None:
    """Adds indexes of persons. Only the first run that reads a version does: the index is the same for all runs."""
    table, versions = models.subject_rows, models.dataset_versions
    for each in subjects:
        if connection.execute(select(versions.c.id).where(versions.c.id == each.version_id)).first() is None:
            continue  # of a run that failed its checks: no other run reads its versions
        same = (
            table.c.version_id == each.version_id,
            table.c.kind == each.kind,
            table.c.column == each.column,
        )
        # An index made with another key cannot be used.
        connection.execute(delete(table).where(*same, table.c.key_id != each.key_id))
        if connection.execute(select(table.c.kind).where(*same)).first() is None:
            connection.execute(insert(table).values(**asdict(each)))


def forget_runs(engine: Engine, run_ids: Sequence[str]) -> None:
    """Removes these runs, and the versions that only they had. A committed run is never removed."""
    try:
        with engine.execution_options(writing=True).begin() as connection:
            refuse_broken(connection, [RUNS, NAMES])
            runs = models.runs
            wanted = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.status == "failed")
            ids = list(connection.execute(wanted).scalars())
            remove_runs(connection, ids)
    except SQLAlchemyError as error:
        raise CatalogError(f"the catalog could not be cleared: {short_message(error)}") from error


def remove_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Removes all records of runs."""
    clear_runs(connection, run_ids)
    connection.execute(delete(models.run_files).where(models.run_files.c.run_id.in_(run_ids)))
    connection.execute(delete(models.runs).where(models.runs.c.id.in_(run_ids)))
    seal(connection, runs=run_ids)


def clear_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Takes out all that is held of these runs, but not the runs; and versions that no run has any more. Files in their
    folders may be shared by runs that stay: their checksums go when they do."""
    for table in (models.hops, models.prepared, models.dataset_columns, models.run_steps, models.run_datasets):
        connection.execute(delete(table).where(table.c.run_id.in_(run_ids)))
    versions, subjects = models.dataset_versions, models.subject_rows
    unused = select(versions.c.id).where(versions.c.id.not_in(select(models.run_datasets.c.version_id)))
    connection.execute(delete(subjects).where(subjects.c.version_id.in_(unused)))
    connection.execute(delete(versions).where(versions.c.id.not_in(select(models.run_datasets.c.version_id))))
    seal(connection, runs=run_ids)


def expire_runs(connection: Connection, run_ids: Sequence[str], cut: Mapping[str, str]) -> None:
    """Expires runs past their retention: only their ids stay. `cut` has the bodies of their versions that other
    runs have read; the rows of these are removed too."""
    refuse_broken(connection, [RUNS, NAMES])
    runs, versions = models.runs, models.dataset_versions
    emptied = {"variables": "{}", "content": "{}", "report": "{}", "lineage": "complete", "lineage_note": None}
    connection.execute(update(runs).where(runs.c.id.in_(run_ids)).values(status="expired", **emptied))
    for version_id, body in cut.items():
        connection.execute(update(versions).where(versions.c.id == version_id).values(kind="source", body=body))
    clear_runs(connection, run_ids)
    seal(connection, versions=cut)


def supersede(connection: Connection, old: str, commit: Commit) -> None:
    """Replaces a run by another, which takes its place in the order of commits. Only the id of the old one stays."""
    runs = models.runs
    ordinal = connection.execute(select(runs.c.ordinal).where(runs.c.id == old)).scalar_one()
    emptied = {"variables": "{}", "content": "{}", "report": "{}", "lineage": "complete", "lineage_note": None}
    connection.execute(
        update(runs)
        .where(runs.c.id == old)
        .values(status="superseded", superseded_by=commit.run.id, ordinal=_next_ordinal(connection), **emptied)
    )
    for version in commit.versions:
        # The remaining rows of a version are in other files now.
        values = {key: value for key, value in asdict(version).items() if key != "id"}
        table = models.dataset_versions
        connection.execute(update(table).where(table.c.id == version.id).values(**values))
    _write_commit(connection, commit, ordinal)
    clear_runs(connection, [old])


def _next_ordinal(connection: Connection) -> int:
    return int(connection.execute(select(func.coalesce(func.max(models.runs.c.ordinal), 0) + 1)).scalar_one())


def _write_commit(connection: Connection, commit: Commit, ordinal: int | None = None) -> None:
    run = commit.run
    _insert_if_absent(
        connection,
        models.workflow_versions,
        "version",
        {"version": run.workflow_version, "name": run.workflow, "content": commit.content},
    )
    ordinal = _next_ordinal(connection) if ordinal is None else ordinal
    connection.execute(insert(models.runs).values(**asdict(run), content=commit.content, ordinal=ordinal))
    for version in commit.versions:
        _insert_if_absent(connection, models.dataset_versions, "id", asdict(version))
    for table, rows in (
        (models.run_steps, [asdict(step) | {"run_id": run.id} for step in commit.steps]),
        (models.run_datasets, [asdict(dataset) for dataset in commit.datasets]),
        (models.dataset_columns, [asdict(column) for column in commit.columns]),
    ):
        if rows:
            connection.execute(insert(table), rows)
    _insert_hops(connection, commit.hops)
    _insert_subjects(connection, commit.subjects)
    _replace_files(connection, run.id, commit.files)
    versions = {*(each.id for each in commit.versions), *(each.version_id for each in commit.subjects)}
    seal(connection, runs=[run.id], versions=versions, workflows=[run.workflow_version])


def _insert_if_absent(connection: Connection, table: Table, key: str, values: dict[str, object]) -> None:
    found = connection.execute(select(table.c[key]).where(table.c[key] == values[key])).first()
    if found is None:
        connection.execute(insert(table).values(**values))
