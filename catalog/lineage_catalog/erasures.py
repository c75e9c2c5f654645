"""Erasures in the catalog: the transaction that replaces runs by others, and the record of what remains to be done."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Table, delete, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, short_message
from lineage_catalog.records import Commit
from lineage_catalog.seals import ERASURES, NAMES, RUNS, refuse_broken, seal, seal_erasures
from lineage_catalog.writer import clear_runs, remove_runs, supersede

AGAIN = "try again when no other process uses it: it continues from here"


@dataclass(frozen=True, slots=True)
class ErasureRecord:
    """An erasure or rectification whose runs were switched; `body` is JSON of what is to be done after that.

    state: switched, as long as old bytes are still to be removed; done, with a certificate (JSON).
    """

    id: str
    kind: str
    state: str
    at: str
    body: str
    certificate: str | None = None


def erasure(connection: Connection, erasure_id: str) -> ErasureRecord | None:
    row = connection.execute(select(models.erasures).where(models.erasures.c.id == erasure_id)).first()
    return None if row is None else ErasureRecord(**row._mapping)


def unfinished_erasures(connection: Connection) -> list[ErasureRecord]:
    """Returns the erasures whose runs were replaced but that are not finished, oldest first."""
    table = models.erasures
    rows = connection.execute(select(table).where(table.c.state != "done").order_by(table.c.at))
    return [ErasureRecord(**row._mapping) for row in rows]


def switch_runs(
    connection: Connection,
    record: ErasureRecord,
    runs: Iterable[tuple[str, Commit | None]],
    persons: Mapping[str, Sequence[str]],
    key_id: str,
) -> None:
    """Replaces runs, oldest first; one without a replacement is removed. Records the erasure and the persons erased."""
    refuse_broken(connection, [RUNS, NAMES, ERASURES])
    for old, commit in runs:
        if commit is not None:
            supersede(connection, old, commit)
        else:
            _remove_run(connection, old)
    failed = list(connection.execute(select(models.runs.c.id).where(models.runs.c.status == "failed")).scalars())
    remove_runs(connection, failed)
    connection.execute(
        insert(models.erasures).values(
            id=record.id, kind=record.kind, state=record.state, at=record.at, body=record.body, certificate=None
        )
    )
    table = models.erased_subjects
    for kind, hashes in persons.items():
        for each in hashes:
            connection.execute(delete(table).where(table.c.kind == kind, table.c.hash == each))
            connection.execute(
                insert(table).values(kind=kind, hash=each, key_id=key_id, erasure_id=record.id, at=record.at)
            )
    seal_erasures(connection)


def _remove_run(connection: Connection, run_id: str) -> None:
    """Removes all records of a run except its id."""
    emptied = {"variables": "{}", "content": "{}", "report": "{}", "lineage": "complete", "lineage_note": None}
    connection.execute(update(models.runs).where(models.runs.c.id == run_id).values(status="removed", **emptied))
    clear_runs(connection, [run_id])


def finish_erasure(connection: Connection, erasure_id: str, certificate: str) -> None:
    table = models.erasures
    connection.execute(update(table).where(table.c.id == erasure_id).values(state="done", certificate=certificate))
    seal_erasures(connection)


# --- texts ----------------------------------------------------------------------------------------------------

# Columns with text that users wrote, or that was derived from it. Paths and files are not included.
TEXTS: tuple[tuple[Table, tuple[str, ...], tuple[str, ...]], ...] = (
    (models.workflow_versions, ("version",), ("content",)),
    (models.runs, ("id",), ("variables", "content", "report", "lineage_note")),
    (models.run_datasets, ("run_id", "name"), ("declared",)),
    (models.run_steps, ("run_id", "node"), ("reason",)),
)


@dataclass(frozen=True, slots=True)
class TextPlace:
    """The position of a text: table, column, and the key of the row."""

    table: Table
    column: str
    key: tuple[tuple[str, str], ...]


def user_texts(connection: Connection) -> Iterable[tuple[TextPlace, str]]:
    """Yields every text into which a user may have written a value."""
    for table, keys, columns in TEXTS:
        for name in columns:
            query = select(*(table.c[key] for key in keys), table.c[name]).where(table.c[name].is_not(None))
            for row in connection.execute(query):
                key = tuple((own, str(value)) for own, value in zip(keys, row[:-1], strict=True))
                yield TextPlace(table, name, key), str(row[-1])


def replace_text(connection: Connection, place: TextPlace, new: str) -> None:
    same = [place.table.c[name] == value for name, value in place.key]
    connection.execute(update(place.table).where(*same).values(**{place.column: new}))
    row = place.key[0][1]  # the first part of each key says whose text it is
    if place.table is models.workflow_versions:
        seal(connection, workflows=[row])
    else:
        seal(connection, runs=[row])


# --- bytes ----------------------------------------------------------------------------------------------------


def enable_secure_delete(connection: Connection) -> None:
    """Makes SQLite overwrite the bytes of rows deleted in this transaction."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def vacuum(engine: Engine) -> None:
    """Rewrites the catalog, so that no page and no row version holds deleted data.

    Raises CatalogError if somebody else is using it."""
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if engine.dialect.name == "sqlite":
                _vacuum_sqlite(connection)
            else:
                for table in models.metadata.sorted_tables:
                    connection.execute(text(f'VACUUM FULL "{table.name}"'))
    except (SQLAlchemyError, sqlite3.Error) as error:
        reason = short_message(error) if isinstance(error, SQLAlchemyError) else str(error)
        raise CatalogError(f"the catalog could not be rewritten: {reason}", AGAIN) from error


def _vacuum_sqlite(connection: Connection) -> None:
    raw = connection.connection.dbapi_connection
    assert raw is not None
    cursor = raw.cursor()
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.execute("VACUUM")
    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    busy = cursor.fetchone()
    if busy is not None and busy[0]:
        raise CatalogError("the catalog could not be rewritten: another process is reading it", AGAIN)
