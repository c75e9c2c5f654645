"""Plan to instrumented plan: the handles and tables of each node, which nodes are materialised, and the strategy of
each breaker.

The result is a value, which can be printed (plan_text.py) and tested without Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from lineage_service.capture.breaker_survey import dataset_steps, survey_breakers
from lineage_service.capture.declared_workload import declared_questions
from lineage_service.capture.direct_indexing import DirectLookup
from lineage_service.capture.estimate import Sizes
from lineage_service.capture.handles import Handle, Space, Table, source_space, step_space
from lineage_service.capture.row_id_demand import sources_needing_row_ids
from lineage_service.capture.rules import InputHandles, LineageRule, rule_for
from lineage_service.capture.strategies import (
    LATER,
    PRUNED,
    Choice,
    choose_strategy,
    is_staged_instead,
    refusal,
    refusals,
)
from lineage_service.capture.workload import Workload, links_of, neighbours
from lineage_service.errors import Problem
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


@dataclass(frozen=True)
class Materialisation:
    """Why the rows of a node are written once and read from there: it is a dataset, or several readers must see the
    same rows.
    """

    kind: Literal["dataset", "fan-out"]
    reason: str


@dataclass(frozen=True)
class InstrumentedNode:
    """A plan node with its capture.

    carried: handles of the operator's rows
    tables: the lineage tables that it leaves
    handles: handles that readers see; for a dataset, its own row ids
    choice: the strategy, if it is a breaker
    materialised: whether and why its rows are written before they are read
    read: whether any node reads its rows
    carrier: for a breaker, the dataset whose rows are its groups, each at most once
    direct: how the rows of that dataset are looked up in sources
    """

    node: Node
    inputs: tuple[InstrumentedNode, ...]
    carried: tuple[Handle, ...]
    once: tuple[bool, ...]
    tables: tuple[Table, ...]
    choice: Choice | None
    materialised: Materialisation | None
    read: bool = True
    carrier: str | None = None
    direct: DirectLookup | None = None

    @property
    def label_below(self) -> str:
        """The label of the materialised input rows of this node."""
        return f"{self.node.id}:below"

    @property
    def is_dataset(self) -> bool:
        return self.materialised is not None and self.materialised.kind == "dataset"

    @property
    def handles(self) -> tuple[Handle, ...]:
        if self.is_dataset and self.carried:
            return (Handle(step_space(self.node.step)),)
        return self.carried

    @property
    def below(self) -> InputHandles:
        """This node as an input of the rules of its readers."""
        once = (True,) if self.is_dataset and self.carried else self.once
        return InputHandles(self.handles, once, self.whole)

    @property
    def whole(self) -> Space | None:
        """The dataset of which these are exactly all rows; otherwise None."""
        if isinstance(self.node, Source):
            return source_space(self.node.step)
        return step_space(self.node.step) if self.is_dataset else None

    @property
    def is_direct(self) -> bool:
        return self.direct is not None and self.choice is not None and self.choice.strategy in LATER


@dataclass(frozen=True)
class InstrumentedPlan:
    """All nodes, inputs before readers, and the requested capture. `plan` may be without inferred semi joins that are
    among the nodes: these change nothing in its datasets.
    """

    plan: Plan
    capture: str
    nodes: tuple[InstrumentedNode, ...]

    @property
    def workload(self) -> Workload:
        """The declared questions; none if capture is off."""
        if self.capture == "off":
            return Workload()
        return Workload(declared_questions(self.plan.workload, self.plan.outputs, self.plan.sources))

    @property
    def unreached_sources(self) -> frozenset[str]:
        """The sources that no declared question reaches. Their rows need no ids."""
        needed = self.workload.needed_spaces(links_of(self.tables()))
        if needed is None:
            return frozenset()
        return frozenset(name for name in self.plan.sources if source_space(name) not in needed)

    def is_pruned(self, upper: Space, lower: Space) -> bool:
        """Whether no declared question uses the path between two datasets."""
        followed = self.workload.needed_hops(neighbours(links_of(self.tables())))
        if followed is None:
            return False
        seen, pending = {upper}, [upper]
        while pending:
            space = pending.pop()
            new = {below for above, below in followed if above == space} - seen
            seen |= new
            pending += new
        return lower not in seen

    @property
    def datasets(self) -> tuple[InstrumentedNode, ...]:
        return tuple(each for each in self.nodes if each.is_dataset)

    @property
    def sources_read_with_ids(self) -> frozenset[str]:
        """The sources whose rids are read during the write. Those of all other sources are read later, if at all."""
        return sources_needing_row_ids(self.nodes, self.plan.checked) - self.unreached_sources

    def tables(self) -> tuple[Table, ...]:
        """All lineage tables of the run, of datasets and breakers."""
        of_datasets = [Table(step_space(each.node.step), each.carried) for each in self.datasets if each.carried]
        return (*of_datasets, *(table for each in self.nodes for table in each.tables))


def instrument(
    plan: Plan,
    capture: str,
    sizes: Sizes | None = None,
    chosen: Mapping[str, Choice] | None = None,
    *,
    by_partition: bool = False,
) -> InstrumentedPlan:
    """The instrumented plan.

    sizes: the sizes by which `auto` chooses
    chosen: strategies that were chosen before
    by_partition: capture windows by partition, as an earlier version did
    """
    found = _instrument_once(plan, capture, sizes, chosen, by_partition)
    pruned = _pruned_breakers(found)
    return _instrument_once(plan, capture, sizes, {**(chosen or {}), **pruned}, by_partition) if pruned else found


def _pruned_breakers(instrumented_plan: InstrumentedPlan) -> dict[str, Choice]:
    """A choice for each breaker that no declared question passes: its members are not captured."""
    needed = instrumented_plan.workload.needed_spaces(links_of(instrumented_plan.tables()))
    if needed is None:
        return {}
    pruned = Choice("lazy", PRUNED)
    return {
        each.node.id: pruned
        for each in instrumented_plan.nodes
        if each.choice is not None
        and not any(table.space in needed for table in each.tables)
        and not (isinstance(each.node, Join) and each.node.equi_condition is None)
    }


def _instrument_once(
    plan: Plan,
    capture: str,
    sizes: Sizes | None,
    chosen: Mapping[str, Choice] | None,
    by_partition: bool = False,
) -> InstrumentedPlan:
    nodes = plan.nodes()
    surveyed = {} if capture == "off" else survey_breakers(plan, nodes, sizes or Sizes(), by_partition)
    choices = {
        node_id: (chosen or {}).get(node_id) or choose_strategy(each.breaker, capture)
        for node_id, each in surveyed.items()
    }
    readers = _reader_counts(nodes, choices)
    readers.update(plan.checked)
    datasets = dataset_steps(plan)
    done: dict[str, InstrumentedNode] = {}
    for node in nodes:
        inputs = tuple(done[below.id] for below in node.inputs)
        below = tuple(each.below for each in inputs)
        rule = LineageRule((), ()) if capture == "off" else rule_for(node, below, by_partition=by_partition)
        found = surveyed.get(node.id)
        done[node.id] = InstrumentedNode(
            node,
            inputs,
            rule.handles,
            rule.once,
            rule.tables,
            choices[node.id] if found else None,
            _materialisation(node, datasets, readers[node.id]),
            readers[node.id] > 0,
            found.carrier if found else None,
            found.direct if found else None,
        )
    return InstrumentedPlan(plan, capture, tuple(done.values()))


def instrument_for_rereading(
    plan: Plan, reason: str, sizes: Sizes, chosen: Mapping[str, Choice] | None = None
) -> InstrumentedPlan:
    """The plan with capture deferred for everything that can be read again. Used after a capture failed."""
    found = instrument(plan, "defer", sizes)
    again = {each.node.id: replace(each.choice, reason=reason) for each in found.nodes if each.choice}
    return instrument(plan, "defer", sizes, {**again, **(chosen or {})})


def capture_problems(plan: Plan, capture: str, sizes: Sizes | None = None) -> list[Problem]:
    """A problem for each breaker for which the requested strategy would be unsound or dangerous."""
    if capture in ("auto", "off"):
        return []
    surveyed = survey_breakers(plan, plan.nodes(), sizes or Sizes())
    pruned = _pruned_breakers(_instrument_once(plan, capture, sizes, None))
    found = refusals([each.breaker for name, each in surveyed.items() if name not in pruned], capture)
    return [forced_problem(node, capture, reason) for node, reason in found]


def capture_warnings(plan: Plan, capture: str) -> list[Problem]:
    """A warning for each breaker that is captured by another strategy than the requested one."""
    if capture not in LATER:
        return []
    surveyed = survey_breakers(plan, plan.nodes(), Sizes())
    pruned = _pruned_breakers(_instrument_once(plan, capture, None, None))
    breakers = [each.breaker for name, each in surveyed.items() if name not in pruned]
    return [
        Problem(
            f"step '{each.node.step}' is captured by stage, not by {capture}: {refusal(each, capture)}",
            each.node.position,
            severity="warning",
        )
        for each in breakers
        if is_staged_instead(each, capture)
    ]


def forced_problem(node: Node, capture: str, reason: str) -> Problem:
    """The problem of a requested strategy that is refused."""
    hint = "use auto, which chooses a strategy for each step"
    return Problem(f"step '{node.step}' cannot be captured by {capture}: {reason}", node.position, hint)


def _reader_counts(nodes: list[Node], choices: Mapping[str, Choice]) -> Counter[str]:
    """How often the rows of each node are read. An anti join, and a left join with absence, reads its right side twice,
    for matches and for ids; so does a difference that is not staged.
    """
    readers: Counter[str] = Counter()
    for node in nodes:
        readers.update(below.id for below in node.inputs)
        if node.id not in choices:
            continue
        if isinstance(node, Join) and (node.how == "anti" or node.absence):
            readers[node.right.id] += 1
        if isinstance(node, Difference) and choices[node.id].strategy != "stage":
            readers[node.right.id] += 1
    return readers


def _materialisation(node: Node, datasets: set[str], readers: int) -> Materialisation | None:
    if node.id in datasets and not isinstance(node, Source):
        return Materialisation("dataset", "an output, or kept")
    if readers < 2 or is_cheap_to_recompute(node):
        return None
    reason = "expensive to compute again" if node.repeatable else "may differ when computed again"
    return Materialisation("fan-out", f"read {readers} times and {reason}")


def is_cheap_to_recompute(node: Node) -> bool:
    """Whether the node can be computed again by a scan, with the same rows."""
    match node:
        case Source():
            return True
        case Filter() | Project() | WithColumns() | Sort():
            return node.repeatable and is_cheap_to_recompute(node.input)
        case Aggregate() | Distinct() | Join() | Union() | Intersect() | Difference() | Window() | Limit() | Explode():
            return False
        case _:
            assert_never(node)
