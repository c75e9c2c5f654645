"""What a subquery looks like, and how its conditions compare the two queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState, columns_read, type_of
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, aggregate_calls, operand
from lineage_service.plan.from_sql.refusals import UnknownName
from lineage_service.plan.from_sql.scopes import ResolvedName
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import NamedExpression
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp

_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint"})
# Clauses with which a subquery is more than rows of FROM for which WHERE holds.
_SHAPING = ("with_", "group", "having", "qualify", "windows", "limit", "offset")


def without_nots(condition: exp.Expr) -> tuple[bool, exp.Expr]:
    """A condition without the NOTs around it, and whether they negate it."""
    from sqlglot import exp

    negated = False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    return negated, condition


def without_parentheses(query: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    while isinstance(query, exp.Subquery) and not any(value for key, value in query.args.items() if key != "this"):
        query = query.this
    return query


def is_plain(block: BlockState, query: exp.Expr) -> bool:
    """Whether a subquery is the rows of FROM for which WHERE holds, so that its conditions can join it."""
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(query.args.get(key) for key in _SHAPING):
        return False
    if query.args.get("from_") is None:
        return False
    return not any(True for item in query.expressions for _ in aggregate_calls(block.context, item)) and not any(
        True for item in query.expressions for _ in item.find_all(exp.Window)
    )


def compile_plain_from_and_where(block: BlockState, query: exp.Expr) -> BlockState | None:
    """FROM and WHERE of a plain subquery, without its correlated conditions; None if FROM reads the enclosing query."""
    context = block.context
    try:
        inner: BlockState = context.compile_from_and_where(
            context, query, block.ctes, block.scope, leave_correlated=True
        )
    except UnknownName:
        return None
    return inner


def is_one_aggregate(block: BlockState, query: exp.Expr) -> bool:
    """Whether a subquery is one expression of aggregate functions over the rows of FROM for which WHERE holds."""
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(query.args.get(key) for key in (*_SHAPING, "distinct", "order")):
        return False
    if query.args.get("from_") is None or len(query.expressions) != 1:
        return False
    item = query.expressions[0]
    return any(True for _ in aggregate_calls(block.context, item)) and not any(item.find_all(exp.Window))


def spaced_text(context: SqlContext, node: exp.Expr) -> str | None:
    """The node as it was written, letters and spaces outside of literals aside."""
    from lineage_service.plan.from_sql.expression_texts import normalise

    if SPAN not in node.meta:
        return None
    start, end = node.meta[SPAN]
    return normalise(context.sql.text[start:end])


def are_equal_as_keys(one: str | None, other: str | None) -> bool:
    """Whether two types compare as grouping does, so that each value of one equals at most one group of the other."""
    return one is not None and (one == other or {one, other} <= _WHOLE_NUMBERS)


def texts_of_both(block: BlockState, inner: BlockState) -> ExpressionTexts:
    """Expressions over the columns of a subquery and of the enclosing query."""

    def outer(found: ResolvedName, place: exp.Expr) -> str:
        return block.texts.column_text(replace(found, level=0), place)

    return ExpressionTexts(block.context, inner.scope, outer=outer)


@dataclass(frozen=True, slots=True)
class KeyedConditions:
    """Conditions of a subquery that read the enclosing query.

    pairs: values that must be equal, the outer one first · outer_only: conditions on the enclosing query alone
    """

    pairs: tuple[tuple[str, str], ...]
    outer_only: tuple[str, ...] = ()


def keyed_conditions(block: BlockState, inner: BlockState) -> KeyedConditions | None:
    """The correlated conditions of a subquery, where each compares two values of one type or reads no column of the
    subquery; else None."""
    from sqlglot import exp

    both = texts_of_both(block, inner)
    pairs, outer_only = [], []
    for condition in inner.correlated:
        if not columns_read(condition, inner.scope)[0]:
            outer_only.append(both.condition(condition))
            continue
        if not isinstance(condition, exp.EQ):
            return None
        sides = [(columns_read(each, inner.scope), each) for each in (condition.this, condition.expression)]
        pure = [(bool(columns), reads_outer) for (columns, reads_outer), _ in sides]
        if pure not in ([(True, False), (False, True)], [(False, True), (True, False)]):
            return None
        (_, inner_value), (_, outer_value) = sides if pure[0] == (True, False) else sides[::-1]
        pair = both.text(outer_value), inner.texts.text(inner_value)
        if not are_equal_as_keys(type_of(block.node, pair[0]), type_of(inner.node, pair[1])):
            return None
        pairs.append(pair)
    return KeyedConditions(tuple(pairs), tuple(outer_only))


def grouping_keys(
    block: BlockState, place: exp.Expr, keyed: KeyedConditions, *, null_safe: bool = False
) -> tuple[tuple[NamedExpression, ...], list[str]]:
    """The inner values of the pairs as keys to group a subquery by, and conditions that join a row with its group."""
    names, keys, conditions = block.context.names, [], list(keyed.outer_only)
    for outer, inner in keyed.pairs:
        key = names.fresh("key", names.shown.get(inner, inner))
        keys.append(NamedExpression(key, block.context.scalar(inner, place)))
        conditions.append(f"{operand(outer)} {'<=>' if null_safe else '='} {key}")
    return tuple(keys), conditions
