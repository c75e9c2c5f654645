"""Aggregates verdicts in DuckDB: how many rows enter each step, end there, and for which reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.capture.drop_reasons import DropReason
from lineage_service.capture.handles import Role, Space
from lineage_service.capture.row_paths import PathEdge, RowPaths, merges_rows
from lineage_service.errors import QuestionError
from lineage_service.query.query_engine import QueryEngine
from lineage_service.why_not.why_not_result import ReasonCount, StepLoss

if TYPE_CHECKING:
    import pyarrow as pa

OWN = int(Role.OWN)


@dataclass
class LossCounter:
    """Counts losses by step. Keeps a table of rids per node: the requested rows behind its rows, or None if they are
    unknown.

    asked: table of the requested rows (column b)
    pairs: tables (rid, id, role) of datasets, by step
    verdicts: a table (edge, rid, passed, marks, n), one row per edge and requested row
    reasons: the meaning of the bits of `marks`, by edge
    partners: a table (edge, rid, k) of rows whose partner was lost, at the k-th of the steps `let_go` at that edge
    made: tables created here, to be dropped by the caller
    given: tables (rid, id, role) of sources whose rows derive from the requested rows, by space
    """

    engine: QueryEngine
    ways: RowPaths
    asked: str
    pairs: Mapping[str, str]
    verdicts: str
    reasons: Mapping[int, Sequence[DropReason]]
    made: list[str]
    partners: str | None = None
    let_go: Mapping[int, Sequence[str]] = field(default_factory=dict)
    behind: dict[str, str | None] = field(default_factory=dict)
    given: Mapping[Space, str] = field(default_factory=dict)

    def count(self) -> None:
        """Follows the rows from each input to its reader. Raises QuestionError if the evaluation differs from what the
        run wrote.
        """
        for each in self.ways.plan.nodes:
            edges = [edge for edge in self.ways.edges if edge.node.id == each.node.id]
            if not edges:
                if each.whole in self.ways.starts:
                    table = self.given.get(each.whole)
                    own = f"(SELECT DISTINCT rid FROM {table} WHERE role = {OWN})"
                    self.behind[each.node.id] = f"(SELECT b AS rid FROM {self.asked})" if table is None else own
                continue
            parts = [self._passing(edge) for edge in edges]
            known = [part for part in parts if part is not None]
            computed = f"(SELECT DISTINCT rid FROM ({' UNION ALL '.join(known)}))" if len(known) == len(parts) else None
            step = each.node.step
            if each.is_dataset and step in self.pairs:
                written = f"(SELECT DISTINCT rid FROM {self.pairs[step]} WHERE role = {OWN})"
                if computed is not None:
                    self._compare(step, computed, written)
                computed = written
            elif computed is None:
                computed = self._rows_at_witness(edges)
            self.behind[each.node.id] = None if computed is None else self._keep_table(f"SELECT rid FROM {computed}")

    def _keep_table(self, query: str) -> str:
        self.made.append(self.engine.keep(query))
        return self.made[-1]

    def _passing(self, edge: PathEdge) -> str | None:
        if edge.state == "passes":
            below = self.behind.get(edge.below.node.id)
            return None if below is None else f"SELECT rid FROM {below}"
        if edge.state == "blocked":
            return None
        return f"SELECT rid FROM {self.verdicts} WHERE edge = {edge.number} AND passed"

    def _rows_at_witness(self, edges: Sequence[PathEdge]) -> str | None:
        step = edges[0].witness
        return None if step is None else f"(SELECT DISTINCT rid FROM {self.pairs[step]} WHERE role = {OWN})"

    def _compare(self, step: str, computed: str, written: str) -> None:
        unlike = self.engine.scalar(
            f"SELECT count(*) FROM {computed} c FULL JOIN {written} w USING (rid) WHERE c.rid IS NULL OR w.rid IS NULL"
        )
        if unlike:
            raise QuestionError(
                f"step '{step}', evaluated again, holds other rows than the run wrote ({unlike:,} of those asked for): "
                "where rows are lost cannot be determined exactly",
                hint="keep the steps before it, so that they need not be evaluated: `lineage: {keep: […]}`",
            )

    def lost_rows(self, arrived: str) -> str:
        """A table (rid, edge) of the rows that do not arrive as themselves. `edge` is the last edge that they reach."""
        self.refuse_undecided(arrived)
        ended = f"SELECT rid, max(edge) AS edge FROM {self.verdicts} WHERE NOT passed GROUP BY rid"
        table = self._keep_table(
            f"SELECT a.b AS rid, e.edge FROM {self.asked} a LEFT JOIN ({ended}) e ON e.rid = a.b "
            f"WHERE a.b NOT IN (SELECT rid FROM {arrived})"
        )
        if self.engine.scalar(f"SELECT count(*) FROM {table} WHERE edge IS NULL"):
            raise QuestionError("some of these rows are lost at a step that cannot be determined")
        return table

    def refuse_undecided(self, arrived: str) -> None:
        """Raises QuestionError if rows reach a step after which they cannot be followed and do not appear in what was
        written.
        """
        for edge in self.ways.edges:
            below = self.behind.get(edge.below.node.id)
            if edge.state != "blocked" or below is None:
                continue
            nearest = {edge.node.step} if edge.each.is_dataset else self.ways.next_datasets(edge.node.id)
            seen = [
                f"(SELECT rid FROM {self.pairs[step]} WHERE role = {OWN})"
                if step in self.pairs
                else "(SELECT 0 AS rid WHERE false)"
                for step in sorted(nearest)
            ]
            unseen = " OR ".join(f"rid NOT IN {each}" for each in seen)
            rows = self.engine.scalar(
                f"SELECT count(*) FROM {below} WHERE rid NOT IN (SELECT rid FROM {arrived}) AND ({unseen})"
            )
            if rows:
                raise QuestionError(
                    f"what becomes of {rows:,} of these rows at step '{edge.node.step}' cannot be "
                    f"determined: {edge.reason}",
                    hint=f"keep its rows and run again: `lineage: {{keep: [{edge.chance}]}}`",
                )

    def steps(self, lost: str, limit: int) -> list[StepLoss]:
        """The losses at each input of a step, for the rows in `lost`; at most `limit` row ids per reason."""
        found = []
        for edge in self.ways.edges:
            below = self.behind.get(edge.below.node.id)
            rows_in = None if below is None else self._count_rows(below)
            ended = last = 0
            reason_counts: list[ReasonCount] = []
            if edge.number in self.reasons:
                ended = self._count_rows(f"{self.verdicts} WHERE edge = {edge.number} AND NOT passed")
                last = self._count_rows(f"{lost} WHERE edge = {edge.number}")
                reason_counts = self._reason_counts(edge, lost, limit)
            names = (edge.node.step, edge.operation, edge.below.node.step)
            found.append(StepLoss(*names, rows_in, ended, last, merges_rows(edge.node), tuple(reason_counts)))
        return found

    def ended_rows(self, edge: PathEdge, lost: str) -> str:
        """(rid, marks) of the rows that end at this edge and do not arrive."""
        return (
            f"SELECT rid, marks FROM {self.verdicts} WHERE edge = {edge.number} AND NOT passed "
            f"AND rid IN (SELECT rid FROM {lost})"
        )

    def _reason_counts(self, edge: PathEdge, lost: str, limit: int) -> list[ReasonCount]:
        ended, reasons, steps = self.ended_rows(edge, lost), self.reasons[edge.number], self.partner_steps(edge)
        partners = f"SELECT rid, k FROM {self.partners} WHERE edge = {edge.number}" if steps else None
        found = []
        for number, step in enumerate(steps):
            rows = f"SELECT e.rid FROM ({ended}) e JOIN ({partners}) p ON p.rid = e.rid WHERE p.k = {number}"
            found.append(self._count_reason("partner_lost", partner_lost_text(reasons[0], step), rows, limit, step))
        for bit, reason in enumerate(reasons):
            rows = f"SELECT rid FROM ({ended}) WHERE (marks & {1 << bit}) <> 0"
            if partners is not None:
                rows += f" AND rid NOT IN (SELECT rid FROM ({partners}))"
            found.append(self._count_reason(reason.kind, reason.text, rows, limit))
        return sorted((each for each in found if each.rows), key=lambda each: -each.rows)

    def partner_steps(self, edge: PathEdge) -> Sequence[str]:
        """The steps at which partners of these rows may have been lost, by number."""
        return self.let_go.get(edge.number, ()) if self.partners is not None else ()

    def _count_reason(self, kind: str, text: str, rows: str, limit: int, step: str | None = None) -> ReasonCount:
        total = self._count_rows(f"({rows})")
        rids = self.engine.ids(f"SELECT rid FROM ({rows}) ORDER BY rid LIMIT {limit}") if total else []
        return ReasonCount(kind, text, total, tuple(rids), total - len(rids), step)

    def _count_rows(self, rows: str) -> int:
        return self.engine.scalar(f"SELECT count(*) FROM {rows}")

    def lost_rows_with_reasons(self, lost: str, limit: int | None) -> pa.Table:
        """_rid, step and reason of each lost row, at the last edge it reaches. Several reasons are joined into one
        text.
        """
        edges = [edge for edge in self.ways.edges if edge.number in self.reasons]
        # A CASE needs at least one branch, even if no step drops anything.
        steps = " WHEN -1 THEN ''" + "".join(f" WHEN {edge.number} THEN {_literal(edge.node.step)}" for edge in edges)
        reasons = " WHEN -1 THEN ''" + "".join(f" WHEN {edge.number} THEN {self._reasons_sql(edge)}" for edge in edges)
        partners = self.partners or "(SELECT 0 AS edge, 0::BIGINT AS rid, 0 AS k WHERE false)"
        cut = "" if limit is None else f" LIMIT {limit}"
        return self.engine.stream(
            f"SELECT l.rid AS _rid, CASE l.edge{steps} END AS step, CASE l.edge{reasons} END AS reason FROM {lost} l "
            f"JOIN {self.verdicts} v ON v.edge = l.edge AND v.rid = l.rid "
            f"LEFT JOIN {partners} p ON p.edge = l.edge AND p.rid = l.rid ORDER BY 1{cut}"
        ).read_all()

    def _reasons_sql(self, edge: PathEdge) -> str:
        """The reasons of one row (verdict v, partner p) as one text."""
        reasons = self.reasons[edge.number]
        texts = [
            f"CASE WHEN (v.marks & {1 << bit}) <> 0 THEN {_literal(reason.text)} END"
            for bit, reason in enumerate(reasons)
        ]
        joined = f"concat_ws('; ', {', '.join(texts)})"
        lost = "".join(
            f" WHEN {number} THEN {_literal(partner_lost_text(reasons[0], step))}"
            for number, step in enumerate(self.partner_steps(edge))
        )
        return f"CASE p.k{lost} ELSE {joined} END" if lost else joined


def partner_lost_text(reason: DropReason, step: str) -> str:
    """The reason when a partner is missing because it was lost at an earlier step."""
    what = "an equal row" if reason.kind == "no_equal_row" else "a row that matches"
    return f"{what} was lost at step '{step}'"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
