"""The values that tell who a person is: of the columns that identify them or hold personal data, in their own rows.

Values that other persons have too tell nothing, and are left out: finding one again would prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lineage_catalog.records import DatasetRecord

from lineage_service.query.ask import Questions
from lineage_service.store.engine import column
from lineage_service.store.patching import Ids
from lineage_service.store.scan import RID
from lineage_service.store.versions import has_changed
from lineage_service.subjects.finding import Found
from lineage_service.subjects.hashing import canonical


@dataclass
class Telling:
    """values: of the persons alone, as canonical text · shared: how many others have too · retained: how many stay in
    rows of theirs that a hold keeps · unread: sources, with their runs, whose rows can no longer be read."""

    values: set[str] = field(default_factory=set)
    shared: int = 0
    retained: int = 0
    unread: list[str] = field(default_factory=list)


def telling_values(
    ask: Questions,
    found: Sequence[Found],
    retained: Sequence[Found] = (),
    corrected: Mapping[str, str | None] | None = None,
) -> Telling:
    """The persons' values in all sources where they can still be read. Of a correction, those of the columns that get
    other values, as they were."""
    telling, seen = Telling(), set[str]()
    candidates: dict[str, set[str]] = {}
    places: dict[str, list[tuple[DatasetRecord, str, Ids]]] = {}
    for each in found:
        if each.dataset.version_id in seen:
            continue
        seen.add(each.dataset.version_id)
        if _is_changed(ask, each.dataset):
            telling.unread.append(each.dataset.qualified)
            continue
        for name in personal_columns(each.dataset) if corrected is None else corrected:
            values = _values(ask, each.dataset, name, each.rids)
            candidates.setdefault(name.lower(), set()).update(values)
            places.setdefault(name.lower(), []).append((each.dataset, name, each.rids))
    every = set().union(*candidates.values()) if candidates else set()
    others: set[str] = set()
    for known in places.values():
        for dataset, name, rids in known:
            others |= _others(ask, dataset, name, rids, every)
    held = {
        value
        for each in retained
        if not _is_changed(ask, each.dataset)
        for name in personal_columns(each.dataset)
        for value in _values(ask, each.dataset, name, each.rids)
    } | {value for value in (corrected or {}).values() if value is not None}
    telling.values, telling.shared = every - others - held, len(every & others)
    telling.retained = len((every & held) - others)
    return telling


def personal_columns(dataset: DatasetRecord) -> list[str]:
    """Columns of a source that identify a person or are declared as personal data."""
    declared = json.loads(dataset.declared)
    return list(dict.fromkeys([*(declared.get("subject") or {}).values(), *(declared.get("pii") or ())]))


def _is_changed(ask: Questions, dataset: DatasetRecord) -> bool:
    scan = ask.scan(dataset)
    return scan.version.kind == "source" and any(
        has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True)
    )


def _column(ask: Questions, dataset: DatasetRecord, name: str) -> tuple[str, str] | None:
    """A column's own name and the text of its values; None where there is none."""
    columns = ask.scan(dataset).version.columns
    own = next((each for each in columns if each.name.lower() == name.lower()), None)
    return None if own is None else (own.name, canonical(column(own.name), own.type))


def _values(ask: Questions, dataset: DatasetRecord, name: str, rids: Ids) -> set[str]:
    own = _column(ask, dataset, name)
    if own is None:
        return set()
    table = ask.engine.keep_ids(pa.array(rids, pa.int64()))
    rows = ask.engine.rows(
        f"SELECT DISTINCT {own[1]} FROM ({ask.scan(dataset).select([own[0]])}) t SEMI JOIN {table} x ON x.b = t.{RID}"
    )
    ask.engine.drop(table)
    return {str(row[0]) for row in rows if row[0] is not None}


def _others(ask: Questions, dataset: DatasetRecord, name: str, rids: Ids, values: set[str]) -> set[str]:
    """Which of the values rows of others have."""
    own = _column(ask, dataset, name)
    if own is None or not values:
        return set()
    engine = ask.engine
    table = engine.keep_ids(pa.array(rids, pa.int64()))
    engine.connection.register("values_asked", pa.table({"v": pa.array(sorted(values), pa.string())}))
    try:
        rows = engine.rows(
            f"SELECT DISTINCT {own[1]} AS v FROM ({ask.scan(dataset).select([own[0]])}) t "
            f"ANTI JOIN {table} x ON x.b = t.{RID} SEMI JOIN values_asked a ON a.v = {own[1]}"
        )
    finally:
        engine.connection.unregister("values_asked")
        engine.drop(table)
    return {str(row[0]) for row in rows}
