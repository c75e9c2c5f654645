"""The contributing rows that matter most: ranked by a measure of their own columns, the deciding ones marked.

Of millions of contributors only ids and the measure are read; whole rows are fetched of those that are shown.
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
from lineage_service.query.guarded_session import Session
from lineage_service.query.masks import NONE, Masked, shown_columns
from lineage_service.query.predicate_gate import checked_measure
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.row_retrieval import (
    AnswerShape,
    RowQuery,
    Top,
    chosen_columns,
    readable,
    select_rids,
    select_start_rows,
)
from lineage_service.query.walk_sql import Start, WalkSql
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.version_scan import RID, VersionScan

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
           "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip

MEASURED = 122_880  # rows that are measured at once


@dataclass(frozen=True)
class RankingMeasure:
    """A user's measure as SQL, and whether the smallest come first."""

    sql: str
    ascending: bool

    @property
    def order(self) -> str:
        """Rows without a value come last either way; among equals the row id decides."""
        return f"measure {'ASC' if self.ascending else 'DESC'} NULLS LAST, b"


@dataclass
class Contributors:
    """Rows of `target` behind rows of `asked`, most important first.

    `deciding`: for each min or max of `asked` the column of `target` whose value decides it.
    `masked`: the columns of `target` of which masks are shown.
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
        """`walked` gives the ids of contributors, b; beside those of the rows they are behind, a, where any decide."""
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
        """A table of the rows to show, by id b, how many contribute in all, and the columns that it adds."""
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
        """A table of the rows reached, with the user's measure of them: that is for the guarded engine."""
        tables = (reached, wanted.table)
        with prefix_measure_errors(self.target), readable(self.engine, self.session, self.scan, wanted.query, tables):
            query = f"SELECT {self.measure.sql} AS measure, {RID} AS b FROM ({wanted.query}) rows_asked"
            found = self.session.rows(query, batch=MEASURED)
            self._tables.append(self.engine.keep_rows(found.schema, found.batches()))
        return self._tables[-1]

    def _total(self, measured: str) -> float | None:
        """What shares are of; None of what is no number, or negative anywhere, or adds up to nothing."""
        kind = self.engine.types(f"SELECT measure FROM {measured}")["measure"]
        if not kind.startswith(NUMBERS):
            return None
        total = "sum(CAST(measure AS DOUBLE))"
        ((found,),) = self.engine.rows(
            f"SELECT CASE WHEN min(measure) >= 0 AND isfinite({total}) AND {total} > 0 THEN {total} END FROM {measured}"
        )
        return None if found is None else float(found)

    def _deciding_rows_sql(self, start: Start, pairs: str, wanted: RowQuery) -> str:
        """Rows (a, b, name, place): row b has the very value that row a shows as its min or max `name`.

        Values are compared with what Spark found, so its order is not ours to know: NaN above all, nulls nowhere.
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
        """One deciding row of each measure and start row, which is shown whatever its rank; from more start rows than
        are to be shown, one of each measure."""
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
    """The measure that a user wrote, for the columns of one dataset. QuestionError where it does not fit them, or reads
    one that is masked."""
    with prefix_measure_errors(target):
        return RankingMeasure(*checked_measure(by, [*(each.name for each in scan.version.columns), RID], masked))


@contextmanager
def prefix_measure_errors(target: DatasetRecord) -> Iterator[None]:
    """Errors of a measure say for which dataset it was meant."""
    try:
        yield
    except QuestionError as error:
        problem = error.problems[0]
        raise QuestionError(f"the measure for '{target.full_name}': {problem.message}", hint=problem.hint) from None


def deciding_columns(
    columns: list[ColumnRecord], asked: DatasetRecord, target: DatasetRecord
) -> tuple[dict[str, str], str | None]:
    """For each min or max of `asked` the column of `target` that decides it; and what is to be said where that is not
    known though the measure reads the target. `columns` are those of the run of `asked`."""
    found, unknown = {}, []
    for each in columns:
        if each.dataset != asked.name or each.decided_by is None:
            continue
        by = json.loads(each.decided_by).get(target.name) if target.run_id == asked.run_id else None
        if by is not None:
            found[each.name] = by
        elif target.run_id != asked.run_id or target.name in (source for source, _ in json.loads(each.reads or "[]")):
            unknown.append(each.name)
    note = f"which rows of '{target.full_name}' decide {join_names(unknown)} is not known exactly, and not marked"
    return found, note if unknown else None
