"""IN and EXISTS inside of expressions, as mark joins: a column that says whether there is a matching row.

The matching rows of each value are grouped, and the rows of the enclosing query are joined with these groups: each row
stays one row, with its group behind it. A row without one is influenced by the absence of a match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState, columns_read, type_of
from lineage_service.plan.from_sql.constant_rows import reads_source
from lineage_service.plan.from_sql.correlation import SubqueryRows, offer_columns, subquery_rows
from lineage_service.plan.from_sql.existence_joins import (
    check_operands,
    check_unread_items,
    compared_values,
    plain_values,
)
from lineage_service.plan.from_sql.subquery_shapes import (
    KeyedConditions,
    are_equal_as_keys,
    compile_plain_from_and_where,
    grouping_keys,
    is_plain,
    keyed_conditions,
)
from lineage_service.plan.nodes import Aggregate, Join, NamedExpression, Node, OuterValues, WithColumns
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp


def attach_exists(block: BlockState, place: exp.Expr, query: exp.Expr) -> None:
    """EXISTS as a column."""
    keyed = None
    inner = compile_plain_from_and_where(block, query) if is_plain(block, query) else None
    if inner is not None:
        check_unread_items(block, inner, query)
        keyed = keyed_conditions(block, inner)
    if keyed is not None and inner is not None:
        match_count = _join_matching_groups(block, place, inner.node, keyed)
    else:
        rows = subquery_rows(block, query)
        pairs = tuple(rows.values.items())
        match_count = _join_matching_groups(block, place, rows.relation.node, KeyedConditions(pairs), null_safe=True)
    block.texts.computed[id(place)] = _mark(block, place, f"{match_count} IS NOT NULL")


def attach_in(block: BlockState, place: exp.In, query: exp.Expr) -> None:
    """IN as a column. It is never null: an unknown IN is false and, where Spark pushes a NOT inwards to it, true."""
    from sqlglot import exp

    left = [block.texts.text(each) for each in compared_values(place)]
    negated = _is_negated(place)
    match_count = None if negated else _keyed_in(block, place, query, left)
    condition = f"{match_count} IS NOT NULL"
    if match_count is None:
        strict, loose = _compared_in(block, place, query, left, negated)
        condition = f"{strict} IS NOT NULL" + (f" OR {loose} IS NOT NULL" if loose is not None else "")
    mark = _mark(block, place, condition)
    if SPAN in place.meta:
        block.texts.computed[id(place)] = mark
    else:  # `x NOT IN (…)` is one piece of text
        assert isinstance(place.parent, exp.Not)
        block.texts.computed[id(place.parent)] = f"(NOT {mark})"


def _is_negated(place: exp.Expr) -> bool:
    """Whether Spark pushes a NOT inwards to this predicate: through AND, OR, and comparisons with true and false."""
    from sqlglot import exp

    negated, node, parent = False, place, place.parent
    while parent is not None:
        if isinstance(parent, exp.Not):
            negated = not negated
        elif isinstance(parent, exp.EQ | exp.NEQ):
            other = parent.expression if parent.this is node else parent.this
            if not isinstance(other, exp.Boolean):
                break
            negated ^= bool(other.this) == isinstance(parent, exp.NEQ)
        elif not isinstance(parent, exp.Paren | exp.And | exp.Or):
            break
        node, parent = parent, parent.parent
    return negated


def _keyed_in(block: BlockState, place: exp.In, query: exp.Expr, left: list[str]) -> str | None:
    """The matching rows grouped by the values that are compared; None where values may equal several groups."""
    plain = plain_values(block, query)
    keyed: KeyedConditions | None = KeyedConditions(())
    if plain is not None:
        inner, values = plain
        if any(columns_read(value, inner.scope)[1] for value in values):
            return None
        node, right = inner.node, [inner.texts.text(value) for value in values]
        keyed = keyed_conditions(block, inner)
    else:
        rows = subquery_rows(block, query)
        if rows.values:
            return None
        node, right = rows.relation.node, [column.internal for column in rows.relation.columns]
    check_operands(place, block.node, left, node, right)
    alike = all(are_equal_as_keys(type_of(block.node, a), type_of(node, b)) for a, b in zip(left, right, strict=True))
    if keyed is None or not alike:
        return None
    pairs = (*zip(left, right, strict=True), *keyed.pairs)
    return _join_matching_groups(block, place, node, KeyedConditions(pairs, keyed.outer_only))


def _compared_in(
    block: BlockState, place: exp.In, query: exp.Expr, left: list[str], negated: bool
) -> tuple[str, str | None]:
    """The distinct values on the left of IN, compared with the rows of the subquery: groups of rows that are equal to
    them and, where NOT is pushed inwards, whether there is one for which that is unknown."""
    context = block.context
    rows = subquery_rows(block, query)
    right = [column.internal for column in rows.relation.columns]
    check_operands(place, block.node, left, rows.relation.node, right)
    names = [_as_column(block, place, text) for text in left]
    left_values = list(dict.fromkeys([*names, *rows.values]))
    equal = list(zip(names, right, strict=True))
    matching, values = _matching_rows(block, place, rows, left_values, equal, null_aware=False)
    match_count = _join_matching_groups(block, place, matching, KeyedConditions(tuple(values.items())), null_safe=True)
    if not negated:
        return match_count, None
    unknown, values = _matching_rows(block, place, rows, left_values, equal, null_aware=True)
    below = context.project("values", place, unknown, {name: name for name in values.values()})
    distinct = context.make(OuterValues, "outer_values", place, below)
    maybe = context.names.fresh("mark", "unknown")
    flag = (NamedExpression(maybe, context.scalar("true", place)),)
    flagged = context.make(WithColumns, "unknown", place, distinct, flag)
    on = context.scalar(" AND ".join(f"{outer} <=> {inner}" for outer, inner in values.items()), place)
    block.node = context.make(Join, "join", place, block.node, flagged, "left", on, ())
    return match_count, maybe


def _matching_rows(
    block: BlockState,
    place: exp.Expr,
    rows: SubqueryRows,
    left_values: list[str],
    equal: list[tuple[str, str]],
    *,
    null_aware: bool,
) -> tuple[Node, dict[str, str]]:
    """The rows of a subquery beside the values that they are equal to, and the names of these."""
    context = block.context
    offered = offer_columns(block, place, left_values)
    outer = offered.names
    comparisons = [f"{outer[one]} = {other}" for one, other in equal]
    if null_aware:
        comparisons = [f"({each} OR ({each}) IS NULL)" for each in comparisons]
    comparisons += [f"{outer[name]} <=> {carried}" for name, carried in rows.values.items()]
    on = context.scalar(" AND ".join(comparisons), place)
    return context.make(Join, "match", place, offered.node, rows.relation.node, "inner", on, ()), dict(outer)


def _as_column(block: BlockState, place: exp.Expr, text: str) -> str:
    """An expression over the rows so far as a column of them."""
    if block.node.schema.find(text) is not None:
        return text
    context = block.context
    name = context.names.fresh("operand", "value")
    computed = (NamedExpression(name, context.scalar(text, place)),)
    block.node = context.make(WithColumns, "operand", place, block.node, computed)
    return name


def _join_matching_groups(
    block: BlockState, place: exp.Expr, node: Node, keyed: KeyedConditions, *, null_safe: bool = False
) -> str:
    """Joins each row with the group of rows that match it; the name of a column that is null where there is none."""
    context = block.context
    count = NamedExpression(context.names.fresh("mark", "rows"), context.expression("count(1)", place))
    keys, conditions = grouping_keys(block, place, keyed, null_safe=null_safe)
    if not keys:
        conditions.append(f"{count.name} > 0")
    grouped = context.make(Aggregate, "matching", place, node, keys, (count,))
    on = context.scalar(" AND ".join(conditions), place)
    block.node = context.make(Join, "mark", place, block.node, grouped, "left", on, (), reads_source(grouped))
    return count.name


def _mark(block: BlockState, place: exp.Expr, condition: str) -> str:
    context = block.context
    name = context.names.fresh("mark", "found")
    mark = (NamedExpression(name, context.scalar(condition, place)),)
    block.node = context.make(WithColumns, "mark", place, block.node, mark)
    return name
