"""`why-not` within one run: where rows of a dataset are lost on the way to an output, and why.

The index determines which rows arrive. For the others, Spark evaluates the run's plan again, over what the run read and
wrote, and the rows are followed from step to step.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role, step_space
from lineage_service.capture.workload import workload_entry
from lineage_service.progress import Stages
from lineage_service.query.lineage_graph import Direction, Place, Way, is_pruned
from lineage_service.query.lineage_walk import walk
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start, has_intervals, own_ways, reverse_ways
from lineage_service.store.layout import new_run_id, translate_disk_errors
from lineage_service.why_not.question import WhyNotQuestion, refuse_unlinked
from lineage_service.why_not.why_not_result import Arrival, WhyNot

if TYPE_CHECKING:
    from lineage_service.why_not.run_evaluation import RunEvaluation

SHOWN = 10  # row ids shown per reason, and arriving rows shown
OWN = int(Role.OWN)


def why_not_within_run(
    question: WhyNotQuestion,
    questions: Questions,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None = None,
    rids: bool = False,
) -> WhyNot:
    """Where rows are lost inside one run, on the way to one of its outputs."""
    refuse_unlinked(question)
    start = questions.start(question.source, selection)
    with question_tables(questions) as tables:
        rows = tables.keep(*start.relation(questions.scan(question.source).all_rids()))
        total = questions.engine.scalar(f"SELECT count(*) FROM {rows}")
        answer = WhyNot(
            question.source.full_name, question.to.full_name, question.run.id, total, 0, 0, 0, [], [], question.merging
        )
        if not total:
            answer.notes.append(f"no row of '{question.source.full_name}' matches")
            return answer
        found = _arrived_at_step(question, questions, tables, start, rows, question.target, peers=False)
        # If the output's own lineage was not kept, peers are determined from the datasets before it.
        known = {
            step: _arrived_at_step(question, questions, tables, start, rows, step, peers=found is None)
            for step in question.on_the_way
            if step != question.target
        }
        known[question.target] = found
        pairs = {step: each.pairs for step, each in known.items() if each is not None}
        if found is not None:
            count_arrivals(answer, questions, found)
        if question.target not in pairs or answer.reached < total:
            _evaluate_losses(answer, question, questions, tables, rows, pairs, stages, limit, rids, selection.reveal)
        else:
            answer.notes.append("all of them arrive according to the index: no step was evaluated again")
        if question.target in pairs:
            shown = SHOWN if limit is None else limit
            answer.arrivals = _arrivals(question, questions, pairs[question.target], shown)
        else:
            answer.notes.append(unknown_arrivals(question.run.reader, question.source, question.to))
    return answer


# --- lookup in the index --------------------------------------------------------------------------------------------


@dataclass
class QuestionTables:
    """Tables of one question in the engine, dropped at its end."""

    questions: Questions
    names: list[str] = field(default_factory=list)

    def keep(self, query: str, parameters: list[object] | None = None) -> str:
        self.names.append(self.questions.engine.keep(query, parameters or ()))
        return self.names[-1]


@contextmanager
def question_tables(questions: Questions) -> Iterator[QuestionTables]:
    tables = QuestionTables(questions)
    try:
        yield tables
    finally:
        for name in tables.names:
            questions.engine.drop(name)


@dataclass(frozen=True)
class ArrivedRows:
    """The rows that arrive. `pairs` is a table (rid, id, role).

    If `reached` is set, it is a table of all rids that arrive, and `pairs` has only rows that arrive as themselves:
    window peers are not expanded.
    """

    pairs: str
    reached: str | None = None


def find_arrived_rows(
    questions: Questions, tables: QuestionTables, ways: Sequence[Way], start: Start, rows: str, *, peers: bool
) -> ArrivedRows:
    """The requested rows at the end of forward ways. With `peers`, also the pairs of rows that a window read."""
    begin, end = ways[0].start, ways[-1].end
    if peers or not has_intervals(ways) or any(way.hop is not None and way.hop.form is HopForm.LAZY for way in ways):
        sql = questions.walk_sql(ways, start, begin, end, "forward")
        return ArrivedRows(tables.keep(f"SELECT a AS rid, b AS id, role FROM ({sql.text})", sql.parameters))
    sql = questions.walk_sql(own_ways(ways), start, begin, end, "forward")
    pairs = tables.keep(f"SELECT a AS rid, b AS id, role FROM ({sql.text})", sql.parameters)
    sql = questions.walk_sql(reverse_ways(ways), Start(), end, begin, "backward", pairs=False)
    reached = f"SELECT DISTINCT b AS rid FROM ({sql.text}) WHERE b IN (SELECT b FROM {rows})"
    return ArrivedRows(pairs, tables.keep(reached, sql.parameters))


def _arrived_at_step(
    question: WhyNotQuestion,
    questions: Questions,
    tables: QuestionTables,
    start: Start,
    rows: str,
    step: str,
    *,
    peers: bool,
) -> ArrivedRows | None:
    """The requested rows within the rows of a step; None if the step was not kept."""
    begin, end = Place(question.run.id, question.source.space), Place(question.run.id, step_space(step))
    ways = walk(questions.graph, begin, "forward", links=False, pruned=True).ways_toward(end, absence=False)
    kept = direction_kept(ways) if ways else None
    if kept == "backward":
        ways = reverse_ways(walk(questions.graph, end, "backward", links=False).ways_toward(begin, absence=False))
    return find_arrived_rows(questions, tables, ways, start, rows, peers=peers) if kept is not None else None


def direction_kept(ways: Sequence[Way], *, first: Direction = "forward") -> Direction | None:
    """The direction for which all of these ways were kept, `first` if both were; None if some are missing."""
    directions: tuple[Direction, ...] = ("forward", "backward") if first == "forward" else ("backward", "forward")
    hops = [way.hop for way in ways if way.hop is not None]
    return next((each for each in directions if not any(is_pruned(hop, each) for hop in hops)), None)


def count_arrivals(answer: WhyNot, questions: Questions, arrived: ArrivedRows) -> None:
    best = f"(SELECT rid, min(role) AS role FROM {arrived.pairs} GROUP BY rid)"
    answer.reached = questions.engine.scalar(f"SELECT count(*) FROM {best} WHERE role = {OWN}")
    if arrived.reached is None:
        answer.peers = questions.engine.scalar(f"SELECT count(*) FROM {best} WHERE role <> {OWN}")
    else:
        answer.peers = questions.engine.scalar(f"SELECT count(*) FROM {arrived.reached}") - answer.reached
    answer.lost = answer.asked - answer.reached - answer.peers


def _arrivals(question: WhyNotQuestion, questions: Questions, pairs: str, shown: int) -> list[Arrival]:
    """The first rows that arrive, the output rows that contain them, and how many rows the first of those has."""
    engine = questions.engine
    found = engine.rows(
        f"SELECT rid, list(id ORDER BY id)[1:{shown}], count(*) FROM {pairs} WHERE role = {OWN} GROUP BY rid "
        f"ORDER BY rid LIMIT {shown}"
    )
    firsts = tuple(sorted({into[0] for _, into, _ in found}))
    others = _count_members(question, questions, firsts) if firsts else {}
    return [Arrival(rid, tuple(into), total - len(into), others.get(into[0], 1) - 1) for rid, into, total in found]


def _count_members(question: WhyNotQuestion, questions: Questions, ids: tuple[int, ...]) -> dict[int, int]:
    """The number of rows of the asked dataset in each of these output rows, as themselves."""
    begin, end = Place(question.run.id, question.source.space), Place(question.run.id, question.to.space)
    ahead = walk(questions.graph, begin, "forward", links=False, pruned=True).ways_toward(end, absence=False)
    if direction_kept(ahead, first="backward") == "backward":
        ways = own_ways(walk(questions.graph, end, "backward", links=False).ways_toward(begin, absence=False))
        sql = questions.walk_sql(ways, Start(rids=ids), end, begin, "backward")
        counted = f"SELECT a, count(*) FROM ({sql.text}) WHERE role = {OWN} GROUP BY a"
    else:
        sql = questions.walk_sql(own_ways(ahead), Start(), begin, end, "forward")
        wanted = ", ".join(map(str, ids))
        counted = f"SELECT b, count(*) FROM ({sql.text}) WHERE role = {OWN} AND b IN ({wanted}) GROUP BY b"
    table = questions.engine.keep(counted, sql.parameters)
    try:
        return {int(row[0]): int(row[1]) for row in questions.engine.rows(f"SELECT * FROM {table}")}
    finally:
        questions.engine.drop(table)


def unknown_arrivals(reader: CatalogReader, source: DatasetRecord, to: DatasetRecord) -> str:
    """The reason why nothing is reported about the output's own rows."""
    run = reader.run(to.run_id)
    if run is not None and run.capture == "off":
        return f"run '{run.id}' was made with capture off: which rows of '{to.name}' they are in is not known"
    return (
        f"which rows of '{to.name}' they are in was pruned; to keep it, add to `lineage: workload:`  "
        f"{workload_entry('forward', source.name, to.name)}"
    )


# --- evaluation -----------------------------------------------------------------------------------------------------


def _evaluate_losses(
    answer: WhyNot,
    question: WhyNotQuestion,
    questions: Questions,
    tables: QuestionTables,
    rows: str,
    pairs: Mapping[str, str],
    stages: Stages,
    limit: int | None,
    rids: bool,
    reveal: bool,
) -> None:
    """Follows the rows from step to step, and fills in where they are lost."""
    from lineage_service.why_not.run_evaluation import evaluate_run

    answer.spark = True
    folder = question.run.home.spill / f"asked-{new_run_id()}"
    with translate_disk_errors(question.run.home.path):
        folder.mkdir(parents=True)
    try:
        found = evaluate_run(question, questions.engine, rows, pairs, folder, stages, tables.names, reveal=reveal)
        _fill_losses(answer, question, questions, pairs, found, SHOWN if limit is None else limit)
        if rids:
            answer.rows = found.lost_rows_with_reasons(limit)
            answer.remaining = answer.asked - answer.reached - answer.rows.num_rows
        answer.notes += found.notes
        if found.marked and reveal:
            questions.masks.note_revealed(question.source)
        elif found.marked:
            questions.masks.note_hidden(found.marked)
        answer.notes.append(f"Spark evaluated steps of run '{question.run.id}' again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill_losses(
    answer: WhyNot,
    question: WhyNotQuestion,
    questions: Questions,
    pairs: Mapping[str, str],
    evaluation: RunEvaluation,
    limit: int,
) -> None:
    if question.target in pairs:
        arrived = f"(SELECT DISTINCT rid FROM {pairs[question.target]} WHERE role = {OWN})"
    else:
        arrived = evaluation.arrived_rids()
        answer.reached = questions.engine.scalar(f"SELECT count(*) FROM {arrived}")
        answer.peers = evaluation.count_peers()
        answer.lost = answer.asked - answer.reached - answer.peers
    answer.steps = evaluation.step_losses(arrived, limit)
    if answer.peers:
        answer.notes.append(
            f"{answer.peers:,} of the rows do not arrive themselves, but are in the lineage of "
            f"'{question.to.full_name}' as rows that a window read for others (peers)"
        )
