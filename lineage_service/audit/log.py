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
from lineage_catalog.engine import CatalogError, connect, named, short_message
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from lineage_service.audit.actor import Actor, current_actor
from lineage_service.audit.anchors import anchor
from lineage_service.audit.facade import Audit
from lineage_service.errors import DamagedFile, StoreError
from lineage_service.settings import command
from lineage_service.store.catalog import catalog_errors
from lineage_service.store.layout import HomeLayout
from lineage_service.subjects.key import NAME, VARIABLE, Key, existing_key, home_key

CASE = "case"  # the verb of entries that open a case, or tell what is new about it
RETENTION = "log-retention"  # the verb of entries that say how far the front of the log was removed


@dataclass(frozen=True)
class Entry:
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
class Writing:
    """A transaction of the catalog that is about to be committed: what is done in it, and told of it.

    `head` is the last entry written here; who committed the transaction by themselves hands it to `anchored`.
    `notes` is for people: anchors that failed, once it is committed.
    """

    connection: Connection
    key: Key
    actor: Actor
    head: LogRecord | None = None
    notes: list[str] = field(default_factory=list)

    def append(self, entry: Entry, behind: LogRecord | None = None) -> LogRecord:
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
def logged(audit: Audit, actor: Actor | None = None) -> Iterator[Writing]:
    """One transaction for deeds and their entries: all of it is committed, or nothing; then the head is anchored.

    Nobody else writes the catalog meanwhile: long work belongs before it.
    """
    audit.prepare()
    with audit.writing() as engine, log_errors(audit), engine.execution_options(writing=True).begin() as connection:
        writing = writing_on(audit, connection, actor)
        yield writing
    writing.notes += anchored(audit, writing)


def writing_on(audit: Audit, connection: Connection, actor: Actor | None = None) -> Writing:
    """The same on a transaction that the caller opened (option `writing`); who commits it, calls `anchored` after."""
    return Writing(connection, _key(audit.layout, connection), actor or current_actor())


def anchored(audit: Audit, writing: Writing) -> list[str]:
    """Anchors what was written, once it is committed. What went wrong, for people: the entry stays in any case."""
    return [] if writing.head is None else anchor(audit.layout, writing.head, writing.key)


@contextmanager
def reading(audit: Audit) -> Iterator[Connection]:
    """A connection to read log and cases with; NotFound where there is no catalog."""
    with log_errors(audit), audit.reader.connection() as connection:
        yield connection


@contextmanager
def log_errors(audit: Audit) -> Iterator[None]:
    """What the database says, as an error with the home's path."""
    with catalog_errors(audit.layout):
        try:
            yield
        except SQLAlchemyError as error:
            where = named(connect(audit.url))
            raise CatalogError(f"cannot use the audit log in {where}: {short_message(error)}") from error


def _key(home: HomeLayout, connection: Connection) -> Key:
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
        where = named(connection.engine)
        if any(each.key_id == key.id and each.hash == each.sealed(key.seal) for each in entries(connection)):
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


def append(
    audit: Audit, entry: Entry, connection: Connection | None = None, *, actor: Actor | None = None
) -> tuple[LogRecord, list[str]]:
    """The entry as written, and notes for people (anchors that failed). An answer that changes nothing may leave once
    this has returned: where the entry cannot be written, there is no answer.

    With a `connection` it becomes part of the caller's transaction, and is not anchored: call `anchor` (anchors.py)
    once that is committed, or use `writing_on` and `anchored`.
    """
    if connection is not None:
        return writing_on(audit, connection, actor).append(entry), []
    with logged(audit, actor) as writing:
        record = writing.append(entry)
    return record, writing.notes


def log_reveal(audit: Audit, verb: str, datasets: Sequence[str], *, actor: Actor | None = None) -> list[str]:
    """That `verb` shows personal data of these datasets; to be called before it does. Notes for people."""
    return append(audit, Entry("reveal", datasets=datasets, details={"verb": verb}), actor=actor)[1]
