"""The paths of a dataset's rows through a plan to an output, and the edges at which rows can end.

An edge is an input of a node that contains rows which the question is about. This module decides without Spark how to
find out whether rows pass an edge: they all do, by evaluation, or from the lineage that the run stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from lineage_service.capture.handles import Role, Space, step_space
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan
from lineage_service.capture.nondeterminism import Nondeterminism
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
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

State = Literal["passes", "evaluated", "witnessed", "blocked"]


@dataclass(frozen=True)
class PathEdge:
    """An input of a node that contains rows which the question is about.

    state: `passes`: all rows pass; `evaluated`: the step is evaluated again; `witnessed`: the lineage of `witness`
    shows it, a dataset that all rows of the node reach; `blocked`: it cannot be determined, for `reason`
    chance: the nondeterministic step behind `reason`
    """

    number: int
    each: InstrumentedNode
    place: int
    state: State
    witness: str | None = None
    reason: str | None = None
    chance: str | None = None

    @property
    def node(self) -> Node:
        return self.each.node

    @property
    def below(self) -> InstrumentedNode:
        return self.each.inputs[self.place]

    @property
    def operation(self) -> str:
        return operation_of(self.node)


def operation_of(node: Node) -> str:
    """The name of a node's operation in the workflow file."""
    match node:
        case Filter():
            return "having" if isinstance(node.input, Aggregate) and node.input.step == node.step else "filter"
        case Join():
            return f"{node.how} join"
        case WithColumns():
            return "with_columns"
        case Source() | Project() | Aggregate() | Distinct() | Union() | Intersect() | Difference():
            return type(node).__name__.lower()
        case Limit():
            return "limit"
        case Window() | Sort() | Explode():
            return type(node).__name__.lower()
        case _:
            assert_never(node)


def merges_rows(node: Node) -> bool:
    """Whether several input rows may become one output row."""
    return isinstance(node, Aggregate | Distinct | Intersect | Difference) and not isinstance(node, OuterValues)


def may_drop_rows(node: Node, place: int) -> bool:
    """Whether a row of this input may be in no output row."""
    match node:
        case Filter() | Limit() | Intersect():
            return True
        case Difference():
            return place == 0
        case Project() | WithColumns():
            return any(expression.is_generator for expression, _ in node.expressions_with_schemas())
        case Explode():
            return not node.outer
        case Join(how="inner" | "cross" | "semi"):
            return True
        case Join(how="anti" | "right"):
            return place == 0
        case Join(how="left"):
            return place == 1
        case Join() | Aggregate() | Distinct() | Union() | Window() | Sort() | Source():
            return False
        case _:
            assert_never(node)


def contributes_rows(node: Node, place: int) -> bool:
    """Whether rows of an input contribute to output rows. Otherwise only their absence, or values, influence them."""
    if isinstance(node, OuterValues):
        return False
    absent = isinstance(node, Difference) or (isinstance(node, Join) and node.how == "anti")
    return not (absent and place == 1)


def contributing_nodes(node: Node) -> list[Node]:
    """The node and the nodes below it whose rows contribute, without those that influence only by absence."""
    found: dict[str, Node] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.id not in found:
            found[each.id] = each
            stack += [below for place, below in enumerate(each.inputs) if contributes_rows(each, place)]
    return list(found.values())


@dataclass(frozen=True)
class RowPaths:
    """All paths of the rows of `starts` to the step `target`, inputs before readers."""

    plan: InstrumentedPlan
    starts: frozenset[Space]
    target: str
    edges: tuple[PathEdge, ...]

    def next_datasets(self, node_id: str) -> set[str]:
        """The steps of the next datasets above a node that contain its rows."""
        found: set[str] = set()
        for each in self.plan.nodes:
            if any(below.node.id == node_id for below in each.inputs):
                found |= {each.node.step} if each.is_dataset else self.next_datasets(each.node.id)
        return found


def find_row_paths(
    plan: InstrumentedPlan,
    starts: frozenset[Space],
    target: str,
    paired: frozenset[str],
    computed: Mapping[str, Nondeterminism],
    read: Mapping[str, Nondeterminism],
) -> RowPaths:
    """The paths of rows, with the state of each edge.

    paired: the steps whose lineage to the starts is known
    computed, read: the nondeterminism of each node as it is evaluated, and as its readers see it
    """
    leading = leading_spaces(plan, starts)
    # Nodes that influence only by absence are on no path.
    counting = {node.id for each in plan.nodes if each.node.id == target for node in contributing_nodes(each.node)}
    places = {
        each.node.id: [
            place
            for place, below in enumerate(each.inputs)
            if contributes_rows(each.node, place)
            and any(handle.role is Role.OWN and handle.space in leading for handle in below.handles)
        ]
        for each in plan.nodes
        if each.node.id in counting
    }
    edges: list[PathEdge] = []
    for each in plan.nodes:
        for place in places.get(each.node.id, ()):
            edge = PathEdge(len(edges), each, place, "passes")
            edges.append(_with_state(edge, plan, places, paired, computed, read))
    return RowPaths(plan, starts, target, tuple(edges))


def leading_spaces(plan: InstrumentedPlan, starts: frozenset[Space]) -> set[Space]:
    """The spaces whose ids derive from the rows that the question is about, as own contributions."""
    leading = set(starts)
    for each in plan.nodes:
        for table in each.tables:
            if any(handle.role is Role.OWN and handle.space in leading for handle in table.handles):
                leading.add(table.space)
        if each.is_dataset and any(h.role is Role.OWN and h.space in leading for h in each.carried):
            leading.add(step_space(each.node.step))
    return leading


def _with_state(
    edge: PathEdge,
    plan: InstrumentedPlan,
    places: Mapping[str, list[int]],
    paired: frozenset[str],
    computed: Mapping[str, Nondeterminism],
    read: Mapping[str, Nondeterminism],
) -> PathEdge:
    """The edge with its state: how to find out whether rows pass it."""
    below, own = read[edge.below.node.id], computed[edge.node.id]
    if not may_drop_rows(edge.node, edge.place):
        return edge
    if below.reason is not None:
        return replace(edge, state="blocked", reason=below.reason, chance=below.step)
    if own.reason is None:
        return replace(edge, state="evaluated")
    witness = _witness(plan, edge.each, places, paired)
    return replace(
        edge, state="blocked" if witness is None else "witnessed", witness=witness, reason=own.reason, chance=own.step
    )


def _witness(
    plan: InstrumentedPlan, each: InstrumentedNode, places: Mapping[str, list[int]], paired: frozenset[str]
) -> str | None:
    """A dataset whose lineage shows exactly which rows pass a node: the node itself, or one that all its rows reach;
    None if there is none.

    If rows also reached the dataset on another path, rows that end on this one would not be noticed.
    """
    if len(places[each.node.id]) != 1:
        return None
    while not each.is_dataset:
        readers = [other for other in plan.nodes if each.node.id in [below.node.id for below in other.inputs]]
        if len(readers) != 1:
            return None
        (reader,) = readers
        ways = places.get(reader.node.id, [])
        if len(ways) != 1 or reader.inputs[ways[0]].node.id != each.node.id or may_drop_rows(reader.node, ways[0]):
            return None
        each = reader
    return each.node.step if each.node.step in paired else None
