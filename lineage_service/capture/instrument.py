"""Plan to instrumented plan: handles and tables per node, what is written once, which strategy per breaker.

The result is a value: it can be printed (describe) and tested without Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from lineage_service.capture.declared_workload import declared_questions
from lineage_service.capture.direct_indexing import DirectLookup, find_direct_lookup
from lineage_service.capture.estimate import Estimate, Sizes, estimate_rows
from lineage_service.capture.handles import Handle, Space, Table, source_space, step_space
from lineage_service.capture.row_id_demand import sources_needing_row_ids
from lineage_service.capture.rules import InputHandles, LineageRule, rule_for
from lineage_service.capture.stability import WRITTEN, Stability, stability, unstable_members_reason
from lineage_service.capture.strategies import (
    LATER,
    PRUNED,
    Breaker,
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
    Difference,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Sort,
    Source,
    WithColumns,
)


@dataclass(frozen=True)
class Materialisation:
    """Why a node's rows are written once and read from there: a dataset, or a fan-out that must agree."""

    kind: Literal["dataset", "fan-out"]
    reason: str


@dataclass(frozen=True)
class InstrumentedNode:
    """A plan node with what capture adds to it.

    carried: handles of the rows as the operator gives them · tables: what it leaves behind
    handles: what readers see; a dataset's readers see its own row ids · choice: of a breaker
    materialised: whether and why its rows are written before anybody reads them · read: whether anybody does
    carrier: of a breaker, the dataset whose rows are its groups, each at most once · direct: how that dataset's rows
    are found in the source
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
        """The name of a copy of the rows that the node reads, not of those it gives."""
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
        """As the rules of its readers see it."""
        once = (True,) if self.is_dataset and self.carried else self.once
        return InputHandles(self.handles, once, self.whole)

    @property
    def whole(self) -> Space | None:
        """The dataset whose rows these are, all of them and nothing else."""
        if isinstance(self.node, Source):
            return source_space(self.node.step)
        return step_space(self.node.step) if self.is_dataset else None

    @property
    def is_direct(self) -> bool:
        return self.direct is not None and self.choice is not None and self.choice.strategy in LATER


@dataclass(frozen=True)
class InstrumentedPlan:
    """All nodes, inputs before readers, and what capture was asked for."""

    plan: Plan
    capture: str
    nodes: tuple[InstrumentedNode, ...]

    @property
    def workload(self) -> Workload:
        """The questions that were declared; nothing is captured for them where capture is off."""
        if self.capture == "off":
            return Workload()
        return Workload(declared_questions(self.plan.workload, self.plan.outputs, self.plan.sources))

    @property
    def unreached_sources(self) -> frozenset[str]:
        """The sources that no declared question reaches: their rows need no ids."""
        needed = self.workload.needed_spaces(links_of(self.tables()))
        if needed is None:
            return frozenset()
        return frozenset(name for name in self.plan.sources if source_space(name) not in needed)

    def is_pruned(self, upper: Space, lower: Space) -> bool:
        """Whether no declared question follows the way between two datasets."""
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
        """The sources whose rids are read while rows are written; of all others they are only read again."""
        return sources_needing_row_ids(self.nodes, self.plan.checked) - self.unreached_sources

    def tables(self) -> tuple[Table, ...]:
        """Every lineage table of the run: of datasets and of breakers."""
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
    """The plan with capture in it. `sizes` are what `auto` goes by; `chosen` are choices that were made before;
    `by_partition`: windows as an earlier version captured them."""
    found = _instrument_once(plan, capture, sizes, chosen, by_partition)
    pruned = _pruned_breakers(found)
    return _instrument_once(plan, capture, sizes, {**(chosen or {}), **pruned}, by_partition) if pruned else found


def _pruned_breakers(found: InstrumentedPlan) -> dict[str, Choice]:
    """Breakers that no declared question passes: nobody will ask for their members, so that none are kept."""
    needed = found.workload.needed_spaces(links_of(found.tables()))
    if needed is None:
        return {}
    pruned = Choice("lazy", PRUNED)
    return {
        each.node.id: pruned
        for each in found.nodes
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
    surveyed = {} if capture == "off" else _survey(plan, nodes, sizes or Sizes(), by_partition)
    choices = {
        node_id: (chosen or {}).get(node_id) or choose_strategy(each.breaker, capture)
        for node_id, each in surveyed.items()
    }
    readers = _reader_counts(nodes, choices)
    readers.update(plan.checked)
    datasets = _datasets(plan)
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
    """The plan with nothing captured on the way that can be read again: what is done where capture has failed."""
    found = instrument(plan, "defer", sizes)
    again = {each.node.id: replace(each.choice, reason=reason) for each in found.nodes if each.choice}
    return instrument(plan, "defer", sizes, {**again, **(chosen or {})})


def capture_problems(plan: Plan, capture: str, sizes: Sizes | None = None) -> list[Problem]:
    """The breakers for which a forced strategy would be unsound or dangerous."""
    if capture in ("auto", "off"):
        return []
    surveyed = _survey(plan, plan.nodes(), sizes or Sizes())
    pruned = _pruned_breakers(_instrument_once(plan, capture, sizes, None))
    found = refusals([each.breaker for name, each in surveyed.items() if name not in pruned], capture)
    return [forced_problem(node, capture, reason) for node, reason in found]


def capture_warnings(plan: Plan, capture: str) -> list[Problem]:
    """The breakers that are captured in another way than the one that was asked for, though nothing is refused."""
    if capture not in LATER:
        return []
    surveyed = _survey(plan, plan.nodes(), Sizes())
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
    """What is told of a strategy that was asked for and is refused."""
    hint = "leave it at auto, which picks a way per step"
    return Problem(f"step '{node.step}' cannot be captured by {capture}: {reason}", node.position, hint)


@dataclass(frozen=True)
class _BreakerSurvey:
    """A breaker as a choice sees it, and where its groups end up."""

    breaker: Breaker
    carrier: str | None
    direct: DirectLookup | None


def _survey(plan: Plan, nodes: list[Node], sizes: Sizes, by_partition: bool = False) -> dict[str, _BreakerSurvey]:
    """Every node that leaves tables, with what is known of it."""
    datasets, above = _datasets(plan), _readers_by_node(nodes)
    below: dict[str, InputHandles] = {}
    stable: dict[str, Stability] = {}
    rows: dict[str, Estimate | None] = {}
    joins: dict[str, int] = {}
    found: dict[str, _BreakerSurvey] = {}
    for node in nodes:
        inputs = [each.id for each in node.inputs]
        rule = rule_for(node, tuple(below[each] for each in inputs), by_partition=by_partition)
        rows[node.id] = estimate_rows(node, [rows[each] for each in inputs], sizes)
        joins[node.id] = isinstance(node, Join) + sum(joins[each] for each in inputs)
        if any(table.everything is None for table in rule.tables):
            chain = _chain_to_dataset(node, datasets, above, plan.checked)
            direct = find_direct_lookup(node, chain[1:], datasets) if chain is not None else None
            if direct and [source_space(each) for each in direct.sources] != [
                each.space for each in rule.tables[0].handles
            ]:
                raise AssertionError(f"members of '{node.id}' are not rows of just these sources")
            unstable = unstable_members_reason(node, [stable[each] for each in inputs])
            reads = _estimate_reads(node, [rows[each] for each in inputs], sizes)
            breaker = Breaker(node, unstable, direct is not None, len(rule.tables[0].handles), reads, joins[node.id])
            found[node.id] = _BreakerSurvey(breaker, chain[-1].step if chain else None, direct)
        stable[node.id] = stability(node, [stable[each] for each in inputs])
        is_dataset = node.id in datasets and not isinstance(node, Source)
        if is_dataset:
            stable[node.id], joins[node.id] = WRITTEN, 0
        whole = source_space(node.step) if isinstance(node, Source) else step_space(node.step) if is_dataset else None
        own = ((Handle(step_space(node.step)),), (True,)) if is_dataset else (rule.handles, rule.once)
        below[node.id] = InputHandles(*own, whole)
    return found


def _estimate_reads(node: Node, inputs: list[Estimate | None], sizes: Sizes) -> Estimate | None:
    """What a breaker reads to be captured: a semi join its right side, all others all sides."""
    wanted = inputs[1:] if isinstance(node, Join) else inputs
    scanned = sum(each.scanned for each in wanted if each is not None)
    if node.id in sizes.members:
        return Estimate(sizes.members[node.id], 1.0, scanned, remembered=True)
    known = [each for each in wanted if each is not None]
    if len(known) < len(wanted):
        return None
    remembered = all(each.remembered for each in known)
    base, rows = sum(each.base for each in known), sum(each.rows for each in known)
    return Estimate(base, rows / base if base else 1.0, scanned, remembered=remembered)


def _datasets(plan: Plan) -> set[str]:
    return {*plan.outputs.values(), *plan.keep}


def _readers_by_node(nodes: list[Node]) -> dict[str, list[Node]]:
    above: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for below in node.inputs:
            above[below.id].append(node)
    return above


def _chain_to_dataset(
    node: Node, datasets: set[str], above: Mapping[str, list[Node]], checked: frozenset[str]
) -> list[Node] | None:
    """The nodes from a breaker to the dataset that shows its groups, each at most once; None where there is none."""
    if isinstance(node, Join) or getattr(node, "partition_by", None) is not None or getattr(node, "all", False):
        return None  # these give a group's row more than once
    chain: list[Node] = [node]
    while chain[-1].id not in datasets:
        readers = above.get(chain[-1].id, [])
        if len(readers) != 1 or chain[-1].id in checked:
            return None
        (reader,) = readers
        if not isinstance(reader, Filter | Project | WithColumns | Sort | Limit):
            return None
        if any(expression.is_generator for expression, _ in reader.expressions_with_schemas()):
            return None
        chain.append(reader)
    return chain


def _reader_counts(nodes: list[Node], choices: Mapping[str, Choice]) -> Counter[str]:
    """How often each node's rows are asked for; an anti join asks its right side for matches and for its ids, and so
    does a difference whose rows are not written once."""
    readers: Counter[str] = Counter()
    for node in nodes:
        readers.update(below.id for below in node.inputs)
        if node.id not in choices:
            continue
        if isinstance(node, Join) and node.how == "anti":
            readers[node.right.id] += 1
        if isinstance(node, Difference) and choices[node.id].strategy != "stage":
            readers[node.right.id] += 1
    return readers


def _materialisation(node: Node, datasets: set[str], readers: int) -> Materialisation | None:
    if node.id in datasets and not isinstance(node, Source):
        return Materialisation("dataset", "an output, or kept")
    if readers < 2 or _is_cheap_to_recompute(node):
        return None
    reason = "dear to compute again" if node.repeatable else "may differ when computed again"
    return Materialisation("fan-out", f"read {readers} times and {reason}")


def _is_cheap_to_recompute(node: Node) -> bool:
    """Whether computing the node again costs a scan and surely gives the same rows."""
    match node:
        case Source():
            return True
        case Filter() | Project() | WithColumns() | Sort():
            return node.repeatable and _is_cheap_to_recompute(node.input)
        case _:
            return False
