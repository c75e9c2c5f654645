"""The audit log: who asked what, when, with what result."""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lineage_catalog import models
from sqlalchemy import insert, select

if TYPE_CHECKING:
    from lineage_service.audit.facade import Audit


def log_reveal(audit: Audit, verb: str, datasets: Sequence[str]) -> None:
    """Notes that values of masked columns of these datasets are about to be shown."""
    audit.prepare()
    table = models.audit_log
    with audit.writing() as engine, engine.begin() as connection:
        newest = select(table.c.number, table.c.hash).order_by(table.c.number.desc()).limit(1)
        last = connection.execute(newest).first()
        entry = {
            "number": (last.number if last else 0) + 1,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "os_user": getpass.getuser(),
            "actor": None,
            "verb": verb,
            "request": None,
            "subjects": "{}",
            "datasets": json.dumps(list(datasets)),
            "counts": "{}",
            "result": "revealed",
            "details": "{}",
            "previous": last.hash if last else "0" * 64,
        }
        digest = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
        connection.execute(insert(table).values(**entry, hash=digest))
