"""One side of a join with steps that no longer drop rows: would there have been a partner?

The steps are let go from the join downward, one more each time; the first time that a partner is there, the step let
go last is where it was lost. Where letting rows pass would change the values that partners are found by (below an
aggregate's measures, below a window), nothing is let go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    PlanError,
    Project,
    Sort,
    Union,
    WithColumns,
)
from lineage_service.plan.plan_rewriting import with_inputs

MOST = 6  # steps that are let go


@dataclass(frozen=True)
class RelaxedSide:
    """A side on which `step` and the steps above it drop nothing."""

    step: str
    node: Node


def partner_columns(node: Join | Intersect, place: int) -> frozenset[str]:
    """The columns of an input by which rows of the other find their partners, in lower case."""
    if isinstance(node, Intersect):
        return frozenset(name.lower() for name in node.inputs[place].schema.names)
    if node.using:
        return frozenset(name.lower() for name in node.using)
    side = ("left", "right")[place]
    refs = node.on.columns if node.on is not None else ()
    return frozenset(
        ref.parts[1 if ref.parts[0] == side and len(ref.parts) > 1 else 0].lower()
        for ref in refs
        if node.side_of(ref) == side
    )


def relaxations(side: Node, columns: frozenset[str]) -> list[RelaxedSide]:
    """`columns` are those that partners are found by."""
    found: list[RelaxedSide] = []
    let_go: set[str] = set()
    for dropper in _droppers(side, columns):
        let_go.add(dropper.id)
        try:
            node = _rebuild_relaxed(side, let_go, {})
        except PlanError:
            break  # a name that only one side had is on both now
        found.append(RelaxedSide(dropper.step, node))
        if len(found) == MOST:
            break
    return found


def _droppers(node: Node, columns: frozenset[str]) -> Iterator[Node]:
    """Nodes that may drop rows, from above, as far as values stay what they are."""
    match node:
        case Filter() | Limit():
            yield node
            yield from _droppers(node.input, columns)
        case Explode():
            if not node.outer:
                yield node
            yield from _droppers(node.input, columns)
        case Project() | WithColumns():
            renamed = {
                each.name.lower()
                for each in node.columns
                if each.expression.text.strip("`").lower() != each.name.lower()
            }
            yield from _droppers(node.input, columns | {"\0"} if renamed & columns else columns)
        case Sort() | Distinct():
            yield from _droppers(node.input, columns)
        case Aggregate():
            if columns <= {each.name.lower() for each in node.keys if each.expression.columns}:
                yield from _droppers(node.input, columns)
        case Union():
            for branch in node.branches:
                yield from _droppers(branch, columns)
        case Join(how="semi" | "anti") | Intersect() | Difference():
            yield node
            yield from _droppers(node.left, columns)
        case Join():
            if node.equi_condition is None:
                return
            if node.how != "full":
                yield node
            yield from _droppers(node.left, columns)
            yield from _droppers(node.right, columns)
        case _:
            return


def _rebuild_relaxed(node: Node, let_go: set[str], done: dict[str, Node]) -> Node:
    if node.id not in done:
        done[node.id] = (
            _without_dropping(node, let_go, done)
            if node.id in let_go
            else with_inputs(node, [_rebuild_relaxed(below, let_go, done) for below in node.inputs])
        )
    return done[node.id]


def _without_dropping(node: Node, let_go: set[str], done: dict[str, Node]) -> Node:
    match node:
        case Filter() | Limit():
            return _rebuild_relaxed(node.input, let_go, done)
        case Join(how="semi" | "anti") | Intersect() | Difference():
            return _rebuild_relaxed(node.left, let_go, done)
        case Explode():
            return replace(node, input=_rebuild_relaxed(node.input, let_go, done), outer=True)
        case Join():
            # Unmatched rows are there with nulls; keys compared by `=` find no partner in a null.
            return replace(
                node,
                left=_rebuild_relaxed(node.left, let_go, done),
                right=_rebuild_relaxed(node.right, let_go, done),
                how="full",
            )
        case _:
            raise AssertionError(f"'{node.id}' drops nothing")
