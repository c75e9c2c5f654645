"""The values that tell who a person is: of the columns that identify them or hold personal data, in their own rows.

Values that other persons have too tell nothing, and are left out: finding one again would prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lineage_catalog.records import DatasetRecord

from lineage_service.audit.person_search import PersonRows
from lineage_service.query.questions import Questions
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID
from lineage_service.store.versions import has_changed
from lineage_service.subjects.hashing import canonical_text


@dataclass
class IdentifyingValues:
    """texts: of the persons alone · numbers: likewise, also days; they occur by chance, and mean somebody only in
    `columns`: personal ones, and those that show them · shared: how many others have too · odd: how many are of types
    that are not searched for · retained: how many
    stay in rows that a hold keeps · unread: versions whose rows can no longer be read."""

    texts: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    shared: int = 0
    retained: int = 0
    odd: int = 0
    unread: set[str] = field(default_factory=set)


SHORTEST = 4  # shorter texts occur by chance


def is_searchable(value: str) -> bool:
    """Whether a text is long enough that finding it somewhere is no chance."""
    return len(value) >= SHORTEST


def find_identifying_values(
    ask: Questions,
    found: Sequence[PersonRows],
    *,
    only: Collection[str] | None = None,
    retained: Sequence[PersonRows] = (),
    new: Collection[str] = (),
) -> IdentifyingValues:
    """The persons' values in all sources where they can still be read; `only` in these columns. Values that stay in
    rows that are `retained`, or that are `new`, tell nothing."""
    telling, seen = IdentifyingValues(), set[str]()
    candidates: dict[str, set[str]] = {"text": set(), "number": set(), "odd": set()}
    places: list[tuple[DatasetRecord, str, Ids]] = []
    for each in found:
        if each.dataset.version_id in seen:
            continue
        seen.add(each.dataset.version_id)
        if has_changed_files(ask, each.dataset):
            telling.unread.add(each.dataset.version_id)
            continue
        for name in declared_personal_columns(each.dataset):
            if only is not None and name.lower() not in {one.lower() for one in only}:
                continue
            candidates[_kind(ask, each.dataset, name)] |= _values(ask, each.dataset, name, each.rids)
            places.append((each.dataset, name, each.rids))
            telling.columns |= _derived_column_names(ask, each.dataset, name)
    every = set().union(*candidates.values())
    others = {value for value in every if value in set(new)}
    for dataset, name, rids in places:
        others |= _values_of_others(ask, dataset, name, rids, every)
    held: set[str] = set()
    for each in retained:
        if not has_changed_files(ask, each.dataset):
            for name in declared_personal_columns(each.dataset):
                held |= _values(ask, each.dataset, name, each.rids) & every
    telling.shared, telling.retained = len(every & others), len(held - others)
    others |= held
    telling.texts, telling.numbers = candidates["text"] - others, candidates["number"] - others
    telling.odd = len(candidates["odd"] - others)
    return telling


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "double", "date")


def _kind(ask: Questions, dataset: DatasetRecord, name: str) -> str:
    columns = ask.scan(dataset).version.columns
    kind = next((each.type for each in columns if each.name.lower() == name.lower()), "string")
    if kind.startswith(("string", "char", "varchar")):
        return "text"
    return "number" if kind.startswith(_NUMBERS) else "odd"


def _derived_column_names(ask: Questions, dataset: DatasetRecord, name: str) -> set[str]:
    """Names of columns that are computed from a source's column, in any run that reads the version; and its own."""
    found, pending = {name.lower()}, [(dataset.version_id, name.lower())]
    seen: set[tuple[str, str]] = set()
    while pending:
        version, column_name = pending.pop()
        if (version, column_name) in seen:
            continue
        seen.add((version, column_name))
        for reader in [dataset, *ask.reader.readers_of([version])]:
            if reader.version_id != version:
                continue
            made = {each.name: each.version_id for each in ask.graph.datasets(reader.run_id) if each.role != "source"}
            for each in ask.reader.columns(reader.run_id):
                reads = {(one, other.lower()) for one, other in json.loads(each.reads or "[]")}
                if each.dataset in made and (reader.name, column_name) in reads:
                    found.add(each.name.lower())
                    pending.append((made[each.dataset], each.name.lower()))
    return found


def declared_personal_columns(dataset: DatasetRecord) -> list[str]:
    """Columns of a source that identify a person or are declared as personal data."""
    declared = json.loads(dataset.declared)
    return list(dict.fromkeys([*(declared.get("subject") or {}).values(), *(declared.get("pii") or ())]))


def has_changed_files(ask: Questions, dataset: DatasetRecord) -> bool:
    scan = ask.scan(dataset)
    return scan.version.kind == "source" and any(
        has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True)
    )


def _column(ask: Questions, dataset: DatasetRecord, name: str) -> tuple[str, str] | None:
    """A column's own name and the text of its values; None where there is none."""
    columns = ask.scan(dataset).version.columns
    own = next((each for each in columns if each.name.lower() == name.lower()), None)
    return None if own is None else (own.name, canonical_text(column(own.name), own.type))


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


def _values_of_others(ask: Questions, dataset: DatasetRecord, name: str, rids: Ids, values: set[str]) -> set[str]:
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
