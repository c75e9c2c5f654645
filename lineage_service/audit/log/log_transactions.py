"""Writes the log. An entry and its action are one transaction, and the head is anchored after the commit.

Entries contain names, counts and keyed hashes, never values of the data.
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

CASE = "case"  # verb of entries that open or update a case
RETENTION = "log-retention"  # verb of entries that record the removal of the log's front


@dataclass(frozen=True)
class LogEntry:
    """The content of an entry about one action. `subjects` maps a kind to keyed hashes in hexadecimal. `result` is
    intent, done, failed, refused, …
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
    """An open transaction of the catalog, for actions and their entries.

    `head` is the last entry written here. Whoever commits the transaction passes it to `anchor_transaction`. `notes`
    are messages for the user about failed anchors, set after the commit.
    """

    connection: Connection
    key: HomeKey
    actor: Actor
    head: LogRecord | None = None
    notes: list[str] = field(default_factory=list)

    def append(self, entry: LogEntry, behind: LogRecord | None = None) -> LogRecord:
        """Appends an entry; it takes effect with the commit. `behind` is given when the last entry itself is
        removed.
        """
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
    """One transaction for actions and their entries, committed completely or not at all; then the head is anchored.

    The catalog is locked for other writers meanwhile, so long work must be done before.
    """
    home.prepare()
    with home.erasing() as engine, log_errors(home), engine.execution_options(writing=True).begin() as connection:
        writing = join_transaction(home, connection, actor)
        yield writing
    writing.notes += anchor_transaction(home, writing)


def join_transaction(home: OpenHome, connection: Connection, actor: Actor | None = None) -> LogTransaction:
    """The same on a transaction that the caller opened with the option `writing`. The caller must call
    `anchor_transaction` after the commit.
    """
    return LogTransaction(connection, _key(home.layout, connection), actor or current_actor())


def anchor_transaction(home: OpenHome, writing: LogTransaction) -> list[str]:
    """Anchors what was written, after the commit. Returns failures as messages for the user; the entry stays in any
    case.
    """
    return [] if writing.head is None else anchor(home.layout, writing.head, writing.key)


@contextmanager
def log_connection(home: OpenHome) -> Iterator[Connection]:
    """A connection for reading the log and cases. Raises NotFound if there is no catalog."""
    with log_errors(home), home.reader.connection() as connection:
        yield connection


@contextmanager
def log_errors(home: OpenHome) -> Iterator[None]:
    """Translates database errors into errors with the home's path."""
    with catalog_errors(home.layout):
        try:
            yield
        except SQLAlchemyError as error:
            where = catalog_label(connect(home.url))
            raise CatalogError(f"cannot use the audit log in {where}: {short_message(error)}") from error


def _key(home: HomeLayout, connection: Connection) -> HomeKey:
    """The key of the log. A log that was begun with another key is not continued, because it could not be verified."""
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
    """Writes an entry and returns it with messages for the user (failed anchors).

    An answer that changes nothing may be returned only after this call: if the entry cannot be written, there is no
    answer. With a `connection`, the entry is part of the caller's transaction and is not anchored. In that case call
    `anchor` (anchors.py) after the commit, or use `join_transaction` and `anchor_transaction`.
    """
    if connection is not None:
        return join_transaction(home, connection, actor).append(entry), []
    with log_transaction(home, actor) as writing:
        record = writing.append(entry)
    return record, writing.notes


def log_reveal(home: OpenHome, verb: str, datasets: Sequence[str], *, actor: Actor | None = None) -> list[str]:
    """Logs that `verb` reveals personal data of these datasets. Must be called before the data is shown. Returns
    messages for the user.
    """
    return write_entry(home, LogEntry("reveal", datasets=datasets, details={"verb": verb}), actor=actor)[1]
