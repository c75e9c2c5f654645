"""Entries of the log as rows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import LogRecord

from lineage_service.audit.facade import Audit
from lineage_service.audit.log import reading
from lineage_service.query.answer import Answer, Part

if TYPE_CHECKING:
    import pyarrow as pa

NESTED = ("subjects", "datasets", "counts", "details")  # JSON


def log_entries(
    audit: Audit, *, limit: int | None = None, request: str | None = None, verb: str | None = None
) -> Answer:
    """Entries, newest first: all of them, or those of a case or a verb."""
    with reading(audit) as connection:
        found = list(catalog.entries(connection, request=request, verb=verb, newest_first=True, limit=limit))
        remaining = None if limit is None else catalog.count_entries(connection, request=request, verb=verb)
    names = [each.name for each in fields(LogRecord)]

    def open_() -> pa.RecordBatchReader:
        import pyarrow as pa

        table = pa.table({name: _column(name, [getattr(entry, name) for entry in found]) for name in names})
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    return Answer([Part(names, open_, remaining=None if remaining is None else remaining - len(found))], "records")


def _column(name: str, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if name == "number":
        return pa.array(values, pa.int64())
    texts = pa.array(values, pa.string())
    return pa.ExtensionArray.from_storage(pa.json_(), texts) if name in NESTED else texts


def log_head(audit: Audit) -> dict[str, Any]:
    """Number, hash, time and key of the last entry, as anchors name it; number 0 where the log is empty."""
    with reading(audit) as connection:
        last = catalog.last_entry(connection)
    if last is None:
        return {"number": 0, "hash": None, "at": None, "log": None}
    return {"number": last.number, "hash": last.hash, "at": last.at, "log": last.key_id}
