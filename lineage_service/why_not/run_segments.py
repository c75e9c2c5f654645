"""Segments of a way across several runs: the losses in each run among the rows that reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.handles import source_space, step_space
from lineage_service.capture.row_paths import contributing_nodes
from lineage_service.errors import QuestionError
from lineage_service.progress import Stages
from lineage_service.query.cross_run_paths import RunOnTheWay, place_of
from lineage_service.query.lineage_graph import Place
from lineage_service.why_not.question import WhyNotQuestion, question_in_run
from lineage_service.why_not.row_trail import OWN, RowTrail

if TYPE_CHECKING:
    from lineage_service.why_not.run_evaluation import RunEvaluation


@dataclass
class Segment:
    """One run evaluated up to one of its datasets. `reported_edges` are those not reported by an earlier segment."""

    asked: WhyNotQuestion
    found: RunEvaluation
    arrived: str
    reported_edges: list[int]


def find_segments(
    following: RowTrail,
    way: RunOnTheWay,
    run: RunRecord,
    folder: Path,
    stages: Stages,
    before: Sequence[Segment],
    reveal: bool,
) -> list[Segment]:
    """Evaluates a run up to each of its datasets that a later run reads or that is the output."""
    from lineage_service.why_not.run_evaluation import evaluate_run

    found: list[Segment] = []
    questions, tables = following.questions, following.tables
    for number, made in enumerate(way.made):
        place = place_of(made)
        is_kept = following.is_kept(place)
        if not is_kept and place != place_of(following.target):
            following.pairs_at(place)  # raises the error
        begins = [*way.starts, *(each for each, _ in way.read)]
        step = made.space.name
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
            if following.is_kept(Place(run.id, step_space(each)))
            and (table := following.pairs_at(Place(run.id, step_space(each)))) is not None
        }
        own = folder / f"{run.id}-{number}"
        own.mkdir()
        evaluation = evaluate_run(
            asked, questions.engine, following.rows, pairs, own, stages, tables.names, reveal=reveal, given=given
        )
        arrived = following.pairs_at(place) if is_kept else None
        if arrived is None:
            arrived = tables.keep(f"SELECT rid, {OWN} AS role FROM {evaluation.arrived_rids()}")
        known = {_edge_key(one, edge) for one in (*before, *found) for edge in one.reported_edges}
        reported_edges = [
            edge.number for edge in evaluation.ways.edges if (run.id, edge.node.id, edge.place) not in known
        ]
        found.append(Segment(asked, evaluation, arrived, reported_edges))
    return found


def _node_id(dataset: DatasetRecord) -> str:
    """The id of a dataset's node in the plan of its run."""
    return dataset.space.name


def _edge_key(segment: Segment, number: int) -> tuple[str, str, int]:
    edge = segment.found.ways.edges[number]
    return segment.asked.run.id, edge.node.id, edge.place


def last_edges(following: RowTrail, segments: Sequence[Segment], arrived: str, unread: str) -> list[str]:
    """For each segment a table (rid, edge) of all rows that do not arrive, where `edge` is the last edge they reach."""
    tables, parts = following.tables, []
    seen = f"(SELECT rid FROM {arrived} WHERE role = {OWN})"
    for number, segment in enumerate(segments):
        there = f"SELECT rid FROM {segment.arrived} WHERE role = {OWN}"
        here = f"(SELECT rid FROM {arrived} WHERE role = {OWN} UNION {there})"
        segment.found.tally.refuse_undecided(here)
        edges = ", ".join(map(str, segment.reported_edges)) or "-1"
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
            "some of these rows are lost at a step that cannot be determined", hint="ask workflow by workflow"
        )
    return [
        tables.keep(
            f"SELECT rid, CASE WHEN place // 1000000 = {number} THEN CAST(place % 1000000 AS INTEGER) END AS edge "
            f"FROM {last}"
        )
        for number in range(len(segments))
    ]
