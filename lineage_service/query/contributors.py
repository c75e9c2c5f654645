"""Ranks contributing rows by a measure over their columns, and marks the rows that decide a min or max.

Only ids and the measure are read for all contributors. Complete rows are fetched only for those that are shown.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lineage_catalog.records import ColumnRecord, DatasetRecord

from lineage_service.errors import QuestionError, join_names
from lineage_service.query.answer import AnswerPart
from lineage_service.query.answer_shape import AnswerShape, Top
from lineage_service.query.guarded_session import Session
from lineage_service.query.masks import NONE, Masked, shown_columns
from lineage_service.query.predicate_gate import checked_measure
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.row_retrieval import RowQuery, chosen_columns, readable, select_rids, select_start_rows
from lineage_service.query.walk_sql import Start, WalkSql
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.version_scan import RID, VersionScan

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
           "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip

MEASURED = 122_880  # number of rows measured in one batch


@dataclass(frozen=True)
class RankingMeasure:
    """A measure as SQL, and whether the smallest values come first."""

    sql: str
    ascending: bool

    @property
    def order(self) -> str:
        """The ORDER BY clause. Rows without a value come last in either direction; ties are ordered by row id."""
        return f"measure {'ASC' if self.ascending else 'DESC'} NULLS LAST, b"


@dataclass
class Contributors:
    """Rows of `target` that contribute to rows of `asked`, ranked by a measure.

    `deciding` maps each min or max column of `dataset` to the column of `target` that decides it. `masked` names the
    columns of `target` that are masked.
    """

    engine: QueryEngine
    session: Session
    asked: DatasetRecord
    asked_scan: VersionScan
    target: DatasetRecord
    scan: VersionScan
    measure: RankingMeasure
    deciding: Mapping[str, str]
    masked: Masked = NONE
    _tables: list[str] = field(default_factory=list)

    def part(self, start: Start, walked: WalkSql, top: Top, shape: AnswerShape) -> AnswerPart:
        """The ranked rows. `walked` yields the contributors' ids as b and, if any column decides a min or max, the ids
        of the rows they contribute to as a.
        """
        chosen = chosen_columns(self.target, self._names(), shape.columns)
        try:
            shown, total, extra = self._rank_contributors(start, walked, top)
        finally:
            self._drop()
        wanted = select_rids(
            self.target,
            self.scan,
            self.engine.id_array(f"SELECT b FROM {shown} ORDER BY b"),
            None,
            self.engine.keep_ids,
        )
        taken = {RID, *extra}
        own = [(name, f"{name}_1" if name.lower() in taken else name) for name in chosen]
        items = [f"t.{RID}"]
        if not shape.rids:
            items += [f"v.{name}" for name in extra]
            shown_as = shown_columns(chosen, self.scan, self.masked, "t.")
            items += [f"{shown_as[name]} AS {column(alias)}" for name, alias in own]
        ranks = f"SELECT *, row_number() OVER (ORDER BY {self.measure.order}) AS place FROM {shown}"
        text = f"SELECT {', '.join(items)} FROM ({wanted.query}) t JOIN ({ranks}) v ON v.b = t.{RID} ORDER BY v.place"
        names = [RID] if shape.rids else [RID, *extra, *(alias for _, alias in own)]
        remaining = total - self.engine.scalar(f"SELECT count(*) FROM {shown}")
        hidden = () if shape.rids else tuple(name for name in chosen if name.lower() in self.masked)
        part = AnswerPart(names, lambda: self.engine.stream(text), remaining=remaining, masked=hidden)
        for table in (shown, wanted.table):
            if table is not None:
                weakref.finalize(part, self.engine.drop, table)
        return part

    def _rank_contributors(self, start: Start, walked: WalkSql, top: Top) -> tuple[str, int, list[str]]:
        """A table of the rows to show (id b), the total number of contributors, and the names of the added columns."""
        pairs = self._keep(f"SELECT * FROM ({walked.text})", walked.parameters)
        reached = self._keep(f"SELECT DISTINCT b FROM {pairs}") if self.deciding else pairs
        wanted = select_start_rows(self.engine, self.target, self.scan, Start(table=reached), None)
        if wanted.table is not None:
            self._tables.append(wanted.table)
        measured = self._measure_rows(wanted, reached)
        total = self._total(measured)
        share = "" if total is None else f", round(CAST(measure AS DOUBLE) / {total!r}, 6) AS share"
        best = f"SELECT b FROM {measured} ORDER BY {self.measure.order} LIMIT {top.n}"
        decides = ""
        if self.deciding:
            marked = self._keep(self._deciding_rows_sql(start, pairs, wanted))
            best = f"({best}) UNION ({self._guaranteed_deciders(marked, measured, top)})"
            once = f"SELECT DISTINCT b, name, place FROM {marked}"
            names = f"SELECT b, string_agg(name, ', ' ORDER BY place) AS decides FROM ({once}) GROUP BY b"
            decides = f" LEFT JOIN ({names}) d USING (b)"
        shown = self.engine.keep(
            f"SELECT b, measure{share}{', decides' if decides else ''} FROM {measured}{decides} WHERE b IN ({best})"
        )
        extra = ["measure", *(["share"] if share else []), *(["decides"] if decides else [])]
        return shown, self.engine.scalar(f"SELECT count(*) FROM {measured}"), extra

    def _measure_rows(self, wanted: RowQuery, reached: str) -> str:
        """A table of the reached rows with the value of the measure. It is computed by the guarded engine, because a
        user wrote it.
        """
        tables = (reached, wanted.table)
        with prefix_measure_errors(self.target), readable(self.engine, self.session, self.scan, wanted.query, tables):
            rows = self.scan.nan_safe(wanted.query, intervals=True)
            query = f"SELECT {self.measure.sql} AS measure, {RID} AS b FROM ({rows}) rows_asked"
            found = self.session.rows(query, batch=MEASURED)
            self._tables.append(self.engine.keep_rows(found.schema, found.batches()))
        return self._tables[-1]

    def _total(self, measured: str) -> float | None:
        """The total that shares refer to; None if the measure is not a number, is negative for some row, or sums to
        zero.
        """
        kind = self.engine.types(f"SELECT measure FROM {measured}")["measure"]
        if not kind.startswith(NUMBERS):
            return None
        total = "sum(CAST(measure AS DOUBLE))"
        ((found,),) = self.engine.rows(
            f"SELECT CASE WHEN min(measure) >= 0 AND isfinite({total}) AND {total} > 0 THEN {total} END FROM {measured}"
        )
        return None if found is None else float(found)

    def _deciding_rows_sql(self, start: Start, pairs: str, wanted: RowQuery) -> str:
        """SQL for rows (a, b, name, place): row b has the value that row a shows as its min or max `name`.

        Values are compared for equality with the result that Spark computed, so Spark's sort order need not be
        replicated: NaN sorts above all values, and nulls are ignored.
        """
        rows = select_start_rows(self.engine, self.asked, self.asked_scan, start, None)
        if rows.table is not None:
            self._tables.append(rows.table)
        asked = self._keep(self.asked_scan.nan_safe(rows.query, list(self.deciding)))
        there = self._keep(self.scan.nan_safe(wanted.query, list(self.deciding.values())))
        return " UNION ALL ".join(
            f"SELECT p.a, p.b, {literal(name)} AS name, {place} AS place FROM {pairs} p "
            f"JOIN {asked} o ON o.{RID} = p.a JOIN {there} s ON s.{RID} = p.b "
            f"WHERE s.{column(deciding)} = o.{column(name)}"
            for place, (name, deciding) in enumerate(self.deciding.items())
        )

    def _guaranteed_deciders(self, marked: str, measured: str, top: Top) -> str:
        """One deciding row per measure and start row. These rows are shown regardless of rank. With more start rows
        than rows to show, one deciding row per measure.
        """
        starts = self.engine.scalar(f"SELECT count(DISTINCT a) FROM {marked}")
        by = "name, a" if starts <= top.n else "name"
        return (
            f"SELECT b FROM (SELECT b, row_number() OVER (PARTITION BY {by} ORDER BY {self.measure.order}) AS rank "
            f"FROM {marked} JOIN {measured} USING (b)) WHERE rank = 1"
        )

    def _names(self) -> list[str]:
        return [each.name for each in self.scan.version.columns]

    def _keep(self, query: str, parameters: list[object] | None = None) -> str:
        self._tables.append(self.engine.keep(query, parameters or ()))
        return self._tables[-1]

    def _drop(self) -> None:
        while self._tables:
            self.engine.drop(self._tables.pop())


def measure_of(by: str, target: DatasetRecord, scan: VersionScan, masked: Masked) -> RankingMeasure:
    """The checked measure for the columns of one dataset. Raises QuestionError if it does not fit them or reads a
    masked column.
    """
    with prefix_measure_errors(target):
        return RankingMeasure(*checked_measure(by, [*(each.name for each in scan.version.columns), RID], masked))


@contextmanager
def prefix_measure_errors(target: DatasetRecord) -> Iterator[None]:
    """Prefixes errors of a measure with the dataset they occurred for."""
    try:
        yield
    except QuestionError as error:
        problem = error.problems[0]
        raise QuestionError(f"the measure for '{target.full_name}': {problem.message}", hint=problem.hint) from None


def deciding_columns(
    columns: list[ColumnRecord], dataset: DatasetRecord, target: DatasetRecord
) -> tuple[dict[str, str], str | None]:
    """Maps each min or max of `dataset` to the column of `target` that decides it.

    Also returns notes for measures that read the target but whose deciding column is unknown. `columns` are the columns
    of its run.
    """
    found, unknown = {}, []
    for each in columns:
        if each.dataset != dataset.name or each.decided_by is None:
            continue
        by = json.loads(each.decided_by).get(target.name) if target.run_id == dataset.run_id else None
        if by is not None:
            found[each.name] = by
        elif target.run_id != dataset.run_id or target.name in (source for source, _ in json.loads(each.reads or "[]")):
            unknown.append(each.name)
    note = f"which rows of '{target.full_name}' decide {join_names(unknown)} is not known exactly, and not marked"
    return found, note if unknown else None
