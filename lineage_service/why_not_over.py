"""`why-not` over workflows: rows of a source are followed through each run on their way to another workflow's output.

Each run is evaluated for itself, from the rows of its sources that are made from the rows asked for. Which those are is
known from the index, and so is what arrives: only versions that a run has really read are followed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.handles import Role, source_space
from lineage_service.capture.ways import contributing
from lineage_service.errors import QuestionError
from lineage_service.progress import Stages
from lineage_service.query.ask import Questions
from lineage_service.query.graph import Place, Walk, Way, walk
from lineage_service.query.lost import Arrival, StepLoss, WhyNot
from lineage_service.query.over_runs import RunOnTheWay, place_of, runs_between
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start, own_ways
from lineage_service.store.layout import HomeLayout, new_run_id, storing
from lineage_service.understood import Asked, asked_in_run
from lineage_service.why_not import SHOWN, Arrived, Tables, arrived_rows, count_arrivals, question_tables

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.evaluated import Evaluated

OWN = int(Role.OWN)


@dataclass
class Following:
    """The rows asked for, and where they come to: tables (rid, id, role) by place, found once."""

    questions: Questions
    tables: Tables
    source: DatasetRecord
    target: DatasetRecord
    start: Start
    rows: str
    starts: tuple[DatasetRecord, ...]  # all sources that hold the rows
    _ahead: Walk | None = None
    _found: dict[Place, Arrived | None] = field(default_factory=dict)

    def at(self, place: Place) -> str | None:
        """The rows of a place that are made from the rows asked for; None where none can be, absence left out."""
        arrived = self.arrived(place)
        return None if arrived is None else arrived.pairs

    def arrived(self, place: Place) -> Arrived | None:
        if place not in self._found:
            self._found[place] = self._arrived(place)
        return self._found[place]

    def places_toward(self, place: Place) -> set[Place]:
        """The places that the rows come through to one, as rows and not by absence."""
        ways = self._toward(place)
        return {end for way in ways for end in (way.start, way.end)}

    def _toward(self, place: Place) -> list[Way]:
        if self._ahead is None:
            self._ahead = self._walked(pruned=False)
        return self._ahead.toward(place, absence=False)

    def _walked(self, *, pruned: bool) -> Walk:
        """Ahead from all sources that hold the rows, in the runs up to the output asked for."""
        begin, runs = place_of(self.source), self.questions.graph.runs_behind([self.target.run_id])
        walked = walk(self.questions.graph, begin, "forward", pruned=pruned, runs=runs)
        starts = {place_of(each) for each in self.starts}
        return replace(walked, ways=tuple(way for way in walked.ways if way.shared is None or way.end in starts))

    def _arrived(self, place: Place) -> Arrived | None:
        begin = place_of(self.source)
        if place == begin:
            return Arrived(self.tables.keep(f"SELECT b AS rid, b AS id, {OWN} AS role FROM {self.rows}"))
        ways = self._toward(place)
        if not ways:
            self._refuse_unknown(place)
            return None
        return arrived_rows(self.questions, self.tables, ways, self.start, self.rows, peers=False)

    def _refuse_unknown(self, place: Place) -> None:
        """QuestionError where the lineage up to a place was not kept: nobody knows which rows come there."""
        if self._walked(pruned=True).toward(place, absence=False):
            raise QuestionError(
                f"lineage on the way from '{self.source.full_name}' to another workflow was pruned",
                hint="ask workflow by workflow, or leave `workload` empty and run again",
            )

    def members(self, place: Place, ids: Sequence[int]) -> dict[int, int]:
        """How many rows of the source are in each of these rows of a place, as themselves."""
        behind, parts = walk(self.questions.graph, place, "backward"), []
        for end in map(place_of, self.starts):
            ways = own_ways(behind.toward(end, absence=False))
            if ways and ids:
                sql = self.questions.walk_sql(ways, Start(rids=tuple(ids)), place, end, "backward")
                kept = self.tables.keep(f"SELECT a, b FROM ({sql.text}) WHERE role = {OWN}", sql.parameters)
                parts.append(f"SELECT a, b FROM {kept}")
        if not parts:
            return {}
        counted = f"SELECT a, count(DISTINCT b) FROM ({' UNION ALL '.join(parts)}) GROUP BY a"
        return {int(row[0]): int(row[1]) for row in self.questions.engine.rows(counted)}


@dataclass
class Segment:
    """One run evaluated up to one of its datasets. `told` edges are those that no segment before has told."""

    asked: Asked
    found: Evaluated
    arrived: str
    told: list[int]


def why_not_over(
    home: HomeLayout,
    questions: Questions,
    source: str,
    to: str,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None = None,
    rids: bool = False,
) -> WhyNot:
    """Where rows of a source are lost on their way to an output of another workflow."""
    target = questions.find(to)
    if target.role not in ("output", "step"):
        raise QuestionError(f"'{target.full_name}' is no output", hint="--to names an output or a kept step")
    named, runs = runs_between(questions, source, [target])
    start, shown = questions.start(named, selection), SHOWN if limit is None else limit
    with question_tables(questions) as tables:
        rows = tables.keep(*start.relation(questions.scan(named).all_rids()))
        total = questions.engine.scalar(f"SELECT count(*) FROM {rows}")
        answer = WhyNot(named.full_name, target.full_name, target.run_id, total, 0, 0, 0, [], [])
        if not total:
            answer.notes.append(f"no row of '{named.full_name}' matches")
            return answer
        starts = tuple(one for each in runs for one in each.starts)
        following = Following(questions, tables, named, target, start, rows, starts)
        records = [_run(questions, each) for each in runs]
        found = following.arrived(place_of(target))
        if found is None:
            raise QuestionError(
                f"no row of '{named.full_name}' can be in '{target.full_name}': it only influences it by the absence "
                "of a match",
                hint="forward --influence tells which rows that concerns",
            )
        count_arrivals(answer, questions, found)
        arrived = found.pairs
        if answer.reached < total:
            place, reveal = place_of(target), selection.reveal
            _follow(answer, home, following, runs, records, place, arrived, stages, shown, limit, rids, reveal)
        else:
            answer.notes.append("all of them arrive, as the index tells: no step had to be evaluated again")
        answer.arrivals = _arrivals(following, place_of(target), arrived, shown)
    return answer


def _run(questions: Questions, way: RunOnTheWay) -> RunRecord:
    run = questions.reader.run(way.run_id)
    assert run is not None
    if run.capture == "query":
        raise QuestionError(f"'{run.workflow}' is a saved query, which is on the way and has no steps")
    if run.capture == "off":
        raise QuestionError(
            f"run '{run.id}' of '{run.workflow}', which is on the way, was made with capture off: which rows come "
            "through it is not known",
            hint="run it again with --capture auto, or ask workflow by workflow",
        )
    return run


def _follow(
    answer: WhyNot,
    home: HomeLayout,
    following: Following,
    runs: Sequence[RunOnTheWay],
    records: Sequence[RunRecord],
    target: Place,
    arrived: str,
    stages: Stages,
    shown: int,
    limit: int | None,
    rids: bool,
    reveal: bool,
) -> None:
    answer.spark = True
    folder = home.spill / f"asked-{new_run_id()}"
    with storing(home.path):
        folder.mkdir(parents=True)
    try:
        segments: list[Segment] = []
        through = following.places_toward(target)
        for way, run in zip(runs, records, strict=True):
            made = tuple(each for each in way.made if place_of(each) in through)
            segments += _segments(home, following, replace(way, made=made), run, folder, stages, segments, reveal)
        tables = _last_edges(following, segments, arrived)
        listed = []
        for segment, lost in zip(segments, tables, strict=True):
            prefix = f"{segment.asked.run.workflow}."
            told = segment.found.told_of(lost, shown)
            answer.steps += [_named(step, prefix) for edge, step in told if edge.number in segment.told]
            answer.merging += [f"{prefix}{step}" for step in segment.asked.merging]
            answer.notes += segment.found.notes
            if rids:
                listed.append(_prefixed(segment.found.listed(None), prefix))
            if segment.found.marked and reveal:
                following.questions.masks.note_revealed(following.source)
            elif segment.found.marked:
                following.questions.masks.note_hidden(segment.found.marked)
        answer.merging, answer.notes = list(dict.fromkeys(answer.merging)), list(dict.fromkeys(answer.notes))
        if rids:
            answer.rows = _in_order(listed, limit)
            answer.remaining = answer.asked - answer.reached - answer.rows.num_rows
        if answer.peers:
            answer.notes.append(
                f"{answer.peers:,} of the rows are lost as themselves, but are still in the lineage of '{answer.to}' "
                "as rows that a window read for others (peers)"
            )
        told_runs = ", ".join(f"'{run.id}' of '{run.workflow}'" for run in records)
        answer.notes.append(f"Spark has evaluated steps of runs {told_runs} again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _segments(
    home: HomeLayout,
    following: Following,
    way: RunOnTheWay,
    run: RunRecord,
    folder: Path,
    stages: Stages,
    before: Sequence[Segment],
    reveal: bool,
) -> list[Segment]:
    """A run evaluated up to each of its datasets that a later run reads, or that is asked about."""
    from lineage_service.evaluated import evaluated

    found: list[Segment] = []
    questions, tables = following.questions, following.tables
    for number, made in enumerate(way.made):
        begins = [*way.starts, *(each for each, _ in way.read)]
        step = made.space.removeprefix("step:")
        asked = asked_in_run(home, questions, run, begins[0], made, tuple(begins[1:]))
        node = asked.plan.steps[step]
        leading = {each.id for each in contributing(node)}
        given = {
            source_space(each.name): table
            for each in begins
            if each.space.partition(":")[2] in leading and (table := following.at(place_of(each))) is not None
        }
        kept = tuple(each for each in begins if source_space(each.name) in given)
        arrived = following.at(place_of(made))
        if not kept or arrived is None:
            continue
        asked = replace(asked, source=kept[0], others=kept[1:])
        pairs = {
            each: table
            for each in asked.on_the_way
            if (table := following.at(Place(run.id, f"step:{each}"))) is not None
        }
        own = folder / f"{run.id}-{number}"
        own.mkdir()
        evaluation = evaluated(
            asked, questions.engine, following.rows, pairs, own, stages, tables.names, reveal=reveal, given=given
        )
        known = {_key(one, edge) for one in (*before, *found) for edge in one.told}
        told = [edge.number for edge in evaluation.ways.edges if (run.id, edge.node.id, edge.place) not in known]
        found.append(Segment(asked, evaluation, arrived, told))
    return found


def _key(segment: Segment, number: int) -> tuple[str, str, int]:
    edge = segment.found.ways.edges[number]
    return segment.asked.run.id, edge.node.id, edge.place


def _last_edges(following: Following, segments: Sequence[Segment], arrived: str) -> list[str]:
    """For each segment a table (rid, edge) of all rows that do not arrive; `edge` where the last of their ways ends
    there."""
    tables, parts = following.tables, []
    seen = f"(SELECT rid FROM {arrived} WHERE role = {OWN})"
    for number, segment in enumerate(segments):
        there = f"SELECT rid FROM {segment.arrived} WHERE role = {OWN}"
        here = f"(SELECT rid FROM {arrived} WHERE role = {OWN} UNION {there})"
        segment.found.tally.refuse_open(here)
        edges = ", ".join(map(str, segment.told)) or "-1"
        parts.append(
            f"SELECT rid, {number} AS segment, edge FROM {segment.found.tally.verdicts} "
            f"WHERE NOT passed AND edge IN ({edges})"
        )
    ended = " UNION ALL ".join(parts) or "SELECT 0::BIGINT AS rid, 0 AS segment, 0 AS edge WHERE false"
    last = tables.keep(
        f"SELECT a.b AS rid, max(e.segment * 1000000 + e.edge) AS place FROM {following.rows} a "
        f"LEFT JOIN ({ended}) e ON e.rid = a.b WHERE a.b NOT IN {seen} GROUP BY a.b"
    )
    if following.questions.engine.scalar(f"SELECT count(*) FROM {last} WHERE place IS NULL"):
        raise QuestionError(
            "some of these rows are lost at a step that cannot be told", hint="ask workflow by workflow"
        )
    return [
        tables.keep(
            f"SELECT rid, CASE WHEN place // 1000000 = {number} THEN CAST(place % 1000000 AS INTEGER) END AS edge "
            f"FROM {last}"
        )
        for number in range(len(segments))
    ]


def _named(step: StepLoss, prefix: str) -> StepLoss:
    reasons = tuple(each if each.step is None else replace(each, step=f"{prefix}{each.step}") for each in step.reasons)
    return replace(step, step=f"{prefix}{step.step}", input=f"{prefix}{step.input}", reasons=reasons)


def _prefixed(table: pa.Table, prefix: str) -> pa.Table:
    import pyarrow as pa

    steps = pa.array([f"{prefix}{each}" for each in table.column("step").to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("step"), "step", steps)


def _in_order(tables: Sequence[pa.Table], limit: int | None) -> pa.Table:
    import pyarrow as pa

    found = pa.concat_tables(tables, promote_options="permissive").sort_by("_rid")
    return found if limit is None else found.slice(0, limit)


def _arrivals(following: Following, place: Place, arrived: str, shown: int) -> list[Arrival]:
    found = following.questions.engine.rows(
        f"SELECT rid, list(id ORDER BY id)[1:{shown}], count(*) FROM {arrived} WHERE role = {OWN} GROUP BY rid "
        f"ORDER BY rid LIMIT {shown}"
    )
    others = following.members(place, sorted({into[0] for _, into, _ in found}))
    return [Arrival(rid, tuple(into), total - len(into), others.get(into[0], 1) - 1) for rid, into, total in found]
