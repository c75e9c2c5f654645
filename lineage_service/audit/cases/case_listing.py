"""Lists cases by due date."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import CLOSED, CaseRecord

from lineage_service.audit.log.log_listing import changed_record_error
from lineage_service.audit.log.log_transactions import log_connection
from lineage_service.query.answer import Answer, records
from lineage_service.query.open_home import OpenHome
from lineage_service.store.home_key import readable_key


def list_cases(home: OpenHome, *, closed: bool = False, limit: int | None = None, today: date | None = None) -> Answer:
    """Open cases, or all, by due date. `days_left` is negative if a case is overdue and null if it is closed."""
    with log_connection(home) as connection:
        found = catalog.cases(connection, closed=closed)
        last = catalog.last_entry(connection)
    key = readable_key(home.layout)
    for case in found:
        # Seals are made with the key of the log. Without that key they cannot be verified.
        if key is not None and last is not None and last.key_id == key.id and case.seal != case.expected_seal(key.seal):
            raise changed_record_error(home, "a case")
    rows = [tuple(case_row(case, today).values()) for case in found]
    answer = records(list(COLUMNS), rows, limit)
    overdue = sum(case.status not in CLOSED and _days_left(case, today) < 0 for case in found)
    if overdue:
        answer.notes.append(f"{overdue:,} {'case is' if overdue == 1 else 'cases are'} overdue")
    return answer


COLUMNS = (
    "reference", "kind", "status", "received", "due", "days_left", "overdue", "verified_by", "four_eyes", "plan_id",
    "planned_by", "planned_name", "approved_by", "approved_name", "approved_at", "reason", "recipients", "updated_at",
)  # fmt: skip


def case_row(case: CaseRecord, today: date | None = None) -> dict[str, Any]:
    """A case as a row, by column name."""
    left = None if case.status in CLOSED else _days_left(case, today)
    derived = {
        "days_left": left,
        "overdue": left is not None and left < 0,
        "recipients": json.loads(case.recipients),
    }
    return {name: derived[name] if name in derived else getattr(case, name) for name in COLUMNS}


def _days_left(case: CaseRecord, today: date | None) -> int:
    return (date.fromisoformat(case.due) - (today or date.today())).days
