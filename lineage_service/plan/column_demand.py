"""Which columns of its inputs a node needs, and a plan without the columns that nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never

from lineage_service.plan.expressions import Expression, with_stars_expanded
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    GroupLimit,
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
from lineage_service.plan.plan_rewriting import nodes_inputs_first, with_inputs


def columns_needed(node: Node, wanted: Collection[str], below: Node) -> set[str]:
    """The columns of an input, in lower case, that a node needs for the wanted ones of its own."""
    there = {name.lower() for name in below.schema.names}
    read = {ref.parts[0].lower() for expression, _ in node.expressions_with_schemas() for ref in expression.columns}
    own = set(wanted)
    match node:
        case Project():
            read = {
                ref.parts[0].lower()
                for named in node.columns
                if named.name.lower() in own
                for ref in named.expression.columns
            }
            return read & there
        case Aggregate():
            kept = [each for each in node.measures if not node.keys or each.name.lower() in own]
            return {ref.parts[0].lower() for each in (*node.keys, *kept) for ref in each.expression.columns} & there
        case Distinct() | Intersect() | Difference():
            return there
        case Join():
            on = {part.lower() for ref in (node.on.columns if node.on else ()) for part in ref.parts[:2]}
            return (own | on | {name.lower() for name in node.using}) & there
        case Window():
            return (own | read | {name.lower() for name in node.partition_by}) & there
        case Explode():
            return (own | {node.column.lower()}) & there
        case GroupLimit():
            return (own | read | {name.lower() for name in node.per}) & there
        case Source() | Filter() | WithColumns() | Union() | Sort() | Limit():
            return (own | read) & there
        case _:
            assert_never(node)


def prune_columns(last: Node, is_own: Callable[[Node], bool]) -> Node:
    """The plan of `last` in which projections of the nodes that `is_own` have no column that nobody reads.

    Where rows are written on the way, for capture or because they are read twice, Spark cannot know that.
    """
    nodes = nodes_inputs_first(last)
    wanted: dict[str, set[str]] = {node.id: set() for node in nodes}
    wanted[last.id] = {name.lower() for name in last.schema.names}
    for node in reversed(nodes):
        if isinstance(node, Project) and is_own(node) and node.columns and not wanted[node.id]:
            wanted[node.id].add(node.columns[0].name.lower())  # kept, since rows without columns cannot be written
        for below in node.inputs:
            every = isinstance(node, Union) or not is_own(node) or _reads_every_column(node, below)
            names = below.schema.names if every else columns_needed(node, wanted[node.id], below)
            wanted[below.id] |= {name.lower() for name in names}
    done: dict[str, Node] = {}
    for node in nodes:
        inputs = [done[each.id] for each in node.inputs]
        done[node.id] = _without_unread(node, inputs, wanted[node.id]) if is_own(node) else node
    return done[last.id]


def _without_unread(node: Node, inputs: list[Node], wanted: set[str]) -> Node:
    if isinstance(node, Project | WithColumns):
        kept = tuple(each for each in node.columns if each.name.lower() in wanted or each.expression.is_generator)
        if isinstance(node, WithColumns) and not kept:
            return inputs[0]
        return replace(node, columns=kept or node.columns[:1], input=inputs[0])
    if isinstance(node, Aggregate) and node.keys:
        measures = tuple(each for each in node.measures if each.name.lower() in wanted)
        return replace(node, measures=measures, input=inputs[0])
    return with_inputs(node, inputs)


def _reads_every_column(node: Node, below: Node) -> bool:
    """Whether an expression has a star, which means all columns of the input."""
    names = below.schema.names
    return any(_has_star(expression, names) for expression, _ in node.expressions_with_schemas())


def _has_star(expression: Expression, names: Collection[str]) -> bool:
    return "*" in expression.text and with_stars_expanded(expression, tuple(names)) != expression.text
