"""Relaxes one side of a join, so that its steps drop no rows, to find out where a partner was lost.

Steps are relaxed one by one, from the join downward. The step whose relaxation makes a partner appear is where the
partner was lost. Nothing is relaxed where additional rows would change the values by which partners are found: below
the measures of an aggregate, and below a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

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
    PlanError,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.plan_rewriting import with_inputs

MOST = 6  # relaxed steps


@dataclass(frozen=True)
class RelaxedSide:
    """A side of a join in which `step` and the steps above it drop no rows."""

    step: str
    node: Node


def partner_columns(node: Join | Intersect, place: int) -> frozenset[str]:
    """The columns of an input by which the rows of the other input find their partners, in lower case."""
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
    """The relaxed sides, with one more relaxed step each. `columns` are those by which partners are found."""
    found: list[RelaxedSide] = []
    relaxed: set[str] = set()
    for dropper in _droppers(side, columns):
        relaxed.add(dropper.id)
        try:
            node = _rebuild_relaxed(side, relaxed, {})
        except PlanError:
            break  # a name that was on one side is on both now
        found.append(RelaxedSide(dropper.step, node))
        if len(found) == MOST:
            break
    return found


def _droppers(node: Node, columns: frozenset[str]) -> Iterator[Node]:
    """The nodes that may drop rows, from the top, as far down as the values of the columns stay the same."""
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
        case OuterValues():
            return
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
        case Source() | Window():
            return
        case _:
            assert_never(node)


def _rebuild_relaxed(node: Node, relaxed: set[str], done: dict[str, Node]) -> Node:
    if node.id not in done:
        done[node.id] = (
            _without_dropping(node, relaxed, done)
            if node.id in relaxed
            else with_inputs(node, [_rebuild_relaxed(below, relaxed, done) for below in node.inputs])
        )
    return done[node.id]


def _without_dropping(node: Node, relaxed: set[str], done: dict[str, Node]) -> Node:
    match node:
        case Filter() | Limit():
            return _rebuild_relaxed(node.input, relaxed, done)
        case Join(how="semi" | "anti") | Intersect() | Difference():
            return _rebuild_relaxed(node.left, relaxed, done)
        case Explode():
            return replace(node, input=_rebuild_relaxed(node.input, relaxed, done), outer=True)
        case Join():
            # Unmatched rows are there with nulls; keys compared by `=` find no partner in a null.
            return replace(
                node,
                left=_rebuild_relaxed(node.left, relaxed, done),
                right=_rebuild_relaxed(node.right, relaxed, done),
                how="full",
            )
        case Source() | Project() | WithColumns() | Aggregate() | Distinct() | Union() | Window() | Sort():
            raise AssertionError(f"'{node.id}' drops nothing")
        case _:
            assert_never(node)
