"""FROM and WHERE of a SELECT: conditions that join, conditions that filter, and subqueries as conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.from_sql.block_state import BlockState, columns_read, refuse_folds
from lineage_service.plan.from_sql.correlation import carry_outer_values
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, conjuncts, subqueries_in
from lineage_service.plan.from_sql.from_groups import Condition, FromGroup, cross_join
from lineage_service.plan.from_sql.generators import Generator, TextOf, explode_rows, read_generator
from lineage_service.plan.from_sql.joins import compile_from, linked_groups
from lineage_service.plan.from_sql.refusals import check_parts, refuse
from lineage_service.plan.from_sql.scopes import Scope, ScopedRelation
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.from_sql.subqueries import apply_subqueries
from lineage_service.plan.functions import CHANCE

if TYPE_CHECKING:
    from sqlglot import exp


def open_block(
    context: SqlContext, select: exp.Expr, ctes: Ctes, parent: Scope | None, *, pull: bool = False
) -> BlockState:
    """The rows of FROM for which WHERE holds. With `pull`, conditions that read the query around it are left out,
    and are in `correlated`."""
    check_parts(select)
    groups = compile_from(context, select, ctes, parent)
    plain: list[Condition] = []
    carried: tuple[str, ...] = ()
    own: dict[str, str] = {}
    if parent is not None and parent.offered is not None:
        groups, carried, plain = carry_outer_values(context, select, groups, parent.offered)
        own = dict(zip(parent.offered.names, carried, strict=True))
    plain += [link for group in groups for link in group.links]
    scope = Scope(
        tuple(relation for group in groups for relation in group.relations),
        tuple(column for group in groups for column in group.visible),
        parent,
        any(group.merged for group in groups),
        outer=own,
    )
    views, scope = _lateral_views(context, select, groups, scope)
    texts = ExpressionTexts(context, scope)
    where = select.args.get("where")
    later, correlated = [], []
    lifted = [condition for group in groups for condition in group.lifted]
    for condition in [*(conjuncts(where.this) if where is not None else ()), *lifted]:
        refuse_folds(context, condition, "WHERE")
        _refuse_aliases(condition, select, scope)
        reads, outer = columns_read(condition, scope)
        if any(subqueries_in(condition)):
            later.append(condition)
        elif outer and pull:
            correlated.append(condition)
        else:
            plain.append((texts.condition(condition), reads))
    group, rest = _join_groups(context, select, groups, plain)
    node = group.node
    for view, text_of in views:
        node = explode_rows(context, view, node, text_of)
    block = BlockState(context, ctes, scope, node, texts, correlated, carried)
    block.keep_where(rest, where if where is not None else select)
    for condition in later:
        apply_subqueries(block, condition)
    return block


def _lateral_views(
    context: SqlContext, select: exp.Expr, groups: list[FromGroup], scope: Scope
) -> tuple[list[tuple[Generator, TextOf]], Scope]:
    """The LATERAL VIEWs, each with how its argument is written, and the scope with their columns."""
    views: list[tuple[Generator, TextOf]] = []
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        names = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
        name = alias.name if alias is not None and alias.this is not None else None
        text_of = ExpressionTexts(context, scope).text

        def type_of(column: str) -> str | None:
            return next((kind for each in groups if (kind := column_type(each.node.schema, column))), None)

        view = read_generator(context, lateral.this, type_of, text_of, names, outer=bool(lateral.args.get("outer")))
        views.append((view, text_of))
        relation = ScopedRelation(name, view.columns)
        scope = replace(scope, relations=(*scope.relations, relation), visible=(*scope.visible, *view.columns))
    return views, scope


def _refuse_aliases(condition: exp.Expr, select: exp.Expr, scope: Scope) -> None:
    """SqlRefusal for a name that only the select list gives."""
    from sqlglot import exp

    given = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    for column in condition.find_all(exp.Column):
        if len(column.parts) != 1 or column.name.lower() not in given:
            continue
        if column.find_ancestor(exp.Query) is select and not scope.knows(column.name):
            raise refuse(
                column,
                f"'{column.name}' is a name that the select list gives, and WHERE is evaluated before it",
                "repeat its expression, or filter around a subquery",
            )


def _join_groups(
    context: SqlContext, select: exp.Expr, groups: list[FromGroup], conditions: list[tuple[str, frozenset[str]]]
) -> tuple[FromGroup, list[str]]:
    """The entries of the comma list joined by the conditions of WHERE that compare them; the other conditions."""
    waiting = list(conditions)
    clause = select.args.get("from_")
    place = clause.this if clause is not None else select
    order = linked_groups(groups, [reads for _, reads in conditions])
    joined = groups[order[0]]
    for index in order[1:]:
        right = groups[index]
        both = joined.internals | right.internals
        usable = [
            (text, reads)
            for text, reads in waiting
            if reads <= both and reads & joined.internals and reads & right.internals and _is_repeatable(context, text)
        ]
        waiting = [each for each in waiting if each not in usable]
        on = " AND ".join(text for text, _ in usable) or None
        joined = cross_join(context, place, joined, right, on)
    return joined, [text for text, _ in waiting]


def _is_repeatable(context: SqlContext, text: str) -> bool:
    return not CHANCE & set(context.expression(text, 0).function_names)
