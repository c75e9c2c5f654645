"""Columns that tell the rows of a relation apart: a group's keys, as far up as they are shown."""

from __future__ import annotations

from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    WithColumns,
)


def identity_columns(node: Node) -> tuple[str, ...] | None:
    """Columns of which no two rows have the same values; None where no such columns are known."""
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
        case _:
            return None


def column_names_above(node: Node, breaker: Node, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Columns of a breaker under the names that a node above it shows them by; None where one is not shown, or where
    anything but filters, projections and orders lies between the two."""
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
        case _:
            return None


def _rename_keys(
    keys: tuple[str, ...] | None, columns: tuple[NamedExpression, ...], kept: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The keys under the names that they go on with; None where one does not."""
    if keys is None or any(named.expression.is_generator for named in columns):
        return None
    names = {name.lower(): name for name in kept}
    for named in columns:
        refs = named.expression.columns
        if len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1:
            names.setdefault(refs[0].parts[0].lower(), named.name)
    shown = [names.get(key.lower()) for key in keys]
    return tuple(name for name in shown if name is not None) if None not in shown else None
