"""Determines what two versions of a dataset have in common: shared columns, common types, and the key that identifies a
row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.diff.diff_sql import SharedColumn, repeated_keys_sql, side_sql
from lineage_service.query.query_engine import QueryEngine
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID, VersionScan

# Up to this many rows, every column is counted exactly. Above it, columns far from distinct are excluded first.
COUNTED = 10_000
# Types that never serve as a key: measures that happen to be unique, and nested values.
_NO_KEYS = ("FLOAT", "DOUBLE", "DECIMAL", "STRUCT", "MAP", "UNION", "BLOB")


def tuples(engine: QueryEngine, query: str) -> list[tuple[Any, ...]]:
    """All rows of a query, for results that are small or must be held in memory anyway."""
    table = engine.stream(query).read_all()
    return list(zip(*(each.to_pylist() for each in table.columns), strict=True))


@dataclass(frozen=True)
class Versions:
    """Two versions of a dataset and the columns that can be compared.

    `added` and `removed` are columns that only one version has. `retyped` has both types of each column that changed
    its type.
    """

    before: VersionScan
    after: VersionScan
    shared: tuple[SharedColumn, ...]
    types: Mapping[str, str]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: Mapping[str, tuple[str, str]]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.shared]

    def values(self, keys: Sequence[str]) -> list[SharedColumn]:
        """The shared columns without the keys."""
        return [each for each in self.shared if each.name not in keys]

    def sides(self, keys: Sequence[str], values: Sequence[str]) -> tuple[str, str]:
        """The SQL of both sides with these keys and values."""
        by_name = {each.name: each for each in self.shared}
        k, v = [by_name[name] for name in keys], [by_name[name] for name in values]
        return (
            side_sql(self.before.select(), [each.before for each in k], [each.before for each in v]),
            side_sql(self.after.select(), [each.after for each in k], [each.after for each in v]),
        )

    def column(self, name: str) -> str | None:
        """The shared column with this name, ignoring case."""
        return next((each for each in self.names if each.lower() == name.lower()), None)


def versions_of(engine: QueryEngine, before: VersionScan, after: VersionScan) -> Versions:
    """Determines what the two versions share. Columns of different types are compared in a common type, otherwise as
    text.
    """
    # One version compared with itself is equal even if its files are gone, so nothing is read.
    same = before.version.id == after.version.id
    selects = (scan.select_positions([]) if same else scan.select() for scan in (before, after))
    old, new = ({name: kind for name, kind in engine.types(select).items() if name != RID} for select in selects)
    by_lower = {name.lower(): name for name in old}
    shared, retyped = [], {}
    for name, kind in new.items():
        earlier = by_lower.pop(name.lower(), None)
        if earlier is None:
            continue
        types, common = (old[earlier], kind), None
        if types[0] != types[1]:
            retyped[name] = types
            common = _common_type(engine, (before, after), (earlier, name), types)
        shared.append(SharedColumn.of(earlier, name, types, common))
    known = {each.name for each in shared}
    added = tuple(name for name in new if name not in known)
    return Versions(before, after, tuple(shared), new, added, tuple(by_lower.values()), retyped)


def _common_type(
    engine: QueryEngine, scans: tuple[VersionScan, VersionScan], names: tuple[str, str], types: tuple[str, str]
) -> str:
    try:
        nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in types)
        common = engine.types(f"SELECT coalesce({nulls}) AS c")["c"]
    except QuestionError:  # no common type exists, as for a date and a number
        return "VARCHAR"
    for scan, name, kind in zip(scans, names, types, strict=True):
        there_and_back = f"TRY_CAST(TRY_CAST({column(name)} AS {common}) AS {kind})"
        lost = f"SELECT count(*) FROM ({scan.select([name])}) t WHERE {column(name)} IS DISTINCT FROM {there_and_back}"
        if engine.scalar(lost):
            return "VARCHAR"
    return common


@dataclass(frozen=True)
class RowKey:
    """The columns that identify a row. `origin` is `given`, `check`, `subject`, `group` or `column`."""

    columns: tuple[str, ...]
    origin: str

    @property
    def is_inferred(self) -> bool:
        return self.origin != "given"


def given_key(versions: Versions, columns: Sequence[str], dataset: str) -> RowKey:
    """The key that the user named. Raises QuestionError for a column that is not in both versions."""
    found = []
    for name in columns:
        known = versions.column(name)
        if known is None:
            only = name.lower() in {each.lower() for each in (*versions.added, *versions.removed)}
            what = f"column '{name}' is in one of the two runs only" if only else f"unknown column '{name}'"
            raise QuestionError(
                f"{what}; columns of '{dataset}' in both: {join_names(versions.names)}",
                hint=did_you_mean(name, versions.names),
            )
        found.append(known)
    return RowKey(tuple(dict.fromkeys(found)), "given")


def require_unique(engine: QueryEngine, versions: Versions, key: RowKey, dataset: str, option: str) -> None:
    """Raises QuestionError if a key occurs more than once in one of the versions."""
    for side, run in zip(versions.sides(key.columns, ()), ("before", "after"), strict=True):
        repeated = engine.scalar(repeated_keys_sql(side, len(key.columns)))
        if repeated:
            keys = "key occurs" if repeated == 1 else "keys occur"
            raise QuestionError(
                f"{', '.join(key.columns)} does not identify the rows of '{dataset}': {repeated:,} {keys} more than "
                f"once in the run {run}; columns: {join_names(versions.names)}",
                hint=f"give more columns: {option}",
            )


def declared_key(engine: QueryEngine, versions: Versions, declared: str) -> RowKey | None:
    """The columns of the first `unique` check that holds in both versions."""
    for check in json.loads(declared).get("checks") or ():
        columns = check.get("unique") or ()
        columns = [columns] if isinstance(columns, str) else columns
        known = [versions.column(name) for name in columns]
        names = tuple(name for name in known if name is not None)
        if names and len(names) == len(known) and _is_unique(engine, versions, names):
            return RowKey(names, "check")
    return None


def subject_key(engine: QueryEngine, versions: Versions, declared: str) -> RowKey | None:
    """A column declared to identify a person, if it is unique in both versions."""
    columns = (versions.column(name) for name in (json.loads(declared).get("subject") or {}).values())
    found = first_unique(engine, versions, [name for name in columns if name is not None])
    return None if found is None else RowKey((found,), "subject")


def grouping_key(engine: QueryEngine, versions: Versions, group: Sequence[str]) -> RowKey | None:
    """The leftmost grouping column that is unique by itself, otherwise all grouping columns."""
    known = [versions.column(name) for name in group]
    names = tuple(name for name in known if name is not None)
    if len(names) < len(known) or not _is_unique(engine, versions, names):
        return None
    alone = first_unique(engine, versions, names) if names else None
    return RowKey(names if alone is None else (alone,), "group")


def column_key(engine: QueryEngine, versions: Versions) -> RowKey | None:
    """The leftmost column that is non-null and unique in both versions. Measures are not considered."""
    able = [name for name in versions.names if _may_be_key(versions.types[name])]
    found = first_unique(engine, versions, able)
    return None if found is None else RowKey((found,), "column")


def _may_be_key(type_text: str) -> bool:
    return not type_text.startswith(_NO_KEYS) and not type_text.endswith("]")


def first_unique(engine: QueryEngine, versions: Versions, names: Sequence[str]) -> str | None:
    """The first of these columns that is non-null and unique in both versions."""
    left = list(names)
    for side in versions.sides((), names) if len(names) > 1 else ():
        tests = ", ".join(
            f"count(v{index}) = count(*) AND (count(*) <= {COUNTED} OR approx_count_distinct(v{index}) > count(*) / 2)"
            for index in range(len(names))
        )
        (flags,) = tuples(engine, f"SELECT {tests} FROM ({side}) s")
        left = [name for name in left if flags[list(names).index(name)]]
    for name in left:
        test = "SELECT count(*) = count(v0) AND count(*) = count(DISTINCT v0) FROM"
        if all(engine.scalar(f"{test} ({side}) s") for side in versions.sides((), (name,))):
            return name
    return None


def _is_unique(engine: QueryEngine, versions: Versions, names: Sequence[str]) -> bool:
    return not any(engine.scalar(repeated_keys_sql(side, len(names))) for side in versions.sides(names, ()))


def grouped_by(content: str | None, dataset: str) -> tuple[str, ...] | None:
    """The columns that an output or kept step is grouped by, according to its workflow; None if it is not grouped.

    Looks through steps that keep rows distinct: filter, sort, limit, and steps that add or select columns.
    """
    spec: dict[str, Any] = json.loads(content or "{}")
    steps = {step["name"]: step for step in spec.get("steps") or ()}
    name = ((spec.get("outputs") or {}).get(dataset) or {}).get("step") or dataset
    names: dict[str, str] | None = None  # renames of a projection: old name to new
    hidden: set[str] = set()
    while (step := steps.get(name)) is not None:
        match step["op"]:
            case "filter" | "sort" | "limit":
                pass
            case "with_columns":
                hidden |= set(step["columns"])
            case "project" if names is None and not hidden:
                columns = step["columns"]
                pairs = columns.items() if isinstance(columns, dict) else [(each, each) for each in columns]
                names = {old.strip("`"): new for new, old in reversed(list(pairs))}
            case "aggregate":
                group = list(step.get("by") or ())
                if hidden & set(group) or (names is not None and not names.keys() >= set(group)):
                    return None
                return tuple(group if names is None else [names[each] for each in group])
            case _:
                return None
        name = step["input"]
    return None
