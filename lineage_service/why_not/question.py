"""A `why-not` question: rows of a dataset and an output, both of one run, with that run's plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.handles import Space, source_space
from lineage_service.capture.row_paths import contributing_nodes, merges_rows
from lineage_service.errors import NotFound, QuestionError, did_you_mean, join_names
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Node, Source
from lineage_service.plan.plan_rewriting import nodes_below, with_inputs
from lineage_service.query.questions import Questions
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.spec.redaction_markers import is_computable
from lineage_service.store.dataset_names import DatasetName, find_run
from lineage_service.store.layout import HomeLayout


@dataclass(frozen=True)
class WhyNotQuestion:
    """Asks whether rows of `source` are in the output `to`, both of one run.

    plan: the run's plan over the columns it read, including row masks
    target: the step of `to`
    start: its node in the plan
    others: further sources that hold the rows, or rows derived from them
    """

    run: CommittedRun
    source: DatasetRecord
    to: DatasetRecord
    plan: Plan
    others: tuple[DatasetRecord, ...] = ()

    @property
    def target(self) -> str:
        return self.to.space.name

    @property
    def start(self) -> str:
        """The step or source of the requested rows."""
        return self.source.space.name

    @property
    def starts(self) -> frozenset[str]:
        """The steps or sources that the rows start from."""
        return frozenset({self.start, *(each.space.name for each in self.others)})

    @property
    def spaces(self) -> frozenset[Space]:
        """The spaces of their rows in the evaluated plan. A kept step is read like a source there."""
        return frozenset(source_space(each) for each in self.starts)

    @property
    def on_the_way(self) -> list[str]:
        """The steps that are datasets, may contain the rows, and are upstream of the output; the output's step is
        last.
        """
        below = {node.id for node in nodes_below(self.plan.steps[self.target])}
        steps = dict.fromkeys((*self.plan.keep, *self.plan.outputs.values()))
        found = [
            step
            for step in steps
            if step in below and step not in {self.target, *self.starts} and self._carries(self.plan.steps[step])
        ]
        return [*found, self.target]

    @property
    def merging(self) -> list[str]:
        """The steps on the way that merge several rows into one."""
        found = [
            node.step
            for node in contributing_nodes(self.plan.steps[self.target])
            if merges_rows(node) and self._carries(node)
        ]
        return list(dict.fromkeys(reversed(found)))

    def _carries(self, node: Node) -> bool:
        return any(each.id in self.starts for each in contributing_nodes(node))


def resolve_question(home: HomeLayout, questions: Questions, source: str, to: str) -> WhyNotQuestion:
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
            f"'{found.full_name}' is a source: no step of this workflow makes it",
            hint="--to names an output or a kept step",
        )
    if run.capture == "query":
        raise QuestionError(f"'{found.full_name}' is a saved query, which has no steps")
    start = _start_in(questions, run, asked, source, found)
    return question_in_run(questions, run, start, found)


def question_in_run(
    questions: Questions,
    run: RunRecord,
    start: DatasetRecord,
    to: DatasetRecord,
    others: tuple[DatasetRecord, ...] = (),
) -> WhyNotQuestion:
    """A question about datasets of one run."""
    reader = questions.reader
    content = reader.content(run.id) or "{}"
    if not is_computable(content):
        raise QuestionError(
            f"a value in the text of run '{run.id}' was erased: its steps can no longer be evaluated as they were",
            hint="run the workflow again",
        )
    committed = questions.committed_run(run.id)
    plan = committed.plan_with_masks({each.space: questions.masks.of(each) for each in committed.datasets})
    return WhyNotQuestion(committed, start, to, plan, others)


def is_across_runs(questions: Questions, source: str, to: str) -> bool:
    """Whether the output's run did not read the rows under that name: other workflows are in between, or another source
    shares the rows.
    """
    asked, found = DatasetName.parse(source), questions.find(to)
    own = questions.graph.datasets(found.run_id)
    if asked.workflow in (None, found.workflow) and any(each.name == asked.name for each in own):
        return False
    elsewhere = questions.find(source)
    if found.role == "source" or elsewhere.workflow == found.workflow:
        return False
    return elsewhere.role == "source" or len(_read_in(own, elsewhere)) != 1


def _start_in(
    questions: Questions, run: RunRecord, dataset_name: DatasetName, source: str, to: DatasetRecord
) -> DatasetRecord:
    """The dataset with this name in the output's run."""
    datasets = questions.graph.datasets(run.id)
    if dataset_name.workflow in (None, run.workflow):
        match = next((each for each in datasets if each.name == dataset_name.name), None)
        if match is not None:
            return match
    elsewhere = questions.find(source)  # raises NotFound if there is no such dataset
    sources = [each for each in datasets if each.role == "source"]
    read = _read_in(datasets, elsewhere)
    if len(read) == 1 and elsewhere.role != "source":
        return read[0]  # another workflow's output, under the name that this workflow uses
    raise QuestionError(
        f"'{elsewhere.full_name}' is not read by workflow '{run.workflow}', of which '{to.full_name}' is; it reads: "
        f"{join_names([each.name for each in sources])}",
        hint=did_you_mean(dataset_name.name, [each.name for each in sources]),
    )


def _read_in(datasets: Sequence[DatasetRecord], elsewhere: DatasetRecord) -> list[DatasetRecord]:
    """The sources among these that read a dataset of another run."""
    return [each for each in datasets if each.role == "source" and each.version_id == elsewhere.version_id]


def refuse_unlinked(question: WhyNotQuestion) -> None:
    """Raises QuestionError if no step of the run leads from the rows to the output."""
    if question.target not in question.plan.steps:
        raise QuestionError(
            f"'{question.to.full_name}' holds rows that failed checks, and is no step that rows go through"
        )
    if question.start == question.target:
        raise QuestionError(f"'{question.source.full_name}' and '{question.to.full_name}' are the same rows")
    node = question.plan.steps[question.target]
    below = {each.id for each in nodes_below(node)}
    datasets = {each.space.name: each for each in question.run.reader.datasets(question.run.id)}
    names = [record.name for step, record in datasets.items() if step in below and step != question.target]
    if question.start not in below:
        raise QuestionError(
            f"'{question.to.full_name}' is not made from '{question.source.full_name}'; it is made from: "
            f"{join_names(names)}"
        )
    if question.start not in {each.id for each in contributing_nodes(node)}:
        raise QuestionError(
            f"no row of '{question.source.full_name}' can be in '{question.to.full_name}': it only influences it by "
            "the absence of a match",
            hint="forward --influence shows which rows are influenced",
        )


def cut_plan(question: WhyNotQuestion, paired: frozenset[str]) -> Plan:
    """The plan below the output. Datasets that cannot contain the requested rows are read like sources.

    `paired` are the steps on the way with known lineage. Their readers get the rows that the run wrote.
    """
    plan, done = question.plan, dict[str, Node]()
    datasets = {*plan.keep, *plan.outputs.values()}

    def cut_node(node: Node) -> Node:
        if node.id not in done:
            leads = any(each.id in question.starts for each in contributing_nodes(node))
            written = node.id in datasets and node.id != question.target and not leads
            if node.id in question.starts or written:
                done[node.id] = Source(node.id, node.step, node.position, node.schema)
            else:
                done[node.id] = with_inputs(node, [cut_node(below) for below in node.inputs])
        return done[node.id]

    nodes = nodes_below(cut_node(plan.steps[question.target]))
    sources = {each.step: each for each in nodes if isinstance(each, Source)}
    kept = [step for step in question.on_the_way if step in paired and step != question.target]
    return Plan(
        plan.workflow, sources, {each.id: each for each in nodes}, {question.to.name: question.target}, tuple(kept)
    )
