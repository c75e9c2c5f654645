"""Retention of the log itself. Keyed hashes are pseudonymous personal data and are not kept forever.

Entries are removed from the front only, up to the first that is not old enough. The entry about the removal holds the
number and hash of the last removed entry in the sealed chain; verification begins there. If entries are removed by
hand, there is no such entry, and verification reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lineage_catalog import audit as catalog

from lineage_service.audit.actor import Actor
from lineage_service.audit.log.log_transactions import CASE, RETENTION, LogEntry, log_transaction
from lineage_service.errors import LineageError
from lineage_service.query.open_home import OpenHome

MOST_DAYS = 36_500  # a century: dates cannot go back without limit


@dataclass(frozen=True)
class LogRetentionResult:
    """What was removed: entries up to number `up_to`, and closed cases. `notes` are messages for the user."""

    entries: int
    cases: int
    up_to: int | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, int | None]:
        return {"entries": self.entries, "cases": self.cases, "up_to": self.up_to}


def remove_expired_log_entries(
    home: OpenHome, days: int, actor: Actor | None = None, *, today: datetime | None = None
) -> LogRetentionResult:
    """Removes entries older than this many days, and closed cases that the log no longer mentions. Logs this unless
    nothing was removed.
    """
    if days < 1:
        raise LineageError("the log must be kept for at least one day")
    if days > MOST_DAYS:
        raise LineageError(f"a log is kept for {MOST_DAYS:,} days at most", hint="without a limit nothing is removed")
    moment = ((today or datetime.now(UTC)) - timedelta(days=days)).isoformat(timespec="milliseconds")
    with log_transaction(home, actor) as writing:
        last = catalog.last_older_than(writing.connection, moment)
        if last is None:
            return LogRetentionResult(0, 0, None)
        head = catalog.last_entry(writing.connection)  # it may be among the removed entries
        removed = catalog.remove_entries(writing.connection, last.number)
        cases = catalog.remove_cases(writing.connection, moment, CASE)
        counts = {"entries": removed, "cases": cases}
        details = {"days": days, "removed_to": last.number, "hash": last.hash}
        writing.append(LogEntry(RETENTION, counts=counts, details=details), head)
    return LogRetentionResult(removed, cases, last.number, tuple(writing.notes))
