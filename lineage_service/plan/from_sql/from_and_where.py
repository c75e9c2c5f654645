"""FROM and WHERE of a SELECT: conditions that join, conditions that filter, and subqueries as conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.from_sql.block_state import BlockState, columns_read, refuse_aggregates_and_windows
from lineage_service.plan.from_sql.correlation import carry_outer_values
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, conjuncts, subqueries_in
from lineage_service.plan.from_sql.from_entry import Condition, FromEntry, cross_join, scope_of
from lineage_service.plan.from_sql.generators import Generator, TextOf, explode_rows, read_generator
from lineage_service.plan.from_sql.joins import compile_from, join_order
from lineage_service.plan.from_sql.refusals import check_parts, refuse
from lineage_service.plan.from_sql.scopes import Scope, ScopedRelation
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.from_sql.subqueries import apply_subqueries, keeps_matching_rows

if TYPE_CHECKING:
    from sqlglot import exp


def compile_from_and_where(
    context: SqlContext, select: exp.Expr, ctes: Ctes, parent: Scope | None, *, leave_correlated: bool = False
) -> BlockState:
    """Compiles FROM and WHERE of a SELECT. With `leave_correlated`, conditions that read columns of the enclosing query
    are not applied; they are in `correlated`."""
    check_parts(select)
    entries = compile_from(context, select, ctes, parent)
    plain: list[Condition] = []
    carried: tuple[str, ...] = ()
    outer_values: dict[str, str] = {}
    if parent is not None and parent.offered is not None:
        entries, carried, plain = carry_outer_values(context, select, entries, parent.offered)
        outer_values = dict(zip(parent.offered.names, carried, strict=True))
    plain += [link for entry in entries for link in entry.links]
    scope = replace(scope_of(entries, parent), outer=outer_values)
    views, scope = _lateral_views(context, select, entries, scope)
    texts = ExpressionTexts(context, scope)
    where = select.args.get("where")
    later, correlated = [], []
    lifted = [condition for entry in entries for condition in entry.lifted]
    for condition in [*(conjuncts(where.this) if where is not None else ()), *lifted]:
        refuse_aggregates_and_windows(context, condition, "WHERE")
        _refuse_aliases(condition, select, scope)
        reads, outer = columns_read(condition, scope)
        if any(subqueries_in(condition)):
            later.append(condition)
        elif outer and leave_correlated:
            correlated.append(condition)
        else:
            plain.append((texts.condition(condition), reads))
    joined, rest = _join_entries_by_conditions(context, select, entries, plain)
    node = joined.node
    for view, text_of in views:
        node = explode_rows(context, view, node, text_of)
    block = BlockState(context, ctes, scope, node, texts, correlated, carried)
    block.keep_where(rest, where if where is not None else select)
    # First those that keep rows: the values of the others are computed for fewer rows, and from fewer rows
    # (capture/inferred_predicates.py).
    for condition in sorted(later, key=lambda each: not keeps_matching_rows(each)):
        apply_subqueries(block, condition)
    return block


def _lateral_views(
    context: SqlContext, select: exp.Expr, entries: list[FromEntry], scope: Scope
) -> tuple[list[tuple[Generator, TextOf]], Scope]:
    """The LATERAL VIEWs, each with how its argument is written, and the scope with their columns."""
    views: list[tuple[Generator, TextOf]] = []
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        names = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
        name = alias.name if alias is not None and alias.this is not None else None
        text_of = ExpressionTexts(context, scope).text

        def type_of(column: str) -> str | None:
            return next((kind for each in entries if (kind := column_type(each.node.schema, column))), None)

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


def _join_entries_by_conditions(
    context: SqlContext, select: exp.Expr, entries: list[FromEntry], conditions: list[tuple[str, frozenset[str]]]
) -> tuple[FromEntry, list[str]]:
    """The entries of the comma list joined by the conditions of WHERE that compare them; the other conditions."""
    waiting = list(conditions)
    clause = select.args.get("from_")
    place = clause.this if clause is not None else select
    order = join_order(entries, [reads for _, reads in conditions])
    joined = entries[order[0]]
    for index in order[1:]:
        right = entries[index]
        both = joined.internals | right.internals
        usable = [
            (text, reads)
            for text, reads in waiting
            if reads <= both
            and reads & joined.internals
            and reads & right.internals
            and not context.expression(text, place).is_volatile
        ]
        waiting = [each for each in waiting if each not in usable]
        on = " AND ".join(text for text, _ in usable) or None
        joined = cross_join(context, place, joined, right, on)
    return joined, [text for text, _ in waiting]
