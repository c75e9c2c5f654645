"""A node in one line, for plans that are shown node by node, such as those of sql steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

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
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


def describe_node(node: Node) -> str:
    """The node's expressions, without its name and inputs."""
    match node:
        case Filter():
            return f"where {node.where}"
        case Project():
            return _join_named(node.columns) + (f" with hint {node.hint}" if node.hint else "")
        case WithColumns():
            return _join_named(node.columns)
        case Aggregate():
            by = f"by {_join_named(node.keys)}" if node.keys else "of everything"
            return f"{by}: {_join_named(node.measures)}" if node.measures else by
        case Join():
            return f"using {', '.join(node.using)}" if node.using else f"on {node.on}" if node.on else ""
        case Window():
            by = f"by {', '.join(node.partition_by)}" if node.partition_by else "over everything"
            order = f" ordered by {', '.join(map(str, node.order_by))}" if node.order_by else ""
            frame = f" {node.frame.text}" if node.frame else ""
            beside = " beside the windows below" if node.beside else ""
            return f"{by}{order}{frame}: {_join_named(node.measures)}{beside}"
        case Sort():
            return f"by {', '.join(map(str, node.by))}"
        case Limit():
            most = "all" if node.n is None else str(node.n)
            offset = f" from {node.offset + 1} on" if node.offset else ""
            per = f" for each {', '.join(node.per)}" if isinstance(node, GroupLimit) else ""
            return f"{most}{offset} by {', '.join(map(str, node.by))}{per}" if node.by else f"{most}{offset}{per}"
        case Explode():
            return f"{node.column} as {node.alias}"
        case Intersect() | Difference():
            return "all" if node.all else ""
        case Source() | Distinct() | Union():
            return ""
        case _:
            assert_never(node)


def _join_named(columns: Iterable[NamedExpression]) -> str:
    return ", ".join(
        each.name if each.expression.text.strip("`") == each.name else f"{each.name} = {each.expression}"
        for each in columns
    )
