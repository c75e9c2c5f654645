"""Plan to instrumented plan: handles and tables per node, what is written once, which strategy per breaker.

The result is a value: it can be printed (describe) and tested without Spark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from lineage_service.capture.handles import Handle, Space, Table, source_space, step_space
from lineage_service.capture.rules import Below, Rule, rule_for
from lineage_service.capture.strategies import Choice, choose
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Filter, Join, Node, Project, Sort, Source, WithColumns


@dataclass(frozen=True)
class Materialised:
    """Why a node's rows are written once and read from there: a dataset, or a fan-out that must agree."""

    kind: Literal["dataset", "fan-out"]
    reason: str


@dataclass(frozen=True)
class Instrumented:
    """A plan node with what capture adds to it.

    carried: handles of the rows as the operator gives them · tables: what it leaves behind
    handles: what readers see; a dataset's readers see its own row ids · choice: of a breaker
    materialised: whether and why its rows are written before anybody reads them
    """

    node: Node
    inputs: tuple[Instrumented, ...]
    carried: tuple[Handle, ...]
    tables: tuple[Table, ...]
    choice: Choice | None
    materialised: Materialised | None

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
    def whole(self) -> Space | None:
        """The dataset whose rows these are, all of them and nothing else."""
        if isinstance(self.node, Source):
            return source_space(self.node.step)
        return step_space(self.node.step) if self.is_dataset else None


@dataclass(frozen=True)
class InstrumentedPlan:
    """All nodes, inputs before readers, and what capture was asked for."""

    plan: Plan
    capture: str
    nodes: tuple[Instrumented, ...]

    @property
    def datasets(self) -> tuple[Instrumented, ...]:
        return tuple(each for each in self.nodes if each.is_dataset)

    def tables(self) -> tuple[Table, ...]:
        """Every lineage table of the run: of datasets and of breakers."""
        of_datasets = [Table(step_space(each.node.step), each.carried) for each in self.datasets if each.carried]
        return (*of_datasets, *(table for each in self.nodes for table in each.tables))


def instrument(plan: Plan, capture: str) -> InstrumentedPlan:
    nodes = plan.nodes()
    readers = _readers(nodes, capture)
    readers.update(plan.checked)
    datasets = {*plan.outputs.values(), *plan.keep}
    done: dict[str, Instrumented] = {}
    for node in nodes:
        inputs = tuple(done[below.id] for below in node.inputs)
        if capture == "off":
            rule = Rule(())
        else:
            rule = rule_for(node, tuple(Below(each.handles, each.whole) for each in inputs))
        choice = choose(node, capture) if rule.tables else None
        done[node.id] = Instrumented(
            node, inputs, rule.handles, rule.tables, choice, _materialised(node, datasets, readers[node.id])
        )
    return InstrumentedPlan(plan, capture, tuple(done.values()))


def _readers(nodes: list[Node], capture: str) -> Counter[str]:
    """How often each node's rows are asked for; an anti join asks its right side for matches and for its ids."""
    readers: Counter[str] = Counter()
    for node in nodes:
        readers.update(below.id for below in node.inputs)
        if isinstance(node, Join) and node.how == "anti" and capture != "off":
            readers[node.right.id] += 1
    return readers


def _materialised(node: Node, datasets: set[str], readers: int) -> Materialised | None:
    if node.id in datasets and not isinstance(node, Source):
        return Materialised("dataset", "an output, or kept")
    if readers < 2 or _cheap(node):
        return None
    reason = "dear to compute again" if node.repeatable else "may differ when computed again"
    return Materialised("fan-out", f"read {readers} times and {reason}")


def _cheap(node: Node) -> bool:
    """Whether computing the node again costs a scan and surely gives the same rows."""
    match node:
        case Source():
            return True
        case Filter() | Project() | WithColumns() | Sort():
            return node.repeatable and _cheap(node.input)
        case _:
            return False
