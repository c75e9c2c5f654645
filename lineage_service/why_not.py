"""`why-not`: where rows of a dataset are lost on their way to an output, and why.

Which of them arrive is known from the index. Of those that do not, the run's plan is evaluated once more by Spark,
over what the run read and wrote, and the rows are followed from step to step.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.handles import Role, Space, source_space
from lineage_service.capture.ways import contributes, merges
from lineage_service.errors import NotFound, QuestionError, did_you_mean, listed
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.nodes import Node
from lineage_service.plan.schema import Column, Schema
from lineage_service.progress import Stages
from lineage_service.query.ask import Questions
from lineage_service.query.graph import Place, walk
from lineage_service.query.lost import Arrival, WhyNot
from lineage_service.query.names import DatasetName, find_run
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start
from lineage_service.reindex import versions_of
from lineage_service.settings import command
from lineage_service.spec.loader import LoadedWorkflow, loaded_again
from lineage_service.store.layout import HomeLayout, new_run_id
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.evaluated import Evaluated

SHOWN = 10  # row ids that are shown of each reason, and rows that arrive
OWN = int(Role.OWN)


@dataclass(frozen=True)
class Asked:
    """A question: rows of `source` that may or may not be in the output `to`, both of one run.

    plan: the run's, over the columns that it read · target: the step that `to` shows · start: its node in the plan
    versions: what the run read and wrote, by space
    """

    home: HomeLayout
    reader: CatalogReader
    run: RunRecord
    source: DatasetRecord
    to: DatasetRecord
    loaded: LoadedWorkflow
    plan: Plan
    versions: Mapping[str, Version]

    @property
    def target(self) -> str:
        return self.to.space.removeprefix("step:")

    @property
    def start(self) -> str:
        """The step or source whose rows are asked for."""
        return self.source.space.partition(":")[2]

    @property
    def space(self) -> Space:
        """The space of its rows in the plan that is evaluated: a kept step is read like a source there."""
        return source_space(self.start)

    @property
    def on_the_way(self) -> list[str]:
        """Steps that are datasets, that the rows may be in, and that the output is made from; itself at the end."""
        below = {node.id for node in nodes_below(self.plan.steps[self.target])}
        steps = dict.fromkeys((*self.plan.keep, *self.plan.outputs.values()))
        found = [
            step
            for step in steps
            if step in below and step not in (self.target, self.start) and self._carries(self.plan.steps[step])
        ]
        return [*found, self.target]

    @property
    def merging(self) -> list[str]:
        """Steps on the way that make one row of several."""
        found = [node.step for node in contributing(self.plan.steps[self.target]) if merges(node) and self._carries(node)]
        return list(dict.fromkeys(reversed(found)))

    def _carries(self, node: Node) -> bool:
        return any(each.id == self.start for each in contributing(node))


def nodes_below(node: Node) -> list[Node]:
    """All nodes that a node is made from, itself among them."""
    found: dict[str, Node] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.id not in found:
            found[each.id] = each
            stack += each.inputs
    return list(found.values())


def contributing(node: Node) -> list[Node]:
    """Those of the nodes below whose rows contribute, and do not merely influence by absence."""
    found: dict[str, Node] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.id not in found:
            found[each.id] = each
            stack += [below for place, below in enumerate(each.inputs) if contributes(each, place)]
    return list(found.values())


def why_not(
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
    """Where the rows that a selection takes of a dataset are lost on their way to an output."""
    if not selection.given:
        raise QuestionError("say which rows to start from: rid, key, where or all")
    asked = _understood(home, questions, source, to)
    start = questions.start(asked.source, selection)
    with _tables(questions) as tables:
        rows = tables.keep(*start.relation(questions.scan(asked.source).all_rids()))
        total = questions.engine.scalar(f"SELECT count(*) FROM {rows}")
        answer = WhyNot(asked.source.full_name, asked.to.full_name, asked.run.id, total, 0, 0, 0, [], [], asked.merging)
        if not total:
            answer.notes.append(f"no row of '{asked.source.full_name}' matches")
            return answer
        pairs = {step: table for step in asked.on_the_way if (table := _pairs(asked, questions, tables, start, rows, step))}
        if asked.target in pairs:
            _count_arrivals(answer, questions, pairs[asked.target])
        if asked.target not in pairs or answer.reached < total:
            _follow(answer, asked, questions, tables, rows, pairs, stages, limit, rids)
        else:
            answer.notes.append("all of them arrive, as the index tells: no step had to be evaluated again")
        if asked.target in pairs:
            shown = SHOWN if limit is None else limit
            answer.arrivals = _arrivals(asked, questions, pairs[asked.target], shown)
        else:
            answer.notes.append(_unknown_arrivals(asked))
    return answer


# --- names --------------------------------------------------------------------------------------------------------


def _understood(home: HomeLayout, questions: Questions, source: str, to: str) -> Asked:
    reader, asked, target = questions.reader, DatasetName.parse(source), DatasetName.parse(to)
    if asked.run is not None and target.run is None:
        run_id = find_run(reader, asked.run, str(home.path)).id
        found = questions.find(f"{to}@{run_id}")
    else:
        found = questions.find(to)
    run = reader.run(found.run_id)
    if run is None:
        raise NotFound(f"run '{found.run_id}' is not in the catalog of '{home.path}'")
    if asked.run is not None and find_run(reader, asked.run, str(home.path)).id != run.id:
        raise QuestionError(f"'{source}' and '{to}' are of two runs", hint="name one run, behind either of them")
    if found.role == "source":
        raise QuestionError(
            f"'{found.full_name}' is a source: nothing of this workflow leads to it",
            hint="--to names an output or a kept step",
        )
    if run.capture == "query":
        raise QuestionError(f"'{found.full_name}' is a saved query, which has no steps")
    start = _start_in(questions, run, asked, source, found)
    loaded = loaded_again(reader.content(run.id) or "{}", f"run {run.id}")
    versions = versions_of(reader, run.id)
    schemas = {
        space.removeprefix("source:"): Schema(tuple(Column(each.name, each.type) for each in version.columns))
        for space, version in versions.items()
        if space.startswith("source:")
    }
    plan = build_plan(loaded, schemas)
    understood = Asked(home, reader, run, start, found, loaded, plan, versions)
    _refuse_unlinked(understood)
    return understood


def _start_in(
    questions: Questions, run: RunRecord, asked: DatasetName, source: str, to: DatasetRecord
) -> DatasetRecord:
    """The dataset of that name in the output's own run."""
    datasets = questions.graph.datasets(run.id)
    if asked.workflow in (None, run.workflow):
        match = next((each for each in datasets if each.name == asked.name), None)
        if match is not None:
            return match
    elsewhere = questions.find(source)  # says so where there is no such dataset at all
    sources = [each.name for each in datasets if each.role == "source"]
    raise QuestionError(
        f"'{elsewhere.full_name}' is not read by workflow '{run.workflow}', of which '{to.full_name}' is; it reads: "
        f"{listed(sources)}",
        hint=did_you_mean(asked.name, sources) or "ask workflow by workflow, up to the output that the next one reads",
    )


def _refuse_unlinked(asked: Asked) -> None:
    if asked.target not in asked.plan.steps:
        raise QuestionError(f"'{asked.to.full_name}' holds rows that failed checks, and is no step that rows go through")
    if asked.start == asked.target:
        raise QuestionError(f"'{asked.source.full_name}' and '{asked.to.full_name}' are the same rows")
    node = asked.plan.steps[asked.target]
    below = {each.id for each in nodes_below(node)}
    datasets = {each.space.partition(":")[2]: each for each in asked.reader.datasets(asked.run.id)}
    names = [record.name for step, record in datasets.items() if step in below and step != asked.target]
    if asked.start not in below:
        raise QuestionError(
            f"'{asked.to.full_name}' is not made from '{asked.source.full_name}'; it is made from: {listed(names)}"
        )
    if asked.start not in {each.id for each in contributing(node)}:
        raise QuestionError(
            f"no row of '{asked.source.full_name}' can be in '{asked.to.full_name}': it only influences it by the "
            "absence of a match",
            hint="forward --influence tells which rows that concerns",
        )


# --- what the index knows -------------------------------------------------------------------------------------------


@dataclass
class _Tables:
    """Tables of one question in the engine; they go with it."""

    questions: Questions
    names: list[str] = field(default_factory=list)

    def keep(self, query: str, parameters: list[object] | None = None) -> str:
        self.names.append(self.questions.engine.keep(query, parameters or ()))
        return self.names[-1]


@contextmanager
def _tables(questions: Questions) -> Iterator[_Tables]:
    tables = _Tables(questions)
    try:
        yield tables
    finally:
        for name in tables.names:
            questions.engine.drop(name)


def _pairs(
    asked: Asked, questions: Questions, tables: _Tables, start: Start, rows: str, step: str
) -> str | None:
    """A table (rid, id, role) of the rows asked for and the rows of a step they are in; None where it was not kept."""
    begin, end = Place(asked.run.id, asked.source.space), Place(asked.run.id, f"step:{step}")
    ways = walk(questions.graph, begin, "forward", links=False).toward(end, absence=False)
    if ways:
        sql = questions.walk_sql(ways, start, begin, end, "forward")
        return tables.keep(f"SELECT a AS rid, b AS id, role FROM ({sql.text})", sql.parameters)
    ways = walk(questions.graph, end, "backward", links=False).toward(begin, absence=False)
    if ways:
        sql = questions.walk_sql(ways, Start(), end, begin, "backward")
        return tables.keep(
            f"SELECT b AS rid, a AS id, role FROM ({sql.text}) WHERE b IN (SELECT b FROM {rows})", sql.parameters
        )
    return None


def _count_arrivals(answer: WhyNot, questions: Questions, pairs: str) -> None:
    best = f"(SELECT rid, min(role) AS role FROM {pairs} GROUP BY rid)"
    answer.reached = questions.engine.scalar(f"SELECT count(*) FROM {best} WHERE role = {OWN}")
    answer.peers = questions.engine.scalar(f"SELECT count(*) FROM {best} WHERE role <> {OWN}")
    answer.lost = answer.asked - answer.reached - answer.peers


def _arrivals(asked: Asked, questions: Questions, pairs: str, shown: int) -> list[Arrival]:
    """The first rows that arrive, with the rows that they are in and how many they share the first of them with."""
    engine = questions.engine
    found = engine.rows(
        f"SELECT rid, list(id ORDER BY id)[1:{shown}], count(*) FROM {pairs} WHERE role = {OWN} GROUP BY rid "
        f"ORDER BY rid LIMIT {shown}"
    )
    firsts = tuple(sorted({into[0] for _, into, _ in found}))
    others = _members(asked, questions, firsts) if firsts else {}
    return [
        Arrival(rid, tuple(into), total - len(into), others.get(into[0], 1) - 1) for rid, into, total in found
    ]


def _members(asked: Asked, questions: Questions, ids: tuple[int, ...]) -> dict[int, int]:
    """How many rows of the dataset asked for are in each of these rows of the output, as themselves."""
    begin, end = Place(asked.run.id, asked.source.space), Place(asked.run.id, asked.to.space)
    ways = walk(questions.graph, end, "backward", links=False).toward(begin, absence=False)
    if ways:
        sql = questions.walk_sql(ways, Start(rids=ids), end, begin, "backward")
        counted = f"SELECT a, count(*) FROM ({sql.text}) WHERE role = {OWN} GROUP BY a"
    else:
        ways = walk(questions.graph, begin, "forward", links=False).toward(end, absence=False)
        sql = questions.walk_sql(ways, Start(), begin, end, "forward")
        wanted = ", ".join(map(str, ids))
        counted = f"SELECT b, count(*) FROM ({sql.text}) WHERE role = {OWN} AND b IN ({wanted}) GROUP BY b"
    table = questions.engine.keep(counted, sql.parameters)
    try:
        return {int(row[0]): int(row[1]) for row in questions.engine.rows(f"SELECT * FROM {table}")}
    finally:
        questions.engine.drop(table)


def _unknown_arrivals(asked: Asked) -> str:
    """Why nothing is said of the output's own rows."""
    if asked.run.capture == "off":
        return f"run '{asked.run.id}' was made with capture off: which rows of '{asked.to.name}' they are in is not known"
    from lineage_service.capture.workload import line_to_add

    return (
        f"which rows of '{asked.to.name}' they are in was pruned; to keep it, add to `lineage: workload:`  "
        f"{line_to_add('forward', asked.source.name, asked.to.name)}"
    )


# --- what has to be evaluated ---------------------------------------------------------------------------------------


def _follow(
    answer: WhyNot,
    asked: Asked,
    questions: Questions,
    tables: _Tables,
    rows: str,
    pairs: Mapping[str, str],
    stages: Stages,
    limit: int | None,
    rids: bool,
) -> None:
    """Follows the rows from step to step, and fills in where they are lost."""
    from lineage_service.evaluated import evaluated

    answer.spark = True
    folder = asked.home.spill / f"asked-{new_run_id()}"
    folder.mkdir(parents=True)
    try:
        found = evaluated(asked, questions.engine, rows, pairs, folder, stages)
        tables.names += found.tables
        _tell(answer, asked, questions, pairs, found, SHOWN if limit is None else limit)
        if rids:
            answer.rows = found.listed(limit)
            answer.remaining = answer.asked - answer.reached - answer.rows.num_rows
        answer.notes.append(f"Spark has evaluated steps of run '{asked.run.id}' again for this")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(
    answer: WhyNot,
    asked: Asked,
    questions: Questions,
    pairs: Mapping[str, str],
    found: Evaluated,
    limit: int,
) -> None:
    if asked.target in pairs:
        arrived = f"(SELECT DISTINCT rid FROM {pairs[asked.target]} WHERE role = {OWN})"
    else:
        arrived = found.arrived()
        answer.reached = questions.engine.scalar(f"SELECT count(*) FROM {arrived}")
        answer.peers = found.peers()
        answer.lost = answer.asked - answer.reached - answer.peers
    answer.steps = found.told(arrived, limit)
    if answer.peers:
        answer.notes.append(
            f"{answer.peers:,} of the rows are lost as themselves, but are still in the lineage of "
            f"'{asked.to.full_name}' as rows of a window's partition (peers)"
        )
