"""The result of a query or a data frame that is not compiled, because columns of what it reads are not known yet."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_service.errors import Position
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Filter, Join, Node, Project


def unknown_result(step: str, tables: Sequence[Node], position: Position | None) -> Node:
    """A node of unknown columns over all tables, so that it is known what the step reads."""
    known = [
        node if not node.schema.known else Project(f"{step}:{number}_unknown", step, position, node, ())
        for number, node in enumerate(sorted(tables, key=lambda each: each.schema.known), start=1)
    ]
    node, *others = known
    for number, other in enumerate(others):
        name = step if number == len(others) - 1 else f"{step}:{number}_with"
        node = Join(name, step, position, node, other, "cross", None, ())
    return node if others else Filter(step, step, position, node, Expression("true", position))
