"""`why-not`: where rows of a dataset are lost on their way to an output, and why.

Which of them arrive is known from the index. Of those that do not, the run's plan is evaluated once more by Spark,
over what the run read and wrote, and the rows are followed from step to step.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role
from lineage_service.capture.workload import workload_entry
from lineage_service.progress import Stages
from lineage_service.query.lineage_graph import Direction, Place, Way, is_pruned, walk
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start, has_intervals, own_ways, reverse_ways
from lineage_service.store.layout import new_run_id, translate_disk_errors
from lineage_service.why_not.question import WhyNotQuestion, refuse_unlinked
from lineage_service.why_not.why_not_result import Arrival, WhyNot

if TYPE_CHECKING:
    from lineage_service.why_not.run_evaluation import RunEvaluation

SHOWN = 10  # row ids that are shown of each reason, and rows that arrive
OWN = int(Role.OWN)


def why_not_within_run(
    asked: WhyNotQuestion,
    questions: Questions,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None = None,
    rids: bool = False,
) -> WhyNot:
    """Where rows are lost inside one run, on their way to one of its outputs."""
    refuse_unlinked(asked)
    start = questions.start(asked.source, selection)
    with question_tables(questions) as tables:
        rows = tables.keep(*start.relation(questions.scan(asked.source).all_rids()))
        total = questions.engine.scalar(f"SELECT count(*) FROM {rows}")
        answer = WhyNot(asked.source.full_name, asked.to.full_name, asked.run.id, total, 0, 0, 0, [], [], asked.merging)
        if not total:
            answer.notes.append(f"no row of '{asked.source.full_name}' matches")
            return answer
        found = _arrived_at_step(asked, questions, tables, start, rows, asked.target, peers=False)
        # Where the output's own lineage was not kept, peers are told from that of the datasets before it.
        known = {
            step: _arrived_at_step(asked, questions, tables, start, rows, step, peers=found is None)
            for step in asked.on_the_way
            if step != asked.target
        }
        known[asked.target] = found
        pairs = {step: each.pairs for step, each in known.items() if each is not None}
        if found is not None:
            count_arrivals(answer, questions, found)
        if asked.target not in pairs or answer.reached < total:
            _evaluate_losses(answer, asked, questions, tables, rows, pairs, stages, limit, rids, selection.reveal)
        else:
            answer.notes.append("all of them arrive, as the index tells: no step had to be evaluated again")
        if asked.target in pairs:
            shown = SHOWN if limit is None else limit
            answer.arrivals = _arrivals(asked, questions, pairs[asked.target], shown)
        else:
            answer.notes.append(unknown_arrivals(asked.run.reader, asked.source, asked.to))
    return answer


# --- what the index knows -------------------------------------------------------------------------------------------


@dataclass
class QuestionTables:
    """Tables of one question in the engine; they go with it."""

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
    """Where rows come to. pairs: a table (rid, id, role); where `reached` is given, a table of all rids that come
    there, pairs are those of rows that come as themselves: a window's peers are not multiplied out."""

    pairs: str
    reached: str | None = None


def find_arrived_rows(
    questions: Questions, tables: QuestionTables, ways: Sequence[Way], start: Start, rows: str, *, peers: bool
) -> ArrivedRows:
    """The rows asked for, at the end of ways ahead. With `peers` also the pairs of rows that a window read."""
    begin, end = ways[0].start, ways[-1].end
    if peers or not has_intervals(ways) or any(way.hop is not None and way.hop.form == "lazy" for way in ways):
        sql = questions.walk_sql(ways, start, begin, end, "forward")
        return ArrivedRows(tables.keep(f"SELECT a AS rid, b AS id, role FROM ({sql.text})", sql.parameters))
    sql = questions.walk_sql(own_ways(ways), start, begin, end, "forward")
    pairs = tables.keep(f"SELECT a AS rid, b AS id, role FROM ({sql.text})", sql.parameters)
    sql = questions.walk_sql(reverse_ways(ways), Start(), end, begin, "backward", pairs=False)
    reached = f"SELECT DISTINCT b AS rid FROM ({sql.text}) WHERE b IN (SELECT b FROM {rows})"
    return ArrivedRows(pairs, tables.keep(reached, sql.parameters))


def _arrived_at_step(
    asked: WhyNotQuestion,
    questions: Questions,
    tables: QuestionTables,
    start: Start,
    rows: str,
    step: str,
    *,
    peers: bool,
) -> ArrivedRows | None:
    """The rows asked for in the rows of a step; None where it was not kept."""
    begin, end = Place(asked.run.id, asked.source.space), Place(asked.run.id, f"step:{step}")
    ways = walk(questions.graph, begin, "forward", links=False, pruned=True).ways_toward(end, absence=False)
    kept = direction_kept(ways) if ways else None
    if kept == "backward":
        ways = reverse_ways(walk(questions.graph, end, "backward", links=False).ways_toward(begin, absence=False))
    return find_arrived_rows(questions, tables, ways, start, rows, peers=peers) if kept is not None else None


def direction_kept(ways: Sequence[Way], *, first: Direction = "forward") -> Direction | None:
    """The direction in which all of these ways were kept, `first` where both were; None where some are missing."""
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


def _arrivals(asked: WhyNotQuestion, questions: Questions, pairs: str, shown: int) -> list[Arrival]:
    """The first rows that arrive, with the rows that they are in and how many they share the first of them with."""
    engine = questions.engine
    found = engine.rows(
        f"SELECT rid, list(id ORDER BY id)[1:{shown}], count(*) FROM {pairs} WHERE role = {OWN} GROUP BY rid "
        f"ORDER BY rid LIMIT {shown}"
    )
    firsts = tuple(sorted({into[0] for _, into, _ in found}))
    others = _count_members(asked, questions, firsts) if firsts else {}
    return [Arrival(rid, tuple(into), total - len(into), others.get(into[0], 1) - 1) for rid, into, total in found]


def _count_members(asked: WhyNotQuestion, questions: Questions, ids: tuple[int, ...]) -> dict[int, int]:
    """How many rows of the dataset asked for are in each of these rows of the output, as themselves."""
    begin, end = Place(asked.run.id, asked.source.space), Place(asked.run.id, asked.to.space)
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
    """Why nothing is said of the output's own rows."""
    run = reader.run(to.run_id)
    if run is not None and run.capture == "off":
        return f"run '{run.id}' was made with capture off: which rows of '{to.name}' they are in is not known"
    return (
        f"which rows of '{to.name}' they are in was pruned; to keep it, add to `lineage: workload:`  "
        f"{workload_entry('forward', source.name, to.name)}"
    )


# --- what has to be evaluated ---------------------------------------------------------------------------------------


def _evaluate_losses(
    answer: WhyNot,
    asked: WhyNotQuestion,
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
    folder = asked.run.home.spill / f"asked-{new_run_id()}"
    with translate_disk_errors(asked.run.home.path):
        folder.mkdir(parents=True)
    try:
        found = evaluate_run(asked, questions.engine, rows, pairs, folder, stages, tables.names, reveal=reveal)
        _fill_losses(answer, asked, questions, pairs, found, SHOWN if limit is None else limit)
        if rids:
            answer.rows = found.lost_rows_with_reasons(limit)
            answer.remaining = answer.asked - answer.reached - answer.rows.num_rows
        answer.notes += found.notes
        if found.marked and reveal:
            questions.masks.note_revealed(asked.source)
        elif found.marked:
            questions.masks.note_hidden(found.marked)
        answer.notes.append(f"Spark has evaluated steps of run '{asked.run.id}' again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill_losses(
    answer: WhyNot,
    asked: WhyNotQuestion,
    questions: Questions,
    pairs: Mapping[str, str],
    found: RunEvaluation,
    limit: int,
) -> None:
    if asked.target in pairs:
        arrived = f"(SELECT DISTINCT rid FROM {pairs[asked.target]} WHERE role = {OWN})"
    else:
        arrived = found.arrived_rids()
        answer.reached = questions.engine.scalar(f"SELECT count(*) FROM {arrived}")
        answer.peers = found.count_peers()
        answer.lost = answer.asked - answer.reached - answer.peers
    answer.steps = found.step_losses(arrived, limit)
    if answer.peers:
        answer.notes.append(
            f"{answer.peers:,} of the rows are lost as themselves, but are still in the lineage of "
            f"'{asked.to.full_name}' as rows that a window read for others (peers)"
        )
