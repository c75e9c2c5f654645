"""Rows of a dataset that were computed anew, beside those they stand for: which stay, which went, which came.

A row that is computed anew and is as it was stays, under its rid. So does one of the same group with other values:
it has changed. All others went or came.
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

COPY = private_column("copy")  # the number of a row among those that are equal to it


@dataclass(frozen=True)
class RowReplacement:
    """What a refresh does to the rows of a dataset.

    replaced: rids of rows, before, whose place is taken · files: the rows that take it
    places: the positions of those in the version that was computed · rids: their rids, in the same order
    gone, came: rids of the rows that really differ · counts: rows removed, changed and added
    """

    replaced: Ids
    files: list[AddedFile]
    rids: Ids
    gone: Ids
    came: Ids
    counts: dict[str, int]
    places: Ids


def match_rows(
    engine: QueryEngine, before: VersionScan, after: VersionScan, touched: str | None, keys: Sequence[str] | None
) -> RowReplacement:
    """`after` has the touched rows computed anew; `touched` is a query of their rids (column b) before, None for all.

    `keys` are columns that tell the rows of a dataset apart, where there are any.
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
    gone, came = np.setdiff1d(replaced, stay), np.setdiff1d(rids, stay)
    counts = {"removed": len(gone) - count_changed, "changed": count_changed, "added": len(came) - count_changed}
    for table in (old, new, stays, given, *([changed] if changed else [])):
        engine.drop(table)
    files = []
    for file in after.version.files:
        here = rids[file.base : file.base + file.rows]
        files.append(AddedFile(file, np.arange(file.rows, dtype=np.int64), here))
    places = np.arange(len(rids), dtype=np.int64)
    return RowReplacement(replaced, files, rids, gone, came, counts, places)


def same_values(columns: Sequence[VersionColumn], one: str, other: str) -> str:
    """That two rows are the same in all columns. Of floating-point numbers, nested ones too, the sign of zero counts:
    -0.0 is shown, divided by and written as another value. One NaN is the same as another."""
    pairs = zip(_exact_row(columns, one), _exact_row(columns, other), strict=True)
    return " AND ".join(f"{left} IS NOT DISTINCT FROM {right}" for left, right in pairs) or "true"


def number_equal_rows(query: str, columns: Sequence[VersionColumn]) -> str:
    """Rows with a number among those that are the same as they are."""
    exact = ", ".join(_exact_row(columns, "t"))
    return f"SELECT *, row_number() OVER (PARTITION BY {exact} ORDER BY {RID}) AS {COPY} FROM ({query}) t"


def exact_values(value: str, kind: str) -> list[str]:
    """SQL of values that are all equal, in DuckDB's own equality, only where a value of a Spark type is the same."""
    if kind in ("double", "float"):
        return [value, f"coalesce({value} = 0 AND signbit({value}), false)"]
    if re.search(r"\b(?:double|float)\b", kind):
        # The text shows the sign of zero; that it shows one of NaN too means nothing.
        return [value, f"replace(CAST({value} AS VARCHAR), '-nan', 'nan')"]
    return [value]


def _exact_row(columns: Sequence[VersionColumn], table: str) -> list[str]:
    return [text for each in columns for text in exact_values(f"{table}.{column(each.name)}", each.type)]


def _ids(engine: QueryEngine, query: str) -> Ids:
    found: Ids = engine.id_array(query).to_numpy(zero_copy_only=False).astype("int64")
    return found
