"""Columns that identify the rows of a relation: a group's keys, as far up as they are present."""

from __future__ import annotations

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
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


def identity_columns(node: Node) -> tuple[str, ...] | None:
    """Columns whose combined values are unique; None if none are known."""
    match node:
        case Aggregate():
            return tuple(key.name for key in node.keys) or None
        case Distinct():
            return node.schema.names
        case Filter() | Sort() | Limit():
            return identity_columns(node.input)
        case Project():
            return _rename_keys(identity_columns(node.input), node.columns, ())
        case WithColumns():
            replaced = {named.name.lower() for named in node.columns}
            kept = [name for name in node.input.schema.names if name.lower() not in replaced]
            return _rename_keys(identity_columns(node.input), node.columns, tuple(kept))
        case Source() | Join() | Union() | Intersect() | Difference() | Window() | Explode():
            return None
        case _:
            assert_never(node)


def column_names_above(node: Node, breaker: Node, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names that a node gives to columns of a breaker below; None if one is missing, or if there are other nodes
    than filters, projections and sorts between the two.
    """
    match node:
        case _ if node.id == breaker.id:
            return names
        case Filter() | Sort():
            return column_names_above(node.input, breaker, names)
        case Project():
            return _rename_keys(column_names_above(node.input, breaker, names), node.columns, ())
        case WithColumns():
            replaced = {named.name.lower() for named in node.columns}
            kept = [name for name in node.input.schema.names if name.lower() not in replaced]
            return _rename_keys(column_names_above(node.input, breaker, names), node.columns, tuple(kept))
        case Source() | Aggregate() | Distinct() | Join() | Union() | Intersect() | Difference():
            return None
        case Window() | Limit() | Explode():
            return None
        case _:
            assert_never(node)


def _rename_keys(
    keys: tuple[str, ...] | None, columns: tuple[NamedExpression, ...], kept: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The keys under their new names; None if one is missing."""
    if keys is None or any(named.expression.is_generator for named in columns):
        return None
    names = {name.lower(): name for name in kept}
    for named in columns:
        refs = named.expression.columns
        if len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1:
            names.setdefault(refs[0].parts[0].lower(), named.name)
    shown = [names.get(key.lower()) for key in keys]
    return tuple(name for name in shown if name is not None) if None not in shown else None
