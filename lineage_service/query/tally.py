"""What verdicts come to, in DuckDB: how many rows come into each step, end there, and for what reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.capture.handles import Role
from lineage_service.capture.reasons import Reason
from lineage_service.capture.ways import Edge, Ways, merges
from lineage_service.errors import QuestionError
from lineage_service.query.engine import QueryEngine
from lineage_service.query.lost import ReasonCount, StepLoss

if TYPE_CHECKING:
    import pyarrow as pa

OWN = int(Role.OWN)


@dataclass
class Tally:
    """Tables of rids, by node: those of the rows asked for that stand behind its rows; None where nobody can tell.

    asked: table of the rows (column b) · pairs: tables (rid, id, role) of datasets, by step
    verdicts: a table (edge, rid, passed, marks, n), one row for each edge and row asked for
    """

    engine: QueryEngine
    ways: Ways
    asked: str
    pairs: Mapping[str, str]
    verdicts: str
    behind: dict[str, str | None] = field(default_factory=dict)

    def count(self) -> None:
        """Follows the rows from input to reader; QuestionError where what is evaluated is not what was written."""
        for each in self.ways.plan.nodes:
            edges = [edge for edge in self.ways.edges if edge.node.id == each.node.id]
            if not edges:
                if each.whole == self.ways.start:
                    self.behind[each.node.id] = f"(SELECT b AS rid FROM {self.asked})"
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
                computed = self._witnessed(edges)
            self.behind[each.node.id] = None if computed is None else self.engine.keep(f"SELECT rid FROM {computed}")

    def _passing(self, edge: Edge) -> str | None:
        if edge.state == "passes":
            below = self.behind.get(edge.below.node.id)
            return None if below is None else f"SELECT rid FROM {below}"
        if edge.state == "blocked":
            return None
        return f"SELECT rid FROM {self.verdicts} WHERE edge = {edge.number} AND passed"

    def _witnessed(self, edges: Sequence[Edge]) -> str | None:
        step = edges[0].witness
        return None if step is None else f"(SELECT DISTINCT rid FROM {self.pairs[step]} WHERE role = {OWN})"

    def _compare(self, step: str, computed: str, written: str) -> None:
        unlike = self.engine.scalar(
            f"SELECT count(*) FROM {computed} c FULL JOIN {written} w USING (rid) WHERE c.rid IS NULL OR w.rid IS NULL"
        )
        if unlike:
            raise QuestionError(
                f"step '{step}', evaluated again, holds other rows than the run wrote ({unlike:,} of the rows asked for): "
                "it cannot be told exactly where rows are lost",
                hint="keep the steps before it, so that they need not be evaluated: `lineage: {keep: […]}`",
            )

    def lost(self, arrived: str) -> str:
        """A table of the rows that do not arrive as themselves: (rid, edge), `edge` the last of their ways."""
        self._refuse_open(arrived)
        ended = f"SELECT rid, max(edge) AS edge FROM {self.verdicts} WHERE NOT passed GROUP BY rid"
        table = self.engine.keep(
            f"SELECT a.b AS rid, e.edge FROM {self.asked} a LEFT JOIN ({ended}) e ON e.rid = a.b "
            f"WHERE a.b NOT IN (SELECT rid FROM {arrived})"
        )
        if self.engine.scalar(f"SELECT count(*) FROM {table} WHERE edge IS NULL"):
            raise QuestionError("some of these rows are lost at a step that cannot be told")
        return table

    def _refuse_open(self, arrived: str) -> None:
        """Rows that come to where nobody can tell any more, and are not seen again in what was written."""
        for edge in self.ways.edges:
            below = self.behind.get(edge.below.node.id)
            if edge.state != "blocked" or below is None:
                continue
            nearest = {edge.node.step} if edge.each.is_dataset else self.ways.nearest(edge.node.id)
            seen = [
                f"(SELECT rid FROM {self.pairs[step]} WHERE role = {OWN})" if step in self.pairs else "(SELECT 0 AS rid WHERE false)"
                for step in sorted(nearest)
            ]
            unseen = " OR ".join(f"rid NOT IN {each}" for each in seen)
            rows = self.engine.scalar(
                f"SELECT count(*) FROM {below} WHERE rid NOT IN (SELECT rid FROM {arrived}) AND ({unseen})"
            )
            if rows:
                raise QuestionError(
                    f"what becomes of {rows:,} of these rows at step '{edge.node.step}' cannot be told: {edge.reason}",
                    hint=f"keep its rows and run again: `lineage: {{keep: [{edge.node.step}]}}`",
                )

    def steps(self, lost: str, reasons: Mapping[int, Sequence[Reason]], partners: str | None,
              partner_steps: Mapping[int, Sequence[str]], limit: int) -> list[StepLoss]:  # fmt: skip
        """Each way into a step, with what ends there of the rows in `lost`."""
        found = []
        for edge in self.ways.edges:
            below = self.behind.get(edge.below.node.id)
            rows_in = None if below is None else self.engine.scalar(f"SELECT count(*) FROM {below}")
            ended = last = 0
            told: list[ReasonCount] = []
            if edge.state in ("evaluated", "witnessed"):
                ended = self._number(f"{self.verdicts} WHERE edge = {edge.number} AND NOT passed")
                last = self._number(f"{lost} WHERE edge = {edge.number}")
                told = self._reasons(
                    edge, lost, reasons[edge.number], partners, partner_steps.get(edge.number, ()), limit
                )
            found.append(
                StepLoss(
                    edge.node.step, edge.operation, edge.below.node.step, rows_in, ended, last, merges(edge.node), tuple(told)
                )
            )
        return found

    def _number(self, rows: str) -> int:
        return self.engine.scalar(f"SELECT count(*) FROM {rows}")

    def ended(self, edge: Edge, lost: str) -> str:
        """(rid, marks, n) of the rows whose way ends there and that do not arrive."""
        return (
            f"SELECT rid, marks, n FROM {self.verdicts} WHERE edge = {edge.number} AND NOT passed "
            f"AND rid IN (SELECT rid FROM {lost})"
        )

    def _reasons(self, edge: Edge, lost: str, reasons: Sequence[Reason], partners: str | None,
                 steps: Sequence[str], limit: int) -> list[ReasonCount]:  # fmt: skip
        ended, found = self.ended(edge, lost), []
        at = f"SELECT rid, min(k) AS k FROM {partners} WHERE edge = {edge.number} GROUP BY rid" if partners else None
        for number, step in enumerate(steps):
            rows = f"SELECT e.rid FROM ({ended}) e JOIN ({at}) p ON p.rid = e.rid WHERE p.k = {number}"
            text = f"{'an equal row' if reasons[0].kind == 'no_equal_row' else 'a row that matches'} was lost at step '{step}'"
            found.append(self._counted("partner_lost", text, rows, limit, step))
        for bit, reason in enumerate(reasons):
            rows = f"SELECT rid FROM ({ended}) WHERE (marks & {1 << bit}) <> 0"
            if at is not None and steps:
                rows += f" AND rid NOT IN (SELECT rid FROM ({at}))"
            found.append(self._counted(reason.kind, reason.text, rows, limit))
        return sorted((each for each in found if each.rows), key=lambda each: -each.rows)

    def _counted(self, kind: str, text: str, rows: str, limit: int, step: str | None = None) -> ReasonCount:
        total = self._number(f"({rows})")
        rids = self.engine.ids(f"SELECT rid FROM ({rows}) ORDER BY rid LIMIT {limit}") if total else []
        return ReasonCount(kind, text, total, tuple(rids), total - len(rids), step)

    def listed(self, lost: str, reasons: Mapping[int, Sequence[Reason]],
               partners: str | None, partner_steps: Mapping[int, Sequence[str]], limit: int | None) -> pa.Table:  # fmt: skip
        """_rid, step, reason of each row that is lost, where its last way ends; several reasons in one text."""
        cases = []
        for edge in self.ways.edges:
            if edge.state not in ("evaluated", "witnessed"):
                continue
            texts = [
                f"CASE WHEN (v.marks & {1 << bit}) <> 0 THEN {_literal(reason.text)} END"
                for bit, reason in enumerate(reasons[edge.number])
            ]
            told = f"concat_ws('; ', {', '.join(texts)})"
            for number, step in enumerate(partner_steps.get(edge.number, ())):
                if partners:
                    told = f"CASE WHEN p.k = {number} THEN {_literal(f'its partner was lost at step {step!r}')} ELSE {told} END"
            cases.append(f"WHEN {edge.number} THEN struct_pack(step := {_literal(edge.node.step)}, reason := {told})")
        if not cases:
            cases = ["WHEN -1 THEN struct_pack(step := '', reason := '')"]
        partner = f"(SELECT edge, rid, min(k) AS k FROM {partners} GROUP BY edge, rid)" if partners else (
            "(SELECT 0 AS edge, 0::BIGINT AS rid, 0 AS k WHERE false)"
        )
        cut = "" if limit is None else f" LIMIT {limit}"
        query = (
            f"SELECT rid AS _rid, told.step AS step, told.reason AS reason FROM (SELECT l.rid, CASE l.edge "
            f"{' '.join(cases)} END AS told FROM {lost} l JOIN {self.verdicts} v ON v.edge = l.edge AND v.rid = l.rid "
            f"LEFT JOIN {partner} p ON p.edge = l.edge AND p.rid = l.rid) ORDER BY 1{cut}"
        )
        return self.engine.stream(query).read_all()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
