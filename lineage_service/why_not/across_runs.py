"""`why-not` over workflows: rows are followed through each run on their way to an output, along all ways, from every
source that has read them.

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
from lineage_service.capture.row_paths import contributing_nodes
from lineage_service.errors import QuestionError, join_names
from lineage_service.progress import Stages
from lineage_service.query.cross_run_paths import RunOnTheWay, place_of, places_behind, places_inside, runs_between
from lineage_service.query.lineage_graph import Place, Walk, Way, is_source, walk
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start, own_ways, reverse_ways
from lineage_service.store.layout import HomeLayout, new_run_id, translate_disk_errors
from lineage_service.why_not.question import WhyNotQuestion, question_in_run
from lineage_service.why_not.why_not_result import Arrival, ReasonCount, StepLoss, WhyNot
from lineage_service.why_not.within_run import (
    SHOWN,
    ArrivedRows,
    QuestionTables,
    count_arrivals,
    direction_kept,
    find_arrived_rows,
    question_tables,
    unknown_arrivals,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.why_not.run_evaluation import RunEvaluation

OWN = int(Role.OWN)


@dataclass
class RowTrail:
    """The rows asked for, and where they come to: tables (rid, id, role) by place, found once.

    A dataset's lineage counts where it was kept on all ways to it: of some of them rows would be missed.
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
        """The rows of a place that are made from the rows asked for; None where none can be, absence left out."""
        arrived = self.arrival_at(place)
        return None if arrived is None else arrived.pairs

    def arrival_at(self, place: Place) -> ArrivedRows | None:
        """The same, and which rows come there at all. QuestionError where the lineage up to it was not kept: nobody
        knows which rows come there."""
        if not self.is_kept(place):
            raise QuestionError(
                f"lineage on the way from '{self.source.full_name}' to another workflow was pruned",
                hint="ask workflow by workflow, or leave `workload` empty and run again",
            )
        if place not in self._found:
            self._found[place] = self._find_arrival(place)
        return self._found[place]

    def is_kept(self, place: Place) -> bool:
        """Whether the lineage up to a place is known on all ways."""
        run = self.questions.reader.run(place.run_id)
        if run is not None and run.capture == "off" and not is_source(place):
            return False
        return direction_kept(self._ways_to(place)) is not None

    def _ways_to(self, place: Place) -> list[Way]:
        """All ways to a place, pruned or not, in the runs up to the output asked for."""
        if self._ahead is None:
            graph = self.questions.graph
            runs = graph.runs_behind([self.target.run_id])
            self._ahead = walk(graph, self.begin, "forward", pruned=True, runs=runs)
        return self._ahead.ways_toward(place, absence=False)

    def _ways_back(self, place: Place) -> list[Way]:
        behind = walk(self.questions.graph, place, "backward")
        return self.questions.ways_toward(behind, self.begin, "backward", absence=False)

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
        """How many rows of the dataset asked for are in each of these rows of a place, as themselves."""
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


@dataclass
class Segment:
    """One run evaluated up to one of its datasets. `told` edges are those that no segment before has told."""

    asked: WhyNotQuestion
    found: RunEvaluation
    arrived: str
    told: list[int]


def is_reached_indirectly(questions: Questions, asked: WhyNotQuestion) -> bool:
    """Whether rows may come to the output by way of other runs, or over another source of its run that has them too."""
    graph, begin = questions.graph, place_of(asked.source)
    if asked.target not in asked.plan.steps or graph.is_self_contained(asked.run.id):
        return False
    leading = {each.id for each in contributing_nodes(asked.plan.steps[asked.target])}
    sources = {place_of(each) for each in graph.sources(asked.run.id) if each.name in leading} - {begin}
    behind = (each for source in sources for each in places_behind(graph, source))
    return any(graph.shared_rows(begin, each) is not None for each in behind)


def why_not_across_runs(
    home: HomeLayout,
    questions: Questions,
    source: str | DatasetRecord,
    target: DatasetRecord,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None = None,
    rids: bool = False,
) -> WhyNot:
    """Where rows are lost on their way to an output over other workflows, or over several sources that have them."""
    if target.role not in ("output", "step"):
        raise QuestionError(f"'{target.full_name}' is no output", hint="--to names an output or a kept step")
    named, between = runs_between(questions, source, [target], steps=True)
    if questions.graph.shared_rows(place_of(named), place_of(target)) is not None:
        raise QuestionError(f"'{named.full_name}' and '{target.full_name}' are the same rows")
    runs = _runs_leading_to(questions, between, target)
    start, shown = questions.start(named, selection), SHOWN if limit is None else limit
    with question_tables(questions) as tables:
        rows = tables.keep(*start.relation(questions.scan(named).all_rids()))
        total = questions.engine.scalar(f"SELECT count(*) FROM {rows}")
        answer = WhyNot(named.full_name, target.full_name, target.run_id, total, 0, 0, 0, [], [])
        if not total:
            answer.notes.append(f"no row of '{named.full_name}' matches")
            return answer
        following = RowTrail(questions, tables, named, target, start, rows)
        records = [_run_record(questions, each, target) for each in runs]
        place = place_of(target)
        found = following.arrival_at(place) if following.is_kept(place) else None
        arrived = None if found is None else found.pairs
        if not runs or (found is None and following.is_kept(place)):
            raise QuestionError(
                f"no row of '{named.full_name}' can be in '{target.full_name}': it only influences it by the absence "
                "of a match",
                hint="forward --influence tells which rows that concerns",
            )
        if found is not None:
            count_arrivals(answer, questions, found)
        if found is not None and answer.reached == total:
            answer.notes.append("all of them arrive, as the index tells: no step had to be evaluated again")
        else:
            unread = _unread_rows(following, runs)
            if arrived is None or answer.reached + questions.engine.scalar(f"SELECT count(*) FROM {unread}") < total:
                _follow_rows(
                    answer,
                    home,
                    following,
                    runs,
                    records,
                    arrived,
                    unread,
                    stages,
                    shown,
                    limit,
                    rids,
                    selection.reveal,
                )
            elif rids:
                answer.rows = _concat_lost_rows([], limit)
            _tell_unread(answer, following, runs, unread, shown, limit)
        if arrived is not None:
            answer.arrivals = _arrivals(following, place, arrived, shown)
        else:
            answer.notes.append(unknown_arrivals(questions.reader, named, target))
    return answer


def _runs_leading_to(questions: Questions, runs: Sequence[RunOnTheWay], target: DatasetRecord) -> list[RunOnTheWay]:
    """The runs with those of their datasets alone by which rows may come to the output."""
    wanted, found = {place_of(target)}, list[RunOnTheWay]()
    for way in reversed(runs):
        made = tuple(each for each in way.made if place_of(each) in wanted)
        behind = {place for each in made for place in places_inside(questions.graph, place_of(each))}
        starts = tuple(each for each in way.starts if place_of(each) in behind)
        read = tuple((each, maker) for each, maker in way.read if place_of(each) in behind)
        if starts or read:
            wanted |= {place_of(maker) for _, maker in read}
            found.insert(0, replace(way, starts=starts, read=read, made=made))
    return _with_starts(found)


def _with_starts(runs: Sequence[RunOnTheWay]) -> list[RunOnTheWay]:
    """The runs without those that rows which start come to by no way."""
    reached, found = set[Place](), list[RunOnTheWay]()
    for way in runs:
        read = tuple((each, maker) for each, maker in way.read if place_of(maker) in reached)
        if way.starts or read:
            reached |= {place_of(each) for each in way.made}
            found.append(replace(way, read=read))
    return found


def _unread_rows(following: RowTrail, runs: Sequence[RunOnTheWay]) -> str:
    """A table (rid) of the rows asked for that no source on the way has read: those of files that others read."""
    tables = [following.pairs_at(place_of(each)) for way in runs for each in way.starts]
    read = " UNION ALL ".join(f"SELECT rid FROM {each}" for each in tables if each is not None)
    without = f" WHERE b NOT IN ({read})" if read else ""
    return following.tables.keep(f"SELECT b AS rid FROM {following.rows}{without}")


def _tell_unread(
    answer: WhyNot, following: RowTrail, runs: Sequence[RunOnTheWay], unread: str, shown: int, limit: int | None
) -> None:
    """Adds the rows that no source on the way has read: they are lost before the first step."""
    import pyarrow as pa

    engine = following.questions.engine
    rids = engine.ids(f"SELECT rid FROM {unread} ORDER BY rid")
    if not rids:
        return
    starts = list(dict.fromkeys(each.full_name for way in runs for each in way.starts))
    text = f"{join_names(starts)} has not read the file that it is in"
    first = tuple(rids[:shown])
    reason = ReasonCount("not_read", text, len(rids), first, len(rids) - len(first))
    step = StepLoss(join_names(starts), "read", answer.source, answer.asked, len(rids), len(rids), False, (reason,))
    answer.steps.insert(0, step)
    if answer.rows is not None:
        lines = {"_rid": rids, "step": [step.step] * len(rids), "reason": [text] * len(rids)}
        kinds = [pa.int64(), pa.string(), pa.string()]
        columns = [pa.array(values, kind) for values, kind in zip(lines.values(), kinds, strict=True)]
        answer.rows = _concat_lost_rows([answer.rows, pa.table(dict(zip(lines, columns, strict=True)))], limit)
        answer.remaining = answer.asked - answer.reached - answer.rows.num_rows


def _run_record(questions: Questions, way: RunOnTheWay, target: DatasetRecord) -> RunRecord:
    run = questions.reader.run(way.run_id)
    assert run is not None
    if run.capture == "query":
        raise QuestionError(f"'{run.workflow}' is a saved query, which is on the way and has no steps")
    if run.capture == "off" and run.id != target.run_id:
        raise QuestionError(
            f"run '{run.id}' of '{run.workflow}', which is on the way, was made with capture off: which rows come "
            "through it is not known",
            hint="run it again with --capture auto, or ask workflow by workflow",
        )
    return run


def _follow_rows(
    answer: WhyNot,
    home: HomeLayout,
    following: RowTrail,
    runs: Sequence[RunOnTheWay],
    records: Sequence[RunRecord],
    arrived: str | None,
    unread: str,
    stages: Stages,
    shown: int,
    limit: int | None,
    rids: bool,
    reveal: bool,
) -> None:
    answer.spark = True
    folder = home.spill / f"asked-{new_run_id()}"
    with translate_disk_errors(home.path):
        folder.mkdir(parents=True)
    inside = following.source.run_id == following.target.run_id and len(runs) == 1
    try:
        segments: list[Segment] = []
        for way, run in zip(runs, records, strict=True):
            segments += _segments(following, way, run, folder, stages, segments, reveal)
        if arrived is None:
            last = segments[-1]  # no run behind the output's own reads what that makes
            arrived = last.arrived
            count_arrivals(answer, following.questions, ArrivedRows(arrived))
            answer.peers = last.found.count_peers()
            answer.lost -= answer.peers
        tables = _last_edges(following, segments, arrived, unread)
        parts = []
        for segment, lost in zip(segments, tables, strict=True):
            prefix = "" if inside else f"{segment.asked.run.workflow_name}."
            told = segment.found.losses_by_edge(lost, shown)
            answer.steps += [_prefix_step(step, prefix) for edge, step in told if edge.number in segment.told]
            answer.merging += [f"{prefix}{step}" for step in segment.asked.merging]
            answer.notes += segment.found.notes
            if rids:
                parts.append(_prefix_table(segment.found.lost_rows_with_reasons(None), prefix))
            if segment.found.marked and reveal:
                following.questions.masks.note_revealed(following.source)
            elif segment.found.marked:
                following.questions.masks.note_hidden(segment.found.marked)
        answer.merging, answer.notes = list(dict.fromkeys(answer.merging)), list(dict.fromkeys(answer.notes))
        if rids:
            answer.rows = _concat_lost_rows(parts, limit)
            answer.remaining = answer.asked - answer.reached - answer.rows.num_rows
        if answer.peers:
            answer.notes.append(
                f"{answer.peers:,} of the rows are lost as themselves, but are still in the lineage of '{answer.to}' "
                "as rows that a window read for others (peers)"
            )
        told_runs = ", ".join(f"'{run.id}' of '{run.workflow}'" for run in records)
        which = f"run '{records[0].id}'" if inside else f"runs {told_runs}"
        answer.notes.append(f"Spark has evaluated steps of {which} again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _segments(
    following: RowTrail,
    way: RunOnTheWay,
    run: RunRecord,
    folder: Path,
    stages: Stages,
    before: Sequence[Segment],
    reveal: bool,
) -> list[Segment]:
    """A run evaluated up to each of its datasets that a later run reads, or that is asked about."""
    from lineage_service.why_not.run_evaluation import evaluate_run

    found: list[Segment] = []
    questions, tables = following.questions, following.tables
    for number, made in enumerate(way.made):
        place = place_of(made)
        is_kept = following.is_kept(place)
        if not is_kept and place != place_of(following.target):
            following.pairs_at(place)  # says so
        begins = [*way.starts, *(each for each, _ in way.read)]
        step = made.space.removeprefix("step:")
        asked = question_in_run(questions, run, begins[0], made, tuple(begins[1:]))
        node = asked.plan.steps[step]
        leading = {each.id for each in contributing_nodes(node)}
        given = {
            source_space(_node_id(each)): table
            for each in begins
            if _node_id(each) in leading and (table := following.pairs_at(place_of(each))) is not None
        }
        kept = tuple(each for each in begins if source_space(_node_id(each)) in given)
        if not kept or (is_kept and following.pairs_at(place) is None):
            continue
        asked = replace(asked, source=kept[0], others=kept[1:])
        pairs = {
            each: table
            for each in asked.on_the_way
            if following.is_kept(Place(run.id, f"step:{each}"))
            and (table := following.pairs_at(Place(run.id, f"step:{each}"))) is not None
        }
        own = folder / f"{run.id}-{number}"
        own.mkdir()
        evaluation = evaluate_run(
            asked, questions.engine, following.rows, pairs, own, stages, tables.names, reveal=reveal, given=given
        )
        arrived = following.pairs_at(place) if is_kept else None
        if arrived is None:
            arrived = tables.keep(f"SELECT rid, {OWN} AS role FROM {evaluation.arrived_rids()}")
        known = {_edge_key(one, edge) for one in (*before, *found) for edge in one.told}
        told = [edge.number for edge in evaluation.ways.edges if (run.id, edge.node.id, edge.place) not in known]
        found.append(Segment(asked, evaluation, arrived, told))
    return found


def _node_id(dataset: DatasetRecord) -> str:
    """The id of a dataset's node in the plan of its run."""
    return dataset.space.partition(":")[2]


def _edge_key(segment: Segment, number: int) -> tuple[str, str, int]:
    edge = segment.found.ways.edges[number]
    return segment.asked.run.id, edge.node.id, edge.place


def _last_edges(following: RowTrail, segments: Sequence[Segment], arrived: str, unread: str) -> list[str]:
    """For each segment a table (rid, edge) of all rows that do not arrive; `edge` where the last of their ways ends
    there."""
    tables, parts = following.tables, []
    seen = f"(SELECT rid FROM {arrived} WHERE role = {OWN})"
    for number, segment in enumerate(segments):
        there = f"SELECT rid FROM {segment.arrived} WHERE role = {OWN}"
        here = f"(SELECT rid FROM {arrived} WHERE role = {OWN} UNION {there})"
        segment.found.tally.refuse_undecided(here)
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
    nowhere = f"SELECT count(*) FROM {last} WHERE place IS NULL AND rid NOT IN (SELECT rid FROM {unread})"
    if following.questions.engine.scalar(nowhere):
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


def _prefix_step(step: StepLoss, prefix: str) -> StepLoss:
    reasons = tuple(each if each.step is None else replace(each, step=f"{prefix}{each.step}") for each in step.reasons)
    return replace(step, step=f"{prefix}{step.step}", input=f"{prefix}{step.input}", reasons=reasons)


def _prefix_table(table: pa.Table, prefix: str) -> pa.Table:
    import pyarrow as pa

    steps = pa.array([f"{prefix}{each}" for each in table.column("step").to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("step"), "step", steps)


def _concat_lost_rows(tables: Sequence[pa.Table], limit: int | None) -> pa.Table:
    import pyarrow as pa

    none = pa.table(
        {"_rid": pa.array([], pa.int64()), **{name: pa.array([], pa.string()) for name in ("step", "reason")}}
    )
    found = pa.concat_tables([none, *tables], promote_options="permissive").sort_by("_rid")
    return found if limit is None else found.slice(0, limit)


def _arrivals(following: RowTrail, place: Place, arrived: str, shown: int) -> list[Arrival]:
    found = following.questions.engine.rows(
        f"SELECT rid, list(id ORDER BY id)[1:{shown}], count(*) FROM {arrived} WHERE role = {OWN} GROUP BY rid "
        f"ORDER BY rid LIMIT {shown}"
    )
    others = following.members(place, sorted({into[0] for _, into, _ in found}))
    return [Arrival(rid, tuple(into), total - len(into), others.get(into[0], 1) - 1) for rid, into, total in found]
