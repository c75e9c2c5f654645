"""Checks the lineage of an sql step by running its query again on parts of the tables, in DuckDB.

The traced rows of an output row must give that row again, and taking one of them away must change the row or remove
it. DuckDB computes both sides of each comparison, after its whole result was found to have the step's rows, so that
Spark's semantics decide and DuckDB only repeats.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from benchmarks.sql_queries import SqlQuery

Row = tuple[Any, ...]
SAMPLED_RIDS = 2  # rows of a source behind one output row that are taken away
NEAR = 1e-6  # Spark rounds averages and quotients of decimals, DuckDB computes them as doubles
COUNT = "rows_of_the_group"


@dataclass
class LineageCheck:
    """What the check of one query found.

    replayed: output rows that their traced rows gave again. removed, seen: source rows that were taken away, and those
    of them that changed the output row. excuses: constructs of the query by which a row may be given otherwise, or need
    not matter. faults: what is wrong. unchecked: why nothing could be checked.
    """

    replayed: int = 0
    sampled: int = 0
    removed: int = 0
    seen: int = 0
    excuses: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)
    unchecked: str | None = None

    def __str__(self) -> str:
        if self.unchecked:
            return f"not checked: {self.unchecked}"
        text = f"replayed {self.replayed} of {self.sampled}, removals seen {self.seen} of {self.removed}"
        return text + (f" (query has {', '.join(self.excuses)})" if self.excuses else "")


class Replay:
    """The tables of a suite in DuckDB: whole, and parts of them chosen by rids."""

    def __init__(self, data: Path) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("CREATE SCHEMA part")
        self.tables: dict[str, list[str]] = {}
        for file in sorted(data.glob("*.parquet")):
            self.connection.execute(
                f"CREATE TABLE whole_{file.stem} AS SELECT *, file_row_number AS rid__ "
                f"FROM read_parquet('{file}', file_row_number = true)"
            )
            self.connection.execute(f"ALTER TABLE whole_{file.stem} DROP COLUMN IF EXISTS file_row_number")
            self.connection.execute(f"CREATE VIEW {file.stem} AS SELECT * EXCLUDE (rid__) FROM whole_{file.stem}")

    def whole(self, text: str) -> list[Row]:
        self.connection.execute("SET schema = 'main'")
        return self.connection.execute(text).fetchall()

    def keep(self, tables: Iterable[str], rids: Mapping[str, Sequence[int]]) -> None:
        """Makes the parts of the tables: the rows with these rids alone."""
        for table in tables:
            self.take(table, rids.get(table, ()))

    def part(self, text: str) -> list[Row]:
        """The rows of the query over the parts."""
        self.connection.execute("SET schema = 'part'")
        return self.connection.execute(text).fetchall()

    def take(self, table: str, rids: Sequence[int]) -> None:
        """Makes the part of one table anew."""
        chosen = pa.table({"rid": pa.array(rids, pa.int64())})
        self.connection.register("chosen_rids", chosen)
        self.connection.execute(
            f"CREATE OR REPLACE TABLE part.{table} AS SELECT * EXCLUDE (rid__) FROM main.whole_{table} "
            "WHERE rid__ IN (SELECT rid FROM chosen_rids) ORDER BY rid__"
        )
        self.connection.unregister("chosen_rids")


def check_lineage(
    replay: Replay, query: SqlQuery, found: pa.Table, pairs: Mapping[str, pa.Table], sampled: int, seed: int = 0
) -> LineageCheck:
    """found: the output's rows, with `_rid`. pairs: per source those of `out_rid` and `rid`. sampled: how many rows
    of the output are checked."""
    check = LineageCheck(excuses=tuple(excuses(query.tree)))
    text = repeated_text(query.tree)
    try:
        whole = replay.whole(text)
    except duckdb.Error as error:
        check.unchecked = f"DuckDB does not run it ({str(error).splitlines()[0]})"
        return check
    behind = _rids_by_output(pairs)
    rows = [tuple(row.values()) for row in found.drop_columns("_rid").to_pylist()]
    for place in _sample(len(rows), sampled, seed):
        rid = found.column("_rid")[place].as_py()
        same = [row for row in whole if _is_near(row, rows[place])]
        if not same:
            check.unchecked = f"DuckDB has not the row {rows[place]}"
            return check
        _check_row(replay, query, text, check, same, behind.get(rid, {}), f"row {rid} {rows[place]}", seed)
    return check


def _check_row(
    replay: Replay, query: SqlQuery, text: str, check: LineageCheck, same: list[Row],
    rids: Mapping[str, list[int]], name: str, seed: int,
) -> None:  # fmt: skip
    check.sampled += 1
    replay.keep(query.tables, rids)
    again = replay.part(text)
    # Of rows that are equal but for what was added to the query, any may be the one that was traced.
    wanted = next((row for row in same if _count(again, row)), None)
    if wanted is None:
        if not check.excuses:
            check.faults.append(f"{name} is not given again by its {_sizes(rids)}")
        return
    check.replayed += 1
    before = _count(again, wanted)
    for table, kept in rids.items():
        for gone in random.Random(seed).sample(kept, min(len(kept), SAMPLED_RIDS)):
            replay.take(table, [rid for rid in kept if rid != gone])
            check.removed += 1
            if _count(replay.part(text), wanted) < before:
                check.seen += 1
            elif not check.excuses:
                check.faults.append(f"{name} does not need row {gone} of {table}")
        replay.take(table, kept)


def repeated_text(tree: exp.Expression) -> str:
    """The query for DuckDB, without its last ORDER BY and LIMIT: part of the rows may be more rows of another order.

    Where its outermost SELECT groups, the rows of a group are counted too, so that each of them matters.
    """
    tree = tree.copy()
    tree.set("order", None)
    tree.set("limit", None)
    if isinstance(tree, exp.Select) and _is_counted(tree):
        tree = tree.select(exp.alias_(exp.Count(this=exp.Star()), COUNT), copy=False)
    return tree.sql("duckdb")


def _is_counted(select: exp.Select) -> bool:
    of_this = [node for entry in select.expressions for node in entry.find_all(exp.AggFunc) if _owner(node) is select]
    plain = all(not isinstance(node.parent, exp.Window) for node in of_this)
    return bool(of_this or select.args.get("group")) and plain and not select.args.get("distinct") and not any(
        _owner(node) is select for node in select.find_all(exp.Window)
    )  # fmt: skip


def _owner(node: exp.Expression) -> exp.Expression | None:
    return node.find_ancestor(exp.Select)


def excuses(tree: exp.Expression) -> list[str]:
    """The constructs by which part of the tables may give other rows, or a contributing row need not matter."""
    return list(dict.fromkeys(_excuses(tree)))


def _excuses(tree: exp.Expression) -> Iterator[str]:
    top = tree if isinstance(tree, exp.Select) and _is_counted(tree) else None
    for node in tree.walk():
        match node:
            case exp.Exists():
                yield "NOT EXISTS" if isinstance(node.parent, exp.Not) else "EXISTS"
            case exp.In() if node.args.get("query") is not None:
                yield "NOT IN" if isinstance(node.parent, exp.Not) else "IN"
            case exp.Subquery() if _is_scalar(node):
                yield "a scalar subquery"
            case exp.Except():
                yield "EXCEPT"
            case exp.Intersect():
                yield "INTERSECT"
            case exp.Union() if node.args.get("distinct"):
                yield "UNION"
            case exp.Join() if node.args.get("side"):
                yield f"{node.args['side']} JOIN"
            case exp.Window():
                yield "a window"
            case exp.Distinct() if isinstance(node.parent, exp.Select):
                yield "DISTINCT"
            case exp.Rollup() | exp.Cube() | exp.GroupingSets():
                yield "grouping sets"
            case exp.AggFunc() if _owner(node) is not top and not isinstance(node.parent, exp.Window):
                yield "an inner aggregate"
            case exp.Group() if _owner(node) is not top:
                yield "an inner aggregate"


def _is_scalar(node: exp.Subquery) -> bool:
    return not isinstance(node.parent, exp.From | exp.Join | exp.SetOperation | exp.CTE | exp.Subquery | exp.In)


def _rids_by_output(pairs: Mapping[str, pa.Table]) -> dict[int, dict[str, list[int]]]:
    found: dict[int, dict[str, list[int]]] = {}
    for table, each in pairs.items():
        for out, rid in zip(each.column("out_rid").to_pylist(), each.column("rid").to_pylist(), strict=True):
            found.setdefault(out, {}).setdefault(table, []).append(rid)
    return found


def _sample(rows: int, sampled: int, seed: int) -> list[int]:
    """The first, the last, and others by chance."""
    ends = [0, rows - 1] if rows > 1 else [0] * rows
    middle = range(1, max(rows - 1, 1))
    return sorted([*ends, *random.Random(seed).sample(middle, min(len(middle), max(sampled - len(ends), 0)))])


def _count(rows: Iterable[Row], wanted: Row) -> int:
    return sum(_is_near(row, wanted) for row in rows)


def _is_near(row: Row, other: Row) -> bool:
    """Whether values are equal, those of `other` first: `row` may have a count behind them."""
    return all(_same(one, two) for one, two in zip(row, other, strict=False))


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float | Decimal) or isinstance(two, float | Decimal):
        if one is None or two is None:
            return one is two
        a, b = float(one), float(two)
        return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= NEAR * max(1.0, abs(a), abs(b))
    return bool(one == two)


def _sizes(rids: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{len(each)} of {table}" for table, each in rids.items()) or "no rows"
