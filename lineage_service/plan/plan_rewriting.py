"""Traversal and rewriting of plans: nodes below a node, and a node over other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


def nodes_below(node: Node) -> list[Node]:
    """The node and all nodes below it, readers before their inputs."""
    found: dict[str, Node] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.id not in found:
            found[each.id] = each
            stack += each.inputs
    return list(found.values())


def nodes_inputs_first(*roots: Node) -> list[Node]:
    """The nodes and all nodes below them, inputs before their readers."""
    found: dict[str, Node] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if node.id in found:
            continue
        if entered:
            found[node.id] = node
            continue
        stack.append((node, True))
        stack += [(below, False) for below in reversed(node.inputs)]
    return list(found.values())


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The same operator over other inputs. Raises PlanError if their columns do not fit."""
    match node:
        case Source():
            return node
        case Union():
            return replace(node, branches=tuple(inputs))
        case Join() | Intersect() | Difference():
            return replace(node, left=inputs[0], right=inputs[1])
        case Filter() | Project() | WithColumns() | Aggregate() | Distinct() | Window() | Sort() | Limit() | Explode():
            return replace(node, input=inputs[0])
        case _:
            assert_never(node)
