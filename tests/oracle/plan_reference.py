"""Compiled plans in the oracle's words: each node as a step of reference.py, which interprets it with lineage.

What a node does is said there, by section 4 of the contract. Nothing here is taken from lowering or from capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from tests.oracle.reference import Evaluation, RefRow, evaluate
from tests.oracle.sql_reference import SqlTable


def evaluate_plan(node: Node, tables: Mapping[str, SqlTable]) -> list[RefRow]:
    """The rows of a plan over tables that are called like its sources."""
    return _evaluation(node, tables)[node.id]


def _evaluation(node: Node, tables: Mapping[str, SqlTable]) -> Evaluation:
    rows = {name: table.rows for name, table in tables.items()}
    schemas = {name: table.schema for name, table in tables.items()}
    steps = {each.id: step_of(each) for each in _nodes_below(node) if not isinstance(each, Source)}
    return evaluate(rows, schemas, list(steps.values()))


def _nodes_below(node: Node) -> Iterator[Node]:
    """Every node once, inputs before what reads them."""
    seen: set[int] = set()

    def walk(each: Node) -> Iterator[Node]:
        if id(each) not in seen:
            seen.add(id(each))
            for below in each.inputs:
                yield from walk(below)
            yield each

    return walk(node)


def step_of(node: Node) -> dict:
    """The node as a step of a workflow file; where the file has no such operator, as one that reference.py knows."""
    step = {"name": node.id, **_inputs_of(node)}
    match node:
        case Filter():
            return step | {"op": "filter", "where": node.where.text}
        case Project():
            return step | {"op": "project", "columns": _texts(node.columns)}
        case WithColumns():
            return step | {"op": "with_columns", "columns": _texts(node.columns)}
        case Aggregate():
            return step | {"op": "aggregate", "by": _texts(node.keys), "measures": _texts(node.measures)}
        case OuterValues():
            return step | {"op": "outer_values"}
        case Distinct():
            return step | {"op": "distinct"}
        case Join():
            condition = {} if node.on is None else {"on": node.on.text}
            parts = {"how": node.how, "using": list(node.using), "absence": node.absence}
            return step | {"op": "join"} | parts | condition
        case Union():
            return step | {"op": "union"}
        case Intersect():
            return step | {"op": "intersect", "distinct": not node.all}
        case Difference():
            return step | {"op": "difference", "distinct": not node.all}
        case Window():
            order = [str(key) for key in node.order_by]
            frame = None if node.frame is None else node.frame.text
            parts = {"partition_by": list(node.partition_by), "order_by": order, "frame": frame}
            parts["beside"] = bool(node.beside)
            return step | {"op": "window", "measures": _texts(node.measures)} | parts
        case Sort():
            return step | {"op": "sort", "by": [str(key) for key in node.by]}
        case Limit():
            per = list(node.per) if isinstance(node, GroupLimit) else []
            parts = {"n": node.n, "offset": node.offset, "by": [str(key) for key in node.by], "per": per}
            return step | {"op": "limit"} | parts
        case Explode():
            return step | {"op": "explode", "column": node.column, "as": node.alias, "outer": node.outer}
        case Source():
            raise AssertionError("a source is no step")
        case _:
            assert_never(node)


def _inputs_of(node: Node) -> dict:
    names = [below.step if isinstance(below, Source) else below.id for below in node.inputs]
    if isinstance(node, Union):
        return {"inputs": names}
    return {"input": names[0]} if len(names) == 1 else {"left": names[0], "right": names[1]}


def _texts(columns: tuple[NamedExpression, ...]) -> dict[str, str]:
    return {named.name: named.expression.text for named in columns}
