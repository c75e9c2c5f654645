"""UNION, INTERSECT and EXCEPT: by position in SQL, by name in the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.ordering import order_and_limit, sort_keys, text_of_result
from lineage_service.plan.from_sql.refusals import check_parts, refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, QueryRelation, Scope
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.nodes import Difference, Distinct, Intersect, Node, Union

if TYPE_CHECKING:
    from sqlglot import exp


def compile_set_operation(context: SqlContext, query: exp.Expr, ctes: Ctes, parent: Scope | None) -> QueryRelation:
    """Both sides under the same names; names and order of the columns are those of the left side."""
    from sqlglot import exp

    check_parts(query)
    left = context.compile_query(context, query.this, ctes, parent)
    right = context.compile_query(context, query.args["expression"], ctes, parent)
    if len(left.columns) != len(right.columns):
        raise refuse(
            query.args["expression"],
            f"a set operation of {len(left.columns)} and {len(right.columns)} columns",
            "both sides need the same number of columns",
        )
    names = [context.names.fresh("set", column.name or "column") for column in left.columns]
    columns = tuple(BoundColumn(old.name, new) for old, new in zip(left.columns, names, strict=True))
    carried = [context.names.fresh("outer", each) for each in left.carried]
    sides = []
    for relation, place in ((left, query.this), (right, query.args["expression"])):
        texts = {new: old.internal for new, old in zip(names, relation.columns, strict=True)}
        texts |= dict(zip(carried, relation.carried, strict=True))
        sides.append(context.project("side", place, relation.node, texts))
    is_set = query.args.get("distinct") is not False
    node: Node
    if isinstance(query, exp.Union):
        node = context.make(Union, "union", query, tuple(sides), True)
        node = context.make(Distinct, "distinct", query, node) if is_set else node
    elif isinstance(query, exp.Intersect):
        node = context.make(Intersect, "intersect", query, *sides, not is_set)
    elif isinstance(query, exp.Except):
        node = context.make(Difference, "except", query, *sides, not is_set)
    else:
        raise AssertionError(type(query).__name__)
    result = QueryRelation(node, columns, tuple(carried))
    keys = sort_keys(context, query, result, lambda each: text_of_result(context, each, result))
    return replace(result, node=order_and_limit(context, query, node, keys, carried))
