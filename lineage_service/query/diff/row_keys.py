"""What two versions share, and what tells one row from another: columns, their common types, keys given or found."""

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

# So many rows are counted exactly for every column; of more, columns that are far from distinct are left out first.
COUNTED = 10_000
# A measure that happens to be different in every row identifies none; nor does what is nested.
_NO_KEYS = ("FLOAT", "DOUBLE", "DECIMAL", "STRUCT", "MAP", "UNION", "BLOB")


def tuples(engine: QueryEngine, query: str) -> list[tuple[Any, ...]]:
    """A query's rows; for answers that are small, or are to be held anyway."""
    table = engine.stream(query).read_all()
    return list(zip(*(each.to_pylist() for each in table.columns), strict=True))


@dataclass(frozen=True)
class Versions:
    """Two versions of a dataset, and the columns that can be compared.

    `added` and `removed` are columns that only one has; `retyped` has the two types of those that changed theirs.
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
        """The shared columns besides the keys."""
        return [each for each in self.shared if each.name not in keys]

    def sides(self, keys: Sequence[str], values: Sequence[str]) -> tuple[str, str]:
        """SQL of both versions with these keys and values."""
        by_name = {each.name: each for each in self.shared}
        k, v = [by_name[name] for name in keys], [by_name[name] for name in values]
        return (
            side_sql(self.before.select(), [each.before for each in k], [each.before for each in v]),
            side_sql(self.after.select(), [each.after for each in k], [each.after for each in v]),
        )

    def column(self, name: str) -> str | None:
        """The shared column of that name, however it is capitalised."""
        return next((each for each in self.names if each.lower() == name.lower()), None)


def versions_of(engine: QueryEngine, before: VersionScan, after: VersionScan) -> Versions:
    """What the two have in common. A column of unlike types is compared in a type that holds both, else as text."""
    # One version against itself is the same also where its files are gone: then nothing is read.
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
    except QuestionError:  # there is none, as for a date and a number
        return "VARCHAR"
    for scan, name, kind in zip(scans, names, types, strict=True):
        there_and_back = f"TRY_CAST(TRY_CAST({column(name)} AS {common}) AS {kind})"
        lost = f"SELECT count(*) FROM ({scan.select([name])}) t WHERE {column(name)} IS DISTINCT FROM {there_and_back}"
        if engine.scalar(lost):
            return "VARCHAR"
    return common


@dataclass(frozen=True)
class RowKey:
    """The columns that identify a row; where they come from is `given`, `check`, `subject`, `group` or `column`."""

    columns: tuple[str, ...]
    origin: str

    @property
    def is_inferred(self) -> bool:
        return self.origin != "given"


def given_key(versions: Versions, columns: Sequence[str], dataset: str) -> RowKey:
    """The key that the user named; QuestionError for a column that is not in both versions."""
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
    """QuestionError where a key occurs more than once in one of the versions."""
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
    """A column that is declared to identify a person, where it does."""
    columns = (versions.column(name) for name in (json.loads(declared).get("subject") or {}).values())
    found = first_unique(engine, versions, [name for name in columns if name is not None])
    return None if found is None else RowKey((found,), "subject")


def grouping_key(engine: QueryEngine, versions: Versions, group: Sequence[str]) -> RowKey | None:
    """Of the columns that a dataset is grouped by, the leftmost that is enough alone; else all of them."""
    known = [versions.column(name) for name in group]
    names = tuple(name for name in known if name is not None)
    if len(names) < len(known) or not _is_unique(engine, versions, names):
        return None
    alone = first_unique(engine, versions, names) if names else None
    return RowKey(names if alone is None else (alone,), "group")


def column_key(engine: QueryEngine, versions: Versions) -> RowKey | None:
    """The leftmost column that is never null and never twice the same in both versions; measures do not count."""
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
    """The columns that the rows of an output or kept step are grouped by, as its workflow says; None where not so.

    Looks through steps that keep every row apart: filter, sort, limit, columns that are added or chosen.
    """
    spec: dict[str, Any] = json.loads(content or "{}")
    steps = {step["name"]: step for step in spec.get("steps") or ()}
    name = ((spec.get("outputs") or {}).get(dataset) or {}).get("step") or dataset
    names: dict[str, str] | None = None  # where columns were chosen: old name to new
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
