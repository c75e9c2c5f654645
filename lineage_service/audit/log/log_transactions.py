"""Writing the log: the entry and the deed are one transaction, and the head is anchored once it is committed.

Entries hold names, counts and keyed hashes; never a value of the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lineage_catalog.audit import LogRecord, append_entry, entries, last_entry
from lineage_catalog.engine import CatalogError, catalog_label, connect, short_message
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from lineage_service.audit.actor import Actor, current_actor
from lineage_service.audit.log.anchors import anchor
from lineage_service.errors import DamagedFile, StoreError
from lineage_service.query.open_home import OpenHome
from lineage_service.settings import command
from lineage_service.store.home_catalog import catalog_errors
from lineage_service.store.home_key import NAME, VARIABLE, HomeKey, existing_key, home_key
from lineage_service.store.layout import HomeLayout

CASE = "case"  # the verb of entries that open a case, or tell what is new about it
RETENTION = "log-retention"  # the verb of entries that say how far the front of the log was removed


@dataclass(frozen=True)
class LogEntry:
    """What is to be told of one deed. `subjects`: kind to keyed hashes in hexadecimal. `result`: intent, done, failed,
    refused, …
    """

    verb: str
    request: str | None = None
    subjects: Mapping[str, Sequence[str]] = field(default_factory=dict)
    datasets: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    result: str = "done"
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class LogTransaction:
    """A transaction of the catalog that is about to be committed: what is done in it, and told of it.

    `head` is the last entry written here; who committed the transaction by themselves hands it to `anchored`.
    `notes` is for people: anchors that failed, once it is committed.
    """

    connection: Connection
    key: HomeKey
    actor: Actor
    head: LogRecord | None = None
    notes: list[str] = field(default_factory=list)

    def append(self, entry: LogEntry, behind: LogRecord | None = None) -> LogRecord:
        """The entry as it stands in the log, if the transaction commits; `behind` is for who removes the last one."""
        draft = LogRecord(
            number=0,
            at=now(),
            os_user=self.actor.user,
            actor=self.actor.name,
            verb=entry.verb,
            request=entry.request,
            subjects=_json({kind: list(hashes) for kind, hashes in entry.subjects.items()}),
            datasets=_json(list(entry.datasets)),
            counts=_json(dict(entry.counts)),
            result=entry.result,
            details=_json(dict(entry.details)),
            key_id=self.key.id,
            previous="",
            hash="",
        )
        self.head = append_entry(self.connection, draft, self.key.seal, behind)
        return self.head


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


# --- transactions ---------------------------------------------------------------------------------------------


@contextmanager
def log_transaction(home: OpenHome, actor: Actor | None = None) -> Iterator[LogTransaction]:
    """One transaction for deeds and their entries: all of it is committed, or nothing; then the head is anchored.

    Nobody else writes the catalog meanwhile: long work belongs before it.
    """
    home.prepare()
    with home.erasing() as engine, log_errors(home), engine.execution_options(writing=True).begin() as connection:
        writing = join_transaction(home, connection, actor)
        yield writing
    writing.notes += anchor_transaction(home, writing)


def join_transaction(home: OpenHome, connection: Connection, actor: Actor | None = None) -> LogTransaction:
    """The same on a transaction that the caller opened (option `writing`); who commits it, calls `anchored` after."""
    return LogTransaction(connection, _key(home.layout, connection), actor or current_actor())


def anchor_transaction(home: OpenHome, writing: LogTransaction) -> list[str]:
    """Anchors what was written, once it is committed. What went wrong, for people: the entry stays in any case."""
    return [] if writing.head is None else anchor(home.layout, writing.head, writing.key)


@contextmanager
def log_connection(home: OpenHome) -> Iterator[Connection]:
    """A connection to read log and cases with; NotFound where there is no catalog."""
    with log_errors(home), home.reader.connection() as connection:
        yield connection


@contextmanager
def log_errors(home: OpenHome) -> Iterator[None]:
    """What the database says, as an error with the home's path."""
    with catalog_errors(home.layout):
        try:
            yield
        except SQLAlchemyError as error:
            where = catalog_label(connect(home.url))
            raise CatalogError(f"cannot use the audit log in {where}: {short_message(error)}") from error


def _key(home: HomeLayout, connection: Connection) -> HomeKey:
    """The key to go on with. A log that was begun with another one is not continued: nobody could verify it."""
    last, key = last_entry(connection), existing_key(home)
    if last is None:
        return key or home_key(home)
    if key is None:
        raise StoreError(
            f"the key of the home '{home.path}' is lost: its log cannot be continued",
            hint=f"restore '{home.path / NAME}' from a backup, or give it by {VARIABLE}",
        )
    if key.id != last.key_id:
        where = catalog_label(connection.engine)
        if any(each.key_id == key.id and each.hash == each.expected_seal(key.seal) for each in entries(connection)):
            again = command(home.path, "audit", "log", "--verify", catalog=home.catalog)
            raise DamagedFile(
                f"{where} is damaged: entry {last.number} of the log is not as it was written (home '{home.path}')",
                hint=f"look closer: {again}",
            )
        raise StoreError(
            f"the key of the home '{home.path}' is not the one that its log was written with "
            f"(key {key.id}, log {last.key_id} in {where})",
            hint=f"restore '{home.path / NAME}' from a backup, or give the right one by {VARIABLE}",
        )
    return key


# --- entries --------------------------------------------------------------------------------------------------


def write_entry(
    home: OpenHome, entry: LogEntry, connection: Connection | None = None, *, actor: Actor | None = None
) -> tuple[LogRecord, list[str]]:
    """The entry as written, and notes for people (anchors that failed). An answer that changes nothing may leave once
    this has returned: where the entry cannot be written, there is no answer.

    With a `connection` it becomes part of the caller's transaction, and is not anchored: call `anchor` (anchors.py)
    once that is committed, or use `writing_on` and `anchored`.
    """
    if connection is not None:
        return join_transaction(home, connection, actor).append(entry), []
    with log_transaction(home, actor) as writing:
        record = writing.append(entry)
    return record, writing.notes


def log_reveal(home: OpenHome, verb: str, datasets: Sequence[str], *, actor: Actor | None = None) -> list[str]:
    """That `verb` shows personal data of these datasets; to be called before it does. Notes for people."""
    return write_entry(home, LogEntry("reveal", datasets=datasets, details={"verb": verb}), actor=actor)[1]
