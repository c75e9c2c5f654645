"""Reads rows of a dataset version, by position or by a key scan, whichever is cheaper.

A read by position touches only the row groups that contain a requested row. A key scan decodes the key column of all
row groups and then reads the rows by position. Reading by position is cheaper unless the rows are many and spread over
most row groups.
"""

from __future__ import annotations

import re
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord

from lineage_service.equivalence.intervals import has_intervals
from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.answer import AnswerPart
from lineage_service.query.answer_shape import AnswerShape
from lineage_service.query.changed_files import (
    changed_files,
    engine_counts,
    files_holding,
    place_of,
    positions_of,
    refuse_changed,
    unchanged_start,
    value_of,
)
from lineage_service.query.guarded_session import Session
from lineage_service.query.lineage_graph import Direction
from lineage_service.query.masks import Masked, shown_columns
from lineage_service.query.predicate_gate import checked_order
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.walk_sql import Start, WalkSql
from lineage_service.store.checksums import verify_groups
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID, VersionScan

if TYPE_CHECKING:
    import pyarrow as pa

Keyed = Callable[[], str | None]  # a query that finds rows by a key scan; None if no key is usable
SPELLED = 20  # up to this many rows are named in the query itself
MOST_HELD = 5_000_000  # up to this many row ids are held in memory
MOST_TOUCHED = 0.55  # up to this share of the row groups, rows are read by position
FEW_OF_ALL = 0.01  # up to this share of the rows, they are read by position wherever they are


def limit_notes(shape: AnswerShape, *, counts: bool) -> list[str]:
    """Notes about a limit that has no effect. `counts`: only counts per dataset are returned."""
    if shape.limit is None or not (shape.pairs or shape.count or counts):
        return []
    return [unused_limit_note(shape.limit, pairs=shape.pairs, count=shape.count)]


def unused_limit_note(limit: int, *, pairs: bool, count: bool) -> str:
    """Says that a limit has no effect: on pairs, on a count, or on the counts of each dataset."""
    subject = "pairs are complete" if pairs else "a count is of all rows" if count else "counts are of all rows"
    return f"{subject}: --limit {limit} has no effect"


def rows_part(
    engine: QueryEngine,
    session: Session,
    dataset: DatasetRecord,
    scan: VersionScan,
    start: Start,
    shape: AnswerShape,
    keyed: Keyed | None,
    masked: Masked,
) -> AnswerPart:
    """The rows of a start in the requested shape. `masked` columns are masked."""
    names = [each.name for each in scan.version.columns]
    chosen = chosen_columns(dataset, names, shape.columns)
    order = ", ".join(checked_order(each, [*names, RID], masked) for each in shape.order_by)
    notes: tuple[str, ...] = ()
    asked = start.table
    if shape.unchanged:
        start, notes = unchanged_start(engine, dataset, scan, start)
    wanted = select_start_rows(engine, dataset, scan, start, keyed, None if order else shape.limit)
    by_expressions = bool(order)
    if not order and not wanted.in_order:
        order = RID
    limit = "" if shape.limit is None else f" LIMIT {shape.limit}"
    shown = shown_columns(chosen, scan, masked)
    items = (sql if sql == column(name) else f"{sql} AS {column(name)}" for name, sql in shown.items())
    listed_columns = ", ".join([column(RID), *items])
    ordered = f"({wanted.query}) rows_asked{f' ORDER BY {order}' if order else ''}{limit}"
    if any(has_intervals(each.type) for each in scan.version.columns):  # an order is of values, not of shown texts
        ordered = f"(SELECT * FROM {ordered}) rows_shown"
    text = f"SELECT {listed_columns} FROM {ordered}"
    remaining = None if shape.limit is None else max(0, wanted.total - shape.limit)
    hidden = tuple(name for name in chosen if name.lower() in masked)

    def open_() -> pa.RecordBatchReader:
        if not by_expressions:
            return engine.stream(text)
        with session.within(), readable(engine, session, scan, wanted.query, (start.table, wanted.table)):
            return session.rows(text).reader()

    part = AnswerPart([RID, *chosen], open_, remaining=remaining, masked=hidden, notes=notes)
    for table in {asked, start.table, wanted.table}:
        if table is not None:
            weakref.finalize(part, engine.drop, table)  # the answer may be read until it is garbage-collected
    return part


@contextmanager
def readable(
    engine: QueryEngine, session: Session, scan: VersionScan, query: str, tables: Iterable[str | None]
) -> Iterator[None]:
    """Makes SQL for rows readable by the guarded engine, so that user-written SQL can be wrapped around it. Copies the
    `tables` of ids that it reads.
    """
    names = [name for name in set(tables) if name is not None and re.search(rf"\b{name}\b", query)]
    session.allow(scan.read)
    try:
        for name in names:
            session.keep(name, engine.stream(f"SELECT b FROM {name}"))
        yield
    finally:
        session.drop(names)


@dataclass(frozen=True)
class RowQuery:
    """SQL for rows of a dataset: the query, the number of rows, whether they are ordered by rid, the table it reads,
    and the method used.
    """

    query: str
    total: int
    in_order: bool
    table: str | None = None
    way: str = "scan of all rows"


def select_start_rows(
    engine: QueryEngine,
    dataset: DatasetRecord,
    scan: VersionScan,
    start: Start,
    keyed: Keyed | None,
    first: int | None = None,
) -> RowQuery:
    """The rows of a start. With `first`, only that many rows with the lowest rids, if no more will be shown."""
    ids, total = _ids(engine, start, scan.version.rows)
    if first is not None and first < total and (ids is not None or changed_files(scan)):
        if ids is None:
            relation, parameters = start.relation(scan.all_rids())
            ids = engine.id_array(f"SELECT b FROM ({relation}) ORDER BY b LIMIT {first}", parameters)
        return replace(select_rids(dataset, scan, ids[:first], None, engine.keep_ids), total=total)
    if total == scan.version.rows:
        return select_all_rows(dataset, scan)
    if ids is None:
        held = engine_counts(engine, scan, str(start.table)) if changed_files(scan) else None
        refuse_changed(dataset, scan, range(len(scan.paths)), held)
        if held is not None:  # no requested row is in a changed file
            files = [index for index, rows in held.items() if rows]
            return RowQuery(scan.select_joined(str(start.table), files), total, in_order=False)
        query = f"SELECT t.* FROM ({scan.select()}) t SEMI JOIN (SELECT b FROM {start.table}) s ON s.b = t.{RID}"
        return RowQuery(query, total, in_order=False)
    return select_rids(dataset, scan, ids, keyed, engine.keep_ids)


def select_all_rows(dataset: DatasetRecord, scan: VersionScan) -> RowQuery:
    """All rows. A scan returns them in order."""
    refuse_changed(dataset, scan, range(len(scan.paths)))
    return RowQuery(scan.select(), scan.version.rows, in_order=scan.version.is_dense)


def select_rids(
    dataset: DatasetRecord, scan: VersionScan, ids: pa.Array, keyed: Keyed | None, keep: Callable[[pa.Array], str]
) -> RowQuery:
    """The rows with these rids, which must be distinct and sorted. `keep` stores ids in a table for the query to
    join.
    """
    version, total = scan.version, len(ids)
    if total == version.rows:  # rids are distinct, so this is every row
        return select_all_rows(dataset, scan)
    held = files_holding(scan, ids)
    refuse_changed(dataset, scan, held, held)
    positions = ids if version.is_dense or version.is_patched else positions_of(scan, ids)
    if len(positions) <= SPELLED:
        query = scan.select_positions([int(each) for each in positions.to_pylist()], files=held)
        return RowQuery(query, total, in_order=False, way="fetch by position")
    many = (
        keyed is not None
        and not version.is_patched
        and total > FEW_OF_ALL * version.rows
        and not changed_files(scan)  # a key scan reads every file
        and _touches_most(scan, positions)
    )
    if many and keyed is not None and (by_key := keyed()) is not None:
        return RowQuery(by_key, total, in_order=version.is_dense, way="scan by key")
    table = keep(positions)

    def touches(first: int, end: int) -> bool:
        return place_of(positions, first) < place_of(positions, end)

    query = scan.select_joined(table, list(held), touches=touches)
    return RowQuery(query, total, in_order=False, table=table, way="fetch by position")


def _ids(engine: QueryEngine, start: Start, rows: int) -> tuple[pa.Array | None, int]:
    """The sorted rids and their number. The rids are None if they are all rows or too many to hold in memory."""
    import pyarrow as pa

    if start.ids is not None:
        return start.ids, len(start.ids)
    if start.rids is not None:
        return pa.array(sorted(start.rids), pa.int64()), len(start.rids)
    if start.table is None:
        return None, rows
    total = engine.scalar(f"SELECT count(*) FROM {start.table}")
    if total > MOST_HELD or total == rows:
        return None, total
    return engine.id_array(f"SELECT b FROM {start.table} ORDER BY b"), total


def _touches_most(scan: VersionScan, positions: pa.Array) -> bool:
    """Whether the rows touch so many row groups that reading by position saves nothing."""
    touched = groups = 0
    for path, file in zip(scan.paths, scan.version.files, strict=True):
        bounds = _row_groups(path, file.mtime_ns)
        groups += len(bounds) - 1
        at = place_of(positions, file.base)
        while at < len(positions) and (row := value_of(positions[at]) - file.base) < file.rows:
            touched += 1
            at = place_of(positions, file.base + bounds[bisect_right(bounds, row)])
    return touched > MOST_TOUCHED * groups


@lru_cache(maxsize=1024)
def _row_groups(path: str, changed: int) -> tuple[int, ...]:
    """The first row of each row group of a file, and the total number of rows."""
    import pyarrow.parquet as pq

    _ = changed
    verify_groups(path)
    metadata = pq.read_metadata(path)
    sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return tuple(accumulate(sizes, initial=0))


def chosen_columns(dataset: DatasetRecord, names: list[str], wanted: Sequence[str] | None) -> list[str]:
    if wanted is None:
        return names
    by_lower = {name.lower(): name for name in names}
    unknown = [name for name in wanted if name.lower() not in by_lower and name != RID]
    if unknown:
        raise QuestionError(
            f"unknown column '{unknown[0]}'; columns of '{dataset.full_name}': {join_names(names)}",
            hint=did_you_mean(unknown[0], names),
        )
    return [by_lower[name.lower()] for name in dict.fromkeys(wanted) if name != RID]


def pairs_part(engine: QueryEngine, sql: WalkSql, direction: Direction, shape: AnswerShape) -> AnswerPart:
    """The pairs of a walk, ordered by the derived rows."""
    out, rid = ("a", "b") if direction == "backward" else ("b", "a")
    role = ", CASE role WHEN 0 THEN 'own' WHEN 1 THEN 'peer' ELSE 'absence' END AS role" if shape.roles else ""
    order = "" if sql.presorted and direction == "backward" else f" ORDER BY {out}, {rid}"
    query = f"SELECT {out} AS out_rid, {rid} AS rid{role} FROM ({sql.text}){order}"
    columns = ["out_rid", "rid", *(["role"] if shape.roles else [])]
    return AnswerPart(columns, lambda: engine.stream(query, sql.parameters))


def id_part(ids: pa.Array) -> AnswerPart:
    """An answer of row ids that are already in memory."""
    import pyarrow as pa

    def open_() -> pa.RecordBatchReader:
        batch = pa.record_batch({RID: ids})
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    return AnswerPart([RID], open_)
