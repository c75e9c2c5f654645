"""Compares recomputed rows with the rows they replace: which are unchanged, changed, removed or added.

A recomputed row that equals an old one keeps its rid. A row of the same group with other values keeps its rid and
counts as changed. All others are removed or added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lineage_service.query.query_engine import QueryEngine
from lineage_service.store.duckdb_engine import column, private_column
from lineage_service.store.version_patcher import AddedFile, Ids
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import VersionColumn

COPY = private_column("copy")  # number of a row among equal rows


@dataclass(frozen=True)
class RowReplacement:
    """What a refresh does to the rows of a dataset.

    replaced: old rids that are replaced
    files: the files with the new rows
    places: the positions of the new rows in the computed version
    rids: their rids, in the same order
    removed_rids, added_rids: rids of rows that actually differ
    counts: rows removed, changed and added
    """

    replaced: Ids
    files: list[AddedFile]
    rids: Ids
    removed_rids: Ids
    added_rids: Ids
    counts: dict[str, int]
    places: Ids


def match_rows(
    engine: QueryEngine, before: VersionScan, after: VersionScan, touched: str | None, keys: Sequence[str] | None
) -> RowReplacement:
    """Matches the recomputed rows in `after` with the old rows. `touched` is a query of their old rids (column b);
    None: all rows.

    `keys` are columns that identify a row, if there are any.
    """

    columns = before.version.columns
    then = before.select()
    if touched is not None:
        then = f"SELECT t.* FROM ({then}) t SEMI JOIN ({touched}) x ON x.b = t.{RID}"
    old, new = engine.keep(number_equal_rows(then, columns)), engine.keep(number_equal_rows(after.select(), columns))
    same = same_values(columns, "o", "n")
    stays = engine.keep(
        f"SELECT n.{RID} AS place, o.{RID} AS rid FROM {new} n JOIN {old} o ON {same} AND o.{COPY} = n.{COPY}"
    )
    changed = None
    if keys:
        alike = " AND ".join(f"o.{column(name)} IS NOT DISTINCT FROM n.{column(name)}" for name in keys)
        changed = engine.keep(
            f"SELECT n.{RID} AS place, o.{RID} AS rid "
            f"FROM (SELECT * FROM {new} ANTI JOIN {stays} s ON s.place = {RID}) n "
            f"JOIN (SELECT * FROM {old} ANTI JOIN {stays} s ON s.rid = {RID}) o ON {alike} "
            f"QUALIFY row_number() OVER (PARTITION BY n.{RID}) = 1 AND row_number() OVER (PARTITION BY o.{RID}) = 1"
        )
    kept = f"SELECT * FROM {stays}" + (f" UNION ALL SELECT * FROM {changed}" if changed else "")
    end = before.version.end
    number = f"row_number() OVER (PARTITION BY k.rid IS NULL ORDER BY n.{RID})"
    given = engine.keep(
        f"SELECT n.{RID} AS place, coalesce(k.rid, {end} - 1 + {number}) AS rid "
        f"FROM {new} n LEFT JOIN ({kept}) k ON k.place = n.{RID}"
    )
    replaced = _ids(engine, f"SELECT {RID} FROM {old} ORDER BY {RID}")
    rids = _ids(engine, f"SELECT rid FROM {given} ORDER BY place")
    stay = _ids(engine, f"SELECT rid FROM {stays} ORDER BY rid")
    count_changed = engine.scalar(f"SELECT count(*) FROM {changed}") if changed else 0
    removed, added = np.setdiff1d(replaced, stay), np.setdiff1d(rids, stay)
    counts = {"removed": len(removed) - count_changed, "changed": count_changed, "added": len(added) - count_changed}
    for table in (old, new, stays, given, *([changed] if changed else [])):
        engine.drop(table)
    files = []
    for file in after.version.files:
        here = rids[file.base : file.base + file.rows]
        files.append(AddedFile(file, np.arange(file.rows, dtype=np.int64), here))
    places = np.arange(len(rids), dtype=np.int64)
    return RowReplacement(replaced, files, rids, removed, added, counts, places)


def same_values(columns: Sequence[VersionColumn], one: str, other: str) -> str:
    """A predicate that two rows are identical in all columns.

    For floating-point numbers, also nested ones, the sign of zero matters, because -0.0 is printed, divided by and
    stored differently. All NaNs are equal.
    """
    pairs = zip(_exact_row(columns, one), _exact_row(columns, other), strict=True)
    return " AND ".join(f"{left} IS NOT DISTINCT FROM {right}" for left, right in pairs) or "true"


def number_equal_rows(query: str, columns: Sequence[VersionColumn]) -> str:
    """Rows with their number among identical rows."""
    exact = ", ".join(_exact_row(columns, "t"))
    return f"SELECT *, row_number() OVER (PARTITION BY {exact} ORDER BY {RID}) AS {COPY} FROM ({query}) t"


def exact_values(value: str, kind: str) -> list[str]:
    """SQL expressions that are equal in DuckDB exactly if two values of a Spark type are identical."""
    if kind in ("double", "float"):
        return [value, f"coalesce({value} = 0 AND signbit({value}), false)"]
    if re.search(r"\b(?:double|float)\b", kind):
        # The text distinguishes -0.0 from 0.0. It also shows a sign for NaN, which must be ignored.
        return [value, f"replace(CAST({value} AS VARCHAR), '-nan', 'nan')"]
    return [value]


def _exact_row(columns: Sequence[VersionColumn], table: str) -> list[str]:
    return [text for each in columns for text in exact_values(f"{table}.{column(each.name)}", each.type)]


def _ids(engine: QueryEngine, query: str) -> Ids:
    found: Ids = engine.id_array(query).to_numpy(zero_copy_only=False).astype("int64")
    return found
