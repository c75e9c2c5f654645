"""The values that identify a person: values of identifying columns and of personal data in their own rows.

Values shared with other persons are left out, because finding one again would prove nothing.
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
from lineage_service.store.versions import apply_source_renames, has_changed
from lineage_service.subjects.hashing import canonical_text


@dataclass
class IdentifyingValues:
    """Values that identify persons.

    texts: texts of these persons only
    numbers: numbers and dates of these persons only; they occur by chance, so they are searched only in `columns`, the
    personal columns and those derived from them
    ambiguous: those of `columns` that are also names of columns that are not personal
    shared: the number of values shared with others
    unsupported: the number of values of types that are not searched
    retained: the number of values in rows that a hold keeps
    unread: versions whose rows can no longer be read
    """

    texts: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    ambiguous: set[str] = field(default_factory=set)
    shared: int = 0
    retained: int = 0
    unsupported: int = 0
    unread: set[str] = field(default_factory=set)


SHORTEST = 4  # shorter texts occur by chance


def is_searchable(value: str) -> bool:
    """Whether a text is long enough that an occurrence is not a coincidence."""
    return len(value) >= SHORTEST


def find_identifying_values(
    ask: Questions,
    person_rows: Sequence[PersonRows],
    *,
    only: Collection[str] | None = None,
    retained: Sequence[PersonRows] = (),
    new: Collection[str] = (),
) -> IdentifyingValues:
    """The persons' values in all sources that can still be read, `only` in these columns. Excludes values in `retained`
    rows and `new` values.
    """
    identifying, seen = IdentifyingValues(), set[str]()
    candidates: dict[str, set[str]] = {"text": set(), "number": set(), "unsupported": set()}
    places: list[tuple[DatasetRecord, str, Ids]] = []
    personal: set[tuple[str, str]] = set()
    for each in person_rows:
        if each.dataset.version_id in seen:
            continue
        seen.add(each.dataset.version_id)
        if has_changed_files(ask, each.dataset):
            identifying.unread.add(each.dataset.version_id)
            continue
        for name in declared_personal_columns(each.dataset):
            if only is not None and name.lower() not in {one.lower() for one in only}:
                continue
            candidates[_kind(ask, each.dataset, name)] |= _values(ask, each.dataset, name, each.rids)
            places.append((each.dataset, name, each.rids))
            personal |= _derived_columns(ask, each.dataset, name)
    identifying.columns = {name for _, name in personal}
    identifying.ambiguous = set().union(*columns_of_others(ask, identifying.columns).values())
    every = set().union(*candidates.values())
    others = {value for value in every if value in set(new)}
    for dataset, name, rids in places:
        others |= _values_of_others(ask, dataset, name, rids, every)
    held: set[str] = set()
    for each in retained:
        if not has_changed_files(ask, each.dataset):
            for name in declared_personal_columns(each.dataset):
                held |= _values(ask, each.dataset, name, each.rids) & every
    identifying.shared, identifying.retained = len(every & others), len(held - others)
    others |= held
    identifying.texts, identifying.numbers = candidates["text"] - others, candidates["number"] - others
    identifying.unsupported = len(candidates["unsupported"] - others)
    return identifying


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "double", "date")


def _kind(ask: Questions, dataset: DatasetRecord, name: str) -> str:
    columns = ask.scan(dataset).version.columns
    kind = next((each.type for each in columns if each.name.lower() == name.lower()), "string")
    if kind.startswith(("string", "char", "varchar")):
        return "text"
    return "number" if kind.startswith(_NUMBERS) else "unsupported"


def columns_of_others(ask: Questions, names: Collection[str]) -> dict[tuple[str, str], set[str]]:
    """By workflow and dataset: its columns that are called like personal columns and have no personal data, in none of
    the dataset's versions.
    """
    everywhere = [(run, each) for run in ask.reader.runs() for each in ask.graph.datasets(run.id)]
    personal: set[tuple[str, str]] = set()
    for _, dataset in everywhere:
        for name in declared_personal_columns(dataset) if dataset.role == "source" else ():
            if (dataset.version_id, name.lower()) not in personal:
                personal |= _derived_columns(ask, dataset, name)
    found: dict[tuple[str, str], set[str]] = {}
    of_persons: dict[tuple[str, str], set[str]] = {}
    for run, dataset in everywhere:
        version = ask.graph.version(dataset.version_id)
        for each in apply_source_renames(version, dataset).columns if version is not None else ():
            if (name := each.name.lower()) in names:
                places = of_persons if (dataset.version_id, name) in personal else found
                places.setdefault((run.workflow, dataset.name), set()).add(name)
    return {place: others for place, here in found.items() if (others := here - of_persons.get(place, set()))}


def _derived_columns(ask: Questions, dataset: DatasetRecord, name: str) -> set[tuple[str, str]]:
    """Versions and names of the columns computed from a source's column, in any run that reads the version; including
    its own.
    """
    found, pending = {(dataset.version_id, name.lower())}, [(dataset.version_id, name.lower())]
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
                    found.add((made[each.dataset], each.name.lower()))
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
    """A column's own name, and SQL for its values as text; None if there is no such column."""
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
    """The values that also occur in rows of others."""
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
