"""SQL of a diff: compares two versions of a dataset, and the source rows behind two rows. Pure text.

A *side* is a version prepared for the comparison: `rid`, key columns k0, k1, …, value columns v0, v1, … in types that
both versions share. Values are compared only with IS [NOT] DISTINCT FROM: null equals null, NaN equals NaN, -0.0 equals
0.0; floating-point numbers also within a tolerance (`diff/tolerance.py`). A plain `=` in a join must not be used:
DuckDB pushes it into the file scan, Parquet statistics do not cover NaN, and rows with NaN would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.query.diff.tolerance import differs, has_floating
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

NO_CHANGES = (
    "SELECT 0::BIGINT AS n, 0::BIGINT AS rid_before, 0::BIGINT AS rid_after, NULL::INTEGER[] AS differs WHERE false"
)


@dataclass(frozen=True)
class SharedColumn:
    """A column that both versions have: its name in each, and the compared expression."""

    name: str
    before: str
    after: str
    type: str  # type in which they are compared

    @classmethod
    def of(cls, old: str, new: str, types: tuple[str, str], common: str | None) -> SharedColumn:
        """Builds a shared column. `common` is the type to cast both to; None if no cast is needed."""
        before, after = (
            comparable(_cast(column(name), common), common or kind)
            for name, kind in zip((old, new), types, strict=True)
        )
        return cls(new, before, after, common or types[1])


def _cast(expression: str, common: str | None) -> str:
    return expression if common is None else f"CAST({expression} AS {common})"


def comparable(expression: str, type_text: str) -> str:
    """The expression with the entries of its maps sorted, so that the order of entries does not matter."""
    if "MAP(" not in type_text:
        return expression
    import duckdb

    return _without_maps(expression, duckdb.sqltype(type_text), 0)


def _without_maps(expression: str, kind: DuckDBPyType | int | list[str], depth: int) -> str:
    if isinstance(kind, int | list) or "MAP(" not in str(kind):  # DuckDB's types have sizes and words as children too
        return expression
    parts, element = dict(kind.children), f"e{depth}"
    if kind.id == "map":
        entries = f"map_entries({expression})"
        if "MAP(" in str(parts["value"]):
            value = _without_maps(f"{element}.value", parts["value"], depth + 1)
            entries = (
                f"list_transform({entries}, lambda {element}: struct_pack(key := {element}.key, value := {value}))"
            )
        return f"list_sort({entries})"
    if kind.id == "struct":
        fields = [
            f"{column(name)} := {_without_maps(f'{expression}.{column(name)}', field, depth)}"
            for name, field in parts.items()
        ]
        return f"CASE WHEN {expression} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    return f"list_transform({expression}, lambda {element}: {_without_maps(element, parts['child'], depth + 1)})"


def side_sql(scan: str, keys: Sequence[str], values: Sequence[str]) -> str:
    """One side of the comparison: rid, k0, k1, …, v0, v1, …. Without keys, all rows have the same key."""
    named = [f"{text} AS k{index}" for index, text in enumerate(keys or ["0"])]
    named += [f"{text} AS v{index}" for index, text in enumerate(values)]
    return f"SELECT {RID} AS rid, {', '.join(named)} FROM ({scan}) version_rows"


def changes_sql(
    before: str, after: str, keys: int, types: Sequence[str], *, tolerance: float = 0.0, by_key: bool = True
) -> str:
    """Every row that differs: n (from 1, in key order), rid_before, rid_after, and the columns that differ.

    `types` are the types of the value columns. Rows that differ only within the tolerance come last, with an empty list
    of differing columns. Without `by_key`, rows are ordered by row id, because the order of a masked key would disclose
    it.
    """
    keys = max(1, keys)
    order = ", ".join(f"coalesce(a.k{index}, b.k{index})" for index in range(keys))
    order = order if by_key else "coalesce(a.rid, b.rid), a.rid IS NULL"
    tests = value_tests(types, tolerance)
    if tolerance and any(map(has_floating, types)):
        order = f"a.rid IS NOT NULL AND b.rid IS NOT NULL AND NOT ({' OR '.join(tests)}), {order}"
    return (
        f"SELECT row_number() OVER (ORDER BY {order}) AS n, b.rid AS rid_before, a.rid AS rid_after, "
        f"CASE WHEN a.rid IS NOT NULL AND b.rid IS NOT NULL THEN {differing_columns(tests)} END AS differs "
        f"FROM ({before}) b FULL JOIN ({after}) a ON {same_key(keys)} "
        f"WHERE a.rid IS NULL OR b.rid IS NULL{any_differs(value_tests(types), ' OR ')} ORDER BY n"
    )


def same_key(keys: int, left: str = "a", right: str = "b") -> str:
    return " AND ".join(f"{left}.k{index} IS NOT DISTINCT FROM {right}.k{index}" for index in range(max(1, keys)))


def value_tests(types: Sequence[str], tolerance: float = 0.0) -> list[str]:
    """For each value column, a predicate that is true if a and b differ."""
    return [differs(f"a.v{index}", f"b.v{index}", kind, tolerance) for index, kind in enumerate(types)]


def differing_columns(tests: Sequence[str]) -> str:
    """The numbers of the value columns that differ between a and b."""
    numbers = [f"CASE WHEN {test} THEN {index} END" for index, test in enumerate(tests)]
    return f"list_filter([{', '.join(numbers)}]::INTEGER[], lambda x: x IS NOT NULL)"


def any_differs(tests: Sequence[str], lead: str = "") -> str:
    return f"{lead}{' OR '.join(tests)}" if tests else "" if lead else "false"


def repeated_keys_sql(side: str, keys: int) -> str:
    """The number of keys that occur more than once."""
    by = ", ".join(f"k{index}" for index in range(max(1, keys)))
    return f"SELECT count(*) FROM (SELECT 1 FROM ({side}) s GROUP BY {by} HAVING count(*) > 1)"


def copy_number(keys: int, *, unique: bool, within: str = "") -> str:
    """The number of a row among rows with the same key, from 1. Two copies of the same content are two rows."""
    if unique:
        return "1::BIGINT"
    by = ", ".join(f"s.k{index}" for index in range(max(1, keys)))
    return f"row_number() OVER (PARTITION BY {within}{by} ORDER BY s.rid)"


def pairs_sql(walk: str, changes: str, rid: str) -> str:
    """(n, rid): the source rows behind each change on one side. `walk` yields pairs (a, b) from that side's rows."""
    return f"SELECT c.n, p.b AS rid FROM ({walk}) p JOIN {changes} c ON c.{rid} = p.a"


def same_version_sql(before: str, after: str) -> str:
    """The case that both runs read one version: rows match by rid, and the other version holds every row."""
    return (
        "SELECT coalesce(a.n, b.n) AS n, "
        "CASE WHEN b.rid IS NULL THEN 'added' WHEN a.rid IS NULL THEN 'removed' ELSE 'same' END AS kind, "
        "b.rid AS rid_before, a.rid AS rid_after, true AS known, NULL::INTEGER[] AS differs "
        f"FROM {before} b FULL JOIN {after} a ON a.n = b.n AND a.rid = b.rid"
    )


def one_sided_sql(pairs: str, kind: str) -> str:
    """The case that only one run reads the source: all its rows are added, or all are removed."""
    before, after = ("NULL::BIGINT", "p.rid") if kind == "added" else ("p.rid", "NULL::BIGINT")
    return (
        f"SELECT p.n, '{kind}' AS kind, {before} AS rid_before, {after} AS rid_after, NULL::BOOLEAN AS known, "
        f"NULL::INTEGER[] AS differs FROM {pairs} p"
    )


def matched_sql(
    pairs: tuple[str, str], sides: tuple[str, str], keys: int, tests: Sequence[str], *, unique: bool
) -> str:
    """The rows behind each change, matched by key and copy number. `sides` are tables of these rows."""
    copy = copy_number(keys, unique=unique, within="p.n, ")
    before, after = (
        f"(SELECT s.*, p.n, {copy} AS copy FROM {pair} p JOIN {side} s ON s.rid = p.rid)"
        for pair, side in zip(pairs, sides, strict=True)
    )
    return (
        "SELECT coalesce(a.n, b.n) AS n, CASE WHEN b.rid IS NULL THEN 'added' WHEN a.rid IS NULL THEN 'removed' "
        f"WHEN {any_differs(tests)} THEN 'changed' ELSE 'same' END AS kind, coalesce(a.copy, b.copy) AS copy, "
        "b.rid AS rid_before, a.rid AS rid_after, "
        f"CASE WHEN a.rid IS NOT NULL AND b.rid IS NOT NULL THEN {differing_columns(tests)} END AS differs "
        f"FROM {before} b FULL JOIN {after} a ON a.n = b.n AND a.copy = b.copy AND {same_key(keys)}"
    )


def elsewhere_sql(matched: str, kind: str, side: str, other: str, keys: int, *, unique: bool) -> str:
    """Rows of the whole other version (`other`) with the key of a row that is on this side only (`kind`)."""
    rid = "rid_after" if kind == "added" else "rid_before"
    wanted = (
        f"SELECT w.* FROM {side} w SEMI JOIN (SELECT {rid} AS rid FROM {matched} WHERE kind = '{kind}') m USING (rid)"
    )
    found = f"SELECT o.* FROM ({other}) o SEMI JOIN ({wanted}) w ON {same_key(keys, 'o', 'w')}"
    return f"SELECT s.*, {copy_number(keys, unique=unique)} AS copy FROM ({found}) s"


def behind_sql(
    matched: str, sides: tuple[str, str], elsewhere: tuple[str, str], keys: int, tests: Sequence[str], *, unique: bool
) -> str:
    """`matched` with two more columns for rows on one side only: whether the other version has the row (`known`), and
    as which row.

    Rows without a key are matched by content. Any row of equal content would do, so none is named.
    """

    def one_sided_select(kind: str) -> str:
        added = kind == "added"
        mine, theirs, own = ("a", "b", "rid_after") if added else ("b", "a", "rid_before")
        side, other = (sides[1], elsewhere[0]) if added else (sides[0], elsewhere[1])
        rid = {mine: f"{mine}.rid", theirs: f"{theirs}.rid" if unique else "NULL::BIGINT"}
        differs = (
            f"CASE WHEN {theirs}.rid IS NOT NULL THEN {differing_columns(tests)} END" if unique else "NULL::INTEGER[]"
        )
        return (
            f"SELECT m.n, m.kind, {rid['b']} AS rid_before, {rid['a']} AS rid_after, "
            f"{theirs}.rid IS NOT NULL AS known, {differs} AS differs "
            f"FROM {matched} m JOIN {side} {mine} ON {mine}.rid = m.{own} "
            f"LEFT JOIN {other} {theirs} ON {theirs}.copy = m.copy AND {same_key(keys)} WHERE m.kind = '{kind}'"
        )

    both = f"SELECT n, kind, rid_before, rid_after, true AS known, differs FROM {matched}"
    parts = [f"{both} WHERE kind IN ('same', 'changed')", one_sided_select("added"), one_sided_select("removed")]
    return " UNION ALL ".join(parts)


def behind_counts_sql(behind: str) -> str:
    """Per change the number of rows that are added, new, removed, gone, changed and the same."""
    return (
        "SELECT n, count(*) FILTER (kind = 'added'), count(*) FILTER (kind = 'added' AND known = false), "
        "count(*) FILTER (kind = 'removed'), count(*) FILTER (kind = 'removed' AND known = false), "
        f"count(*) FILTER (kind = 'changed'), count(*) FILTER (kind = 'same') FROM {behind} GROUP BY n"
    )


def shown_behind_sql(behind: str, rows: int) -> str:
    """A sample of rows per change: changed, added and removed rows in turn, new and gone rows first."""
    nth = "row_number() OVER (PARTITION BY n, kind ORDER BY known NULLS FIRST, coalesce(rid_after, rid_before))"
    turn = "row_number() OVER (PARTITION BY n ORDER BY nth, kind = 'removed', kind = 'added')"
    return (
        f"SELECT n, kind, rid_before, rid_after, known, differs FROM (SELECT *, {turn} AS turn FROM "
        f"(SELECT *, {nth} AS nth FROM {behind} WHERE kind <> 'same')) WHERE turn <= {rows} ORDER BY n, turn"
    )


def classes_sql(before: str, after: str, keys: int) -> str:
    """Every key of two whole versions, numbered c from 0."""
    by = ", ".join(f"k{index}" for index in range(max(1, keys)))
    both = f"SELECT {by} FROM ({before}) UNION SELECT {by} FROM ({after})"
    return f"SELECT *, row_number() OVER () - 1 AS c FROM ({both})"


def class_rows_sql(side: str, classes: str, keys: int) -> str:
    """(rid, c): the key number of each row."""
    return f"SELECT s.rid, c.c FROM ({side}) s JOIN {classes} c ON {same_key(keys, 's', 'c')} ORDER BY s.rid"


def changed_classes_sql(before: str, after: str, classes: str, keys: int, tests: Sequence[str]) -> str:
    """Keys that have exactly one row in each version, where the two rows differ."""
    return (
        f"SELECT c.c FROM ({before}) b JOIN ({after}) a ON {same_key(keys)} "
        f"JOIN {classes} c ON {same_key(keys, 'b', 'c')} WHERE {any_differs(tests)} ORDER BY 1"
    )


def shown_with_differences_sql(shown: str, sides: tuple[str, str] | None, tests: Sequence[str]) -> str:
    """The rows to show (n, turn, kind, rid_before, rid_after, known), with the columns in which they differ."""
    columns = "s.n, s.kind, s.rid_before, s.rid_after, s.known"
    if sides is None:
        return f"SELECT {columns}, NULL::INTEGER[] AS differs FROM {shown} s ORDER BY s.n, s.turn"
    return (
        f"SELECT {columns}, CASE WHEN a.rid IS NOT NULL AND b.rid IS NOT NULL THEN {differing_columns(tests)} END "
        "AS differs "
        f"FROM {shown} s LEFT JOIN ({sides[0]}) b ON b.rid = s.rid_before "
        f"LEFT JOIN ({sides[1]}) a ON a.rid = s.rid_after ORDER BY s.n, s.turn"
    )


def version_counts_sql(before: str, after: str, keys: int, tests: Sequence[str], *, unique: bool) -> str:
    """The numbers of rows of a whole version that were added, removed and changed."""
    sides = [f"(SELECT s.*, {copy_number(keys, unique=unique)} AS copy FROM ({side}) s)" for side in (before, after)]
    return (
        f"SELECT count(*) FILTER (b.rid IS NULL), count(*) FILTER (a.rid IS NULL), "
        f"count(*) FILTER (a.rid IS NOT NULL AND b.rid IS NOT NULL AND ({any_differs(tests)})) "
        f"FROM {sides[0]} b FULL JOIN {sides[1]} a ON a.copy = b.copy AND {same_key(keys)}"
    )
