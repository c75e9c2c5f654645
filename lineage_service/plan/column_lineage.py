"""Which source columns each column of a relation is computed from: read off the plan."""

from __future__ import annotations

from typing import assert_never

from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Named,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

Origins = dict[str, tuple[str, ...]]


def column_origins(node: Node, known: dict[str, Origins] | None = None) -> Origins:
    """For each column the `source.column` names that its value is computed from; predicates are not among them."""
    known = {} if known is None else known
    if node.id not in known:
        known[node.id] = _origins(node, [column_origins(below, known) for below in node.inputs])
    return known[node.id]


def _origins(node: Node, inputs: list[Origins]) -> Origins:
    match node:
        case Source():
            return {name: (f"{node.step}.{name}",) for name in node.schema.names}
        case Filter() | Sort() | Limit() | Distinct():
            return inputs[0]
        case Project():
            return _computed(node.columns, inputs[0])
        case WithColumns():
            return _replaced(node, inputs[0], _computed(node.columns, inputs[0]))
        case Aggregate():
            return _computed((*node.keys, *node.measures), inputs[0])
        case Window():
            return _replaced(node, inputs[0], _computed(node.measures, inputs[0]))
        case Explode():
            return _replaced(node, inputs[0], {node.alias: _of(inputs[0], node.column)})
        case Join():
            both = [_of(inputs[0], name) + _of(inputs[1], name) for name in node.schema.names]
            if node.how in ("semi", "anti"):
                both = [_of(inputs[0], name) for name in node.schema.names]
            return {name: _unique(found) for name, found in zip(node.schema.names, both, strict=True)}
        case Union() | Intersect():
            return {name: _unique(tuple(each for below in inputs for each in _of(below, name))) for name in inputs[0]}
        case Difference():
            return inputs[0]
        case _:
            assert_never(node)


def _computed(columns: tuple[Named, ...], below: Origins) -> Origins:
    return {named.name: _read_by(named.expression, below) for named in columns}


def _read_by(expression: Expression, below: Origins) -> tuple[str, ...]:
    return _unique(tuple(each for ref in expression.columns for each in _of(below, ref.parts[0])))


def _replaced(node: Node, below: Origins, new: Origins) -> Origins:
    lowered = {name.lower(): found for name, found in new.items()}
    return {name: lowered.get(name.lower(), _of(below, name)) for name in node.schema.names}


def _of(origins: Origins, name: str) -> tuple[str, ...]:
    return next((found for each, found in origins.items() if each.lower() == name.lower()), ())


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
