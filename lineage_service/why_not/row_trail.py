"""Tracks rows across several runs: which rows of each dataset derive from the requested rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role
from lineage_service.errors import QuestionError
from lineage_service.query.cross_run_paths import place_of
from lineage_service.query.lineage_graph import Place, Way, is_source
from lineage_service.query.lineage_walk import Walk, walk
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start, own_ways, reverse_ways
from lineage_service.why_not.within_run import (
    ArrivedRows,
    QuestionTables,
    direction_kept,
    find_arrived_rows,
)

OWN = int(Role.OWN)


@dataclass
class RowTrail:
    """The requested rows and the rows derived from them: tables (rid, id, role) by place, cached.

    The lineage of a dataset is used only if it was kept on all ways to it. Otherwise rows would be missed.
    """

    questions: Questions
    tables: QuestionTables
    source: DatasetRecord
    target: DatasetRecord
    start: Start
    rows: str
    _ahead: Walk | None = None
    _found: dict[Place, ArrivedRows | None] = field(default_factory=dict)

    @property
    def begin(self) -> Place:
        return place_of(self.source)

    def pairs_at(self, place: Place) -> str | None:
        """The rows of a place that derive from the requested rows; None if no way leads there. Influence by absence is
        ignored.
        """
        arrived = self.arrival_at(place)
        return None if arrived is None else arrived.pairs

    def arrival_at(self, place: Place) -> ArrivedRows | None:
        """The same, with the set of rows that arrive there. Raises QuestionError if the lineage up to the place was not
        kept.
        """
        if not self.is_kept(place):
            raise QuestionError(
                f"lineage on the way from '{self.source.full_name}' to another workflow was pruned",
                hint="ask workflow by workflow, or leave `workload` empty and run again",
            )
        if place not in self._found:
            self._found[place] = self._find_arrival(place)
        return self._found[place]

    def is_kept(self, place: Place) -> bool:
        """Whether the lineage up to a place was kept on all ways."""
        run = self.questions.reader.run(place.run_id)
        if run is not None and run.capture == "off" and not is_source(place):
            return False
        return direction_kept(self._ways_to(place)) is not None

    def _ways_to(self, place: Place) -> list[Way]:
        """All ways to a place, including pruned ones, in the runs up to the output."""
        if self._ahead is None:
            graph = self.questions.graph
            runs = graph.runs_behind([self.target.run_id])
            self._ahead = walk(graph, self.begin, "forward", pruned=True, runs=runs)
        return self._ahead.ways_toward(place, absence=False)

    def _ways_back(self, place: Place) -> list[Way]:
        behind = walk(self.questions.graph, place, "backward")
        return self.questions.unkept.ways_toward(behind, self.begin, "backward", absence=False)

    def _find_arrival(self, place: Place) -> ArrivedRows | None:
        if place == self.begin:
            return ArrivedRows(self.tables.keep(f"SELECT b AS rid, b AS id, {OWN} AS role FROM {self.rows}"))
        ways = self._ways_to(place)
        if not ways:
            return None
        if direction_kept(ways) != "forward":
            ways = reverse_ways(self._ways_back(place))
        return find_arrived_rows(self.questions, self.tables, ways, self.start, self.rows, peers=False)

    def members(self, place: Place, ids: Sequence[int]) -> dict[int, int]:
        """The number of requested rows in each of these rows of a place, as themselves."""
        if not ids:
            return {}
        ways = self._ways_to(place)
        if direction_kept(ways, first="backward") == "backward":
            back = own_ways(self._ways_back(place))
            if not back:
                return {}
            sql = self.questions.walk_sql(back, Start(rids=tuple(ids)), place, self.begin, "backward")
            counted = f"SELECT a, count(DISTINCT b) FROM ({sql.text}) WHERE role = {OWN} GROUP BY a"
        else:
            sql = self.questions.walk_sql(own_ways(ways), Start(), self.begin, place, "forward")
            wanted = ", ".join(map(str, ids))
            counted = f"SELECT b, count(DISTINCT a) FROM ({sql.text}) WHERE role = {OWN} AND b IN ({wanted}) GROUP BY b"
        table = self.tables.keep(counted, sql.parameters)
        return {int(row[0]): int(row[1]) for row in self.questions.engine.rows(f"SELECT * FROM {table}")}
