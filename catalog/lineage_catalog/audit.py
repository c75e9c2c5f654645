"""The audit log and the cases in the catalog, read and written on the caller's connection and in its transaction.

Who writes must be alone (execution option `writing`): numbers are counted on from the last entry. What makes a text
evidence is a `Seal`: a keyed hash, so that who can write the database, but has no key, cannot seal anything anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, delete, func, insert, select, update

from lineage_catalog import models

Seal = Callable[[bytes], str]

CLOSED = ("done", "refused")
_BATCH = 1000  # entries read at a time


@dataclass(frozen=True)
class LogRecord:
    """One entry. `subjects`, `datasets`, `counts`, `details` are JSON, kept as the text that was sealed."""

    number: int
    at: str
    os_user: str
    actor: str | None
    verb: str
    request: str | None
    subjects: str
    datasets: str
    counts: str
    result: str
    details: str
    key_id: str
    previous: str
    hash: str

    def expected_seal(self, seal: Seal) -> str:
        """Returns the hash that this entry must have: over all its fields and the hash of the previous entry."""
        fields = {name: value for name, value in asdict(self).items() if name != "hash"}
        return seal(_canonical("log entry", fields))


@dataclass(frozen=True)
class CaseRecord:
    """One case: a person's request, and how far it has come. `planned_by`, `approved_by` are users of the operating
    system, `planned_name`, `approved_name` the names they claimed. `recipients` is JSON.
    """

    reference: str
    kind: str
    status: str
    received: str
    due: str
    verified_by: str | None
    plan_id: str | None
    planned_by: str | None
    planned_name: str | None
    four_eyes: bool
    approved_by: str | None
    approved_name: str | None
    approved_at: str | None
    reason: str | None
    recipients: str
    updated_at: str
    seal: str = ""

    def expected_seal(self, seal: Seal) -> str:
        """The seal that this case must have."""
        fields = {name: value for name, value in asdict(self).items() if name != "seal"}
        return seal(_canonical("case", fields))


def _canonical(what: str, fields: dict[str, object]) -> bytes:
    # The kind of document comes first, so that a seal of one kind is not valid for another.
    return f"{what}\n{json.dumps(fields, sort_keys=True, separators=(',', ':'))}".encode()


# --- the log --------------------------------------------------------------------------------------------------


def last_entry(connection: Connection) -> LogRecord | None:
    """Returns the last entry of the log; None if it is empty."""
    table = models.audit_log
    row = connection.execute(select(table).order_by(table.c.number.desc()).limit(1)).first()
    return None if row is None else LogRecord(**row._mapping)


def append_entry(connection: Connection, draft: LogRecord, seal: Seal, behind: LogRecord | None = None) -> LogRecord:
    """The entry as it was written behind the last one: with its number, the hash before it, and its own.

    `behind` is the last one, where that is no longer there.
    """
    last = behind or last_entry(connection)
    numbered = replace(draft, number=1 if last is None else last.number + 1, previous="" if last is None else last.hash)
    entry = replace(numbered, hash=numbered.expected_seal(seal))
    connection.execute(insert(models.audit_log).values(**asdict(entry)))
    return entry


def entries(
    connection: Connection,
    *,
    request: str | None = None,
    verb: str | None = None,
    newest_first: bool = False,
    limit: int | None = None,
) -> Iterator[LogRecord]:
    """Entries by number, read as they are asked for."""
    table = models.audit_log
    query = select(table).order_by(table.c.number.desc() if newest_first else table.c.number).limit(limit)
    if request is not None:
        query = query.where(table.c.request == request)
    if verb is not None:
        query = query.where(table.c.verb == verb)
    for row in connection.execute(query, execution_options={"yield_per": _BATCH}):
        yield LogRecord(**row._mapping)


def count_entries(connection: Connection, *, request: str | None = None, verb: str | None = None) -> int:
    table = models.audit_log
    query = select(func.count(table.c.number))
    if request is not None:
        query = query.where(table.c.request == request)
    if verb is not None:
        query = query.where(table.c.verb == verb)
    return connection.execute(query).scalar_one()


def last_older_than(connection: Connection, moment: str) -> LogRecord | None:
    """The last entry of those at the front that are all older than `moment`; clocks may have gone back in between."""
    table = models.audit_log
    younger = connection.execute(select(func.min(table.c.number)).where(table.c.at >= moment)).scalar_one()
    query = select(table).order_by(table.c.number.desc()).limit(1)
    if younger is not None:
        query = query.where(table.c.number < younger)
    row = connection.execute(query).first()
    return None if row is None else LogRecord(**row._mapping)


def remove_entries(connection: Connection, up_to: int) -> int:
    """Removes entries from the front and returns their number."""
    _enable_secure_delete(connection)
    table = models.audit_log
    return connection.execute(delete(table).where(table.c.number <= up_to)).rowcount


# --- cases ----------------------------------------------------------------------------------------------------


def case(connection: Connection, reference: str) -> CaseRecord | None:
    table = models.audit_requests
    row = connection.execute(select(table).where(table.c.reference == reference)).first()
    return None if row is None else CaseRecord(**row._mapping)


def cases(connection: Connection, *, closed: bool = False) -> list[CaseRecord]:
    """Returns open cases, or all, by due date."""
    table = models.audit_requests
    query = select(table).order_by(table.c.due, table.c.reference)
    if not closed:
        query = query.where(table.c.status.not_in(CLOSED))
    return [CaseRecord(**row._mapping) for row in connection.execute(query)]


def write_case(connection: Connection, record: CaseRecord, seal: Seal) -> CaseRecord:
    """The case as it was written, sealed: in place of the one of its reference, or new."""
    table = models.audit_requests
    values = asdict(replace(record, seal=record.expected_seal(seal)))
    changed = connection.execute(update(table).where(table.c.reference == record.reference).values(**values))
    if not changed.rowcount:
        connection.execute(insert(table).values(**values))
    return CaseRecord(**values)


def remove_cases(connection: Connection, older_than: str, opened: str) -> int:
    """Takes closed cases away that nobody has touched since, and of whose opening (entries of the verb `opened`) the
    log knows no more; how many.
    """
    _enable_secure_delete(connection)
    table, log = models.audit_requests, models.audit_log
    logged_cases = select(log.c.request).where(log.c.verb == opened, log.c.request.is_not(None))
    old = delete(table).where(
        table.c.status.in_(CLOSED), table.c.updated_at < older_than, table.c.reference.not_in(logged_cases)
    )
    return connection.execute(old).rowcount


def case_references(connection: Connection, most: int = 20) -> Sequence[str]:
    """Returns references of cases, to suggest one in an error message."""
    table = models.audit_requests
    return list(connection.execute(select(table.c.reference).order_by(table.c.due).limit(most)).scalars())


def _enable_secure_delete(connection: Connection) -> None:
    """Makes SQLite overwrite the bytes of removed rows, which it would only mark as free."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
