"""`why-not` across workflows: follows rows through each run between a source and an output, over all ways.

Each run is evaluated separately, starting from the rows of its sources that derive from the requested rows. The index
determines these rows and the rows that arrive. Only versions that a run actually read are followed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.row_paths import contributing_nodes
from lineage_service.errors import QuestionError, join_names
from lineage_service.progress import Stages
from lineage_service.query.cross_run_paths import RunOnTheWay, place_of, places_behind, places_inside, runs_between
from lineage_service.query.lineage_graph import Place
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.store.layout import HomeLayout, new_run_id, translate_disk_errors
from lineage_service.why_not.question import WhyNotQuestion
from lineage_service.why_not.row_trail import OWN, RowTrail
from lineage_service.why_not.run_segments import Segment, find_segments, last_edges
from lineage_service.why_not.why_not_result import Arrival, ReasonCount, StepLoss, WhyNot
from lineage_service.why_not.within_run import (
    SHOWN,
    ArrivedRows,
    count_arrivals,
    question_tables,
    unknown_arrivals,
)

if TYPE_CHECKING:
    import pyarrow as pa


def is_reached_indirectly(questions: Questions, question: WhyNotQuestion) -> bool:
    """Whether rows may reach the output through other runs, or through another source of its run that shares them."""
    graph, begin = questions.graph, place_of(question.source)
    if question.target not in question.plan.steps or graph.is_self_contained(question.run.id):
        return False
    leading = {each.id for each in contributing_nodes(question.plan.steps[question.target])}
    sources = {place_of(each) for each in graph.sources(question.run.id) if each.name in leading} - {begin}
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
    """Where rows are lost on the way to an output, across workflows or over several sources that share them."""
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
                hint="forward --influence shows which rows are influenced",
            )
        if found is not None:
            count_arrivals(answer, questions, found)
        if found is not None and answer.reached == total:
            answer.notes.append("all of them arrive according to the index: no step was evaluated again")
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
    """The runs, restricted to the datasets through which rows may reach the output."""
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
    """The runs without those that no start row can reach."""
    reached, found = set[Place](), list[RunOnTheWay]()
    for way in runs:
        read = tuple((each, maker) for each, maker in way.read if place_of(maker) in reached)
        if way.starts or read:
            reached |= {place_of(each) for each in way.made}
            found.append(replace(way, read=read))
    return found


def _unread_rows(following: RowTrail, runs: Sequence[RunOnTheWay]) -> str:
    """A table (rid) of requested rows that no source on the way has read, because it reads other files."""
    tables = [following.pairs_at(place_of(each)) for way in runs for each in way.starts]
    read = " UNION ALL ".join(f"SELECT rid FROM {each}" for each in tables if each is not None)
    without = f" WHERE b NOT IN ({read})" if read else ""
    return following.tables.keep(f"SELECT b AS rid FROM {following.rows}{without}")


def _tell_unread(
    answer: WhyNot, following: RowTrail, runs: Sequence[RunOnTheWay], unread: str, shown: int, limit: int | None
) -> None:
    """Adds the rows that no source on the way has read. They are lost before the first step."""
    import pyarrow as pa

    engine = following.questions.engine
    rids = engine.ids(f"SELECT rid FROM {unread} ORDER BY rid")
    if not rids:
        return
    starts = list(dict.fromkeys(each.full_name for way in runs for each in way.starts))
    text = f"{join_names(starts)} did not read the file that the row is in"
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
            segments += find_segments(following, way, run, folder, stages, segments, reveal)
        if arrived is None:
            last = segments[-1]  # no run upstream of the output's run reads what that run makes
            arrived = last.arrived
            count_arrivals(answer, following.questions, ArrivedRows(arrived))
            answer.peers = last.found.count_peers()
            answer.lost -= answer.peers
        tables = last_edges(following, segments, arrived, unread)
        parts = []
        for segment, lost in zip(segments, tables, strict=True):
            prefix = "" if inside else f"{segment.asked.run.workflow_name}."
            losses = segment.found.losses_by_edge(lost, shown)
            answer.steps += [
                _prefix_step(step, prefix) for edge, step in losses if edge.number in segment.reported_edges
            ]
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
                f"{answer.peers:,} of the rows do not arrive themselves, but are in the lineage of '{answer.to}' "
                "as rows that a window read for others (peers)"
            )
        run_names = ", ".join(f"'{run.id}' of '{run.workflow}'" for run in records)
        which = f"run '{records[0].id}'" if inside else f"runs {run_names}"
        answer.notes.append(f"Spark evaluated steps of {which} again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
