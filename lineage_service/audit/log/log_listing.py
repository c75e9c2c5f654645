"""Lists entries of the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import LogRecord
from lineage_catalog.engine import catalog_label

from lineage_service.audit.log.log_transactions import log_connection
from lineage_service.errors import DamagedFile
from lineage_service.query.answer import Answer, AnswerPart
from lineage_service.query.open_home import OpenHome
from lineage_service.settings import command
from lineage_service.store.home_key import readable_key

if TYPE_CHECKING:
    import pyarrow as pa

NESTED = ("subjects", "datasets", "counts", "details")  # JSON


def log_entries(
    home: OpenHome, *, limit: int | None = None, request: str | None = None, verb: str | None = None
) -> Answer:
    """Entries, newest first: all of them, or those of a case or a verb."""
    with log_connection(home) as connection:
        found = list(catalog.entries(connection, request=request, verb=verb, newest_first=True, limit=limit))
        remaining = None if limit is None else catalog.count_entries(connection, request=request, verb=verb)
    _refuse_changed_entries(home, found)
    names = [each.name for each in fields(LogRecord)]

    def open_() -> pa.RecordBatchReader:
        import pyarrow as pa

        table = pa.table({name: _column(name, [getattr(entry, name) for entry in found]) for name in names})
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    return Answer(
        [AnswerPart(names, open_, remaining=None if remaining is None else remaining - len(found))], "records"
    )


def _refuse_changed_entries(home: OpenHome, entries: Iterable[LogRecord]) -> None:
    """Raises DamagedFile if an entry does not match its seal. Without the right key this cannot be checked."""
    key = readable_key(home.layout)
    for each in entries:
        if key is not None and each.key_id == key.id and each.hash != each.expected_seal(key.seal):
            raise changed_record_error(home, f"entry {each.number} of the log")


def changed_record_error(home: OpenHome, what: str) -> DamagedFile:
    """The error for a record that does not match its seal."""
    again = command(home.layout.path, "audit", "log", "--verify", catalog=home.layout.catalog)
    message = (
        f"{catalog_label(home.reader.engine)} is damaged: {what} is not as it was written (home '{home.layout.path}')"
    )
    return DamagedFile(message, hint=f"look closer: {again}")


def _column(name: str, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if name == "number":
        return pa.array(values, pa.int64())
    texts = pa.array(values, pa.string())
    return pa.ExtensionArray.from_storage(pa.json_(), texts) if name in NESTED else texts


def log_head(home: OpenHome) -> dict[str, Any]:
    """Number, hash, time and key of the last entry, as in anchors; number 0 if the log is empty."""
    with log_connection(home) as connection:
        last = catalog.last_entry(connection)
    if last is None:
        return {"number": 0, "hash": None, "at": None, "log": None}
    return {"number": last.number, "hash": last.hash, "at": last.at, "log": last.key_id}
