"""Plans taken apart and put together again: nodes below a node, and a node over other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lineage_service.plan.nodes import Difference, Intersect, Join, Node, Source, Union


def nodes_below(node: Node) -> list[Node]:
    """All nodes that a node is made from, itself among them, readers before their inputs."""
    found: dict[str, Node] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.id not in found:
            found[each.id] = each
            stack += each.inputs
    return list(found.values())


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The same operator over other inputs; PlanError where their columns do not fit it."""
    match node:
        case Source():
            return node
        case Union():
            return replace(node, branches=tuple(inputs))
        case Join() | Intersect() | Difference():
            return replace(node, left=inputs[0], right=inputs[1])
        case _:
            return replace(node, input=inputs[0])
