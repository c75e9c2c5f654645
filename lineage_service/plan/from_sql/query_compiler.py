"""Compiles an sql step to plan nodes: parses the query, resolves names, and compiles each construct to existing nodes.

A construct that cannot be compiled exactly is refused, with its position. sqlglot only parses; its rewriting passes are
not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.errors import Position, Problem
from lineage_service.plan.column_demand import prune_columns
from lineage_service.plan.expressions import Expression
from lineage_service.plan.from_sql.constant_rows import check_set_operations, values_relation
from lineage_service.plan.from_sql.from_and_where import compile_from_and_where
from lineage_service.plan.from_sql.from_tables import compile_derived
from lineage_service.plan.from_sql.ordering import order_and_limit, sort_keys, text_of_result
from lineage_service.plan.from_sql.refusals import SqlRefusal, check_parts, offset_of, refuse
from lineage_service.plan.from_sql.scopes import InternalNames, QueryRelation, Scope, renamed_columns
from lineage_service.plan.from_sql.select_block import compile_select
from lineage_service.plan.from_sql.set_operations import compile_set_operation
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.from_sql.subqueries import attach_subqueries, reuse_subqueries
from lineage_service.plan.nodes import NamedExpression, Node, PlanError, Project, Source
from lineage_service.plan.schema import RESERVED
from lineage_service.plan.unknown_results import unknown_result
from lineage_service.spec.sql_parsing import deep_recursion, parse_query
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.sql_text import SqlText

if TYPE_CHECKING:
    from sqlglot import exp


def compile_sql(
    sql: SqlText, step: str, position: Position | None, tables: Mapping[str, Node], other_tables: Iterable[str] = ()
) -> Node:
    """The last node of a step, which has the step's name; PlanError with what is wrong.

    `other_tables`: sources and steps that the query does not read, which an error for an unknown table names too.

    `tables` are the sources and steps that the query reads. If the columns of one are not known yet, the query is not
    compiled: the node has unknown columns, and reads all tables.
    """
    with deep_recursion():
        context = replace(sql_context(sql, step, tables), other_tables=tuple(other_tables))
        return _compiled(context, sql, position, tables)


def sql_context(
    sql: SqlText, step: str, tables: Mapping[str, Node], *, names: InternalNames | None = None, made: int = 0
) -> SqlContext:
    """A query before it is compiled; `names` and `made`: those of a plan that it becomes a part of."""
    return SqlContext(
        sql, step, tables, compile_query, compile_from_and_where, attach_subqueries, reuse_subqueries,
        InternalNames() if names is None else names, made,
    )  # fmt: skip


def _compiled(context: SqlContext, sql: SqlText, position: Position | None, tables: Mapping[str, Node]) -> Node:
    try:
        tree = parse_query(sql.text)
        if any(not table.schema.known for table in tables.values()):
            return unknown_result(context.step, list(tables.values()), position)
        relation = compile_query(context, tree, {}, None)
        check_set_operations(relation.node)
        result = _named_result(context, tree, relation, position)
        return prune_columns(result, lambda node: node.step == context.step and not isinstance(node, Source))
    except PlanError as error:
        raise PlanError([_in_words_of_the_query(context, each) for each in error.problems]) from None
    except RecursionError:
        problem = Problem("the query is nested too deeply to be compiled", sql.position(0), "split it into steps")
        raise PlanError([problem]) from None
    except (SqlRefusal, SqlSyntaxError) as error:
        problem = Problem(error.message, sql.position(error.offset), error.hint)
        raise PlanError([_in_words_of_the_query(context, problem)]) from None


def _in_words_of_the_query(context: SqlContext, problem: Problem) -> Problem:
    hint = context.names.with_shown(problem.hint) if problem.hint is not None else None
    return replace(problem, message=context.names.with_shown(problem.message), hint=hint)


def compile_query(context: SqlContext, query: exp.Expr, ctes: Ctes, parent: Scope | None) -> QueryRelation:
    """A query or a query inside it, in parentheses or not."""
    from sqlglot import exp

    clause = query.args.get("with_")
    if clause is not None:
        ctes = _with_ctes(context, clause, ctes, parent)
    if isinstance(query, exp.Subquery):
        for key, value in query.args.items():
            if value and key not in ("this", "with_"):
                name = "ORDER BY" if key == "order" else key.strip("_").upper()
                raise refuse(query, f"{name} after a query in parentheses is not supported in sql steps",
                             f"write SELECT * FROM (…) {name} …")  # fmt: skip
        return compile_query(context, query.this, ctes, parent)
    if isinstance(query, exp.Select):
        return compile_select(context, query, ctes, parent)
    if isinstance(query, exp.Union | exp.Intersect | exp.Except):
        return compile_set_operation(context, query, ctes, parent)
    if isinstance(query, exp.Values):
        return _compile_values(context, query)
    raise SqlRefusal("an sql step is one query", context.tokens[0].start, "begin it with SELECT or WITH")


def _compile_values(context: SqlContext, query: exp.Expr) -> QueryRelation:
    """VALUES as a query of its own, which may have an alias, ORDER BY and LIMIT."""
    check_parts(query)
    relation = values_relation(context, query)
    relation = replace(relation, columns=renamed_columns(relation, query.args.get("alias")))
    keys = sort_keys(context, query, relation, lambda each: text_of_result(context, each, relation))
    return replace(relation, node=order_and_limit(context, query, relation.node, keys))


def _with_ctes(context: SqlContext, clause: exp.Expr, ctes: Ctes, parent: Scope | None) -> Ctes:
    """CTEs by name. Each sees those before it: a name inside its own definition means what it meant outside."""
    if clause.args.get("recursive"):
        raise refuse(clause, "a recursive CTE is not supported in sql steps")
    found, names = dict(ctes), set[str]()
    for cte in clause.expressions:
        name = cte.alias.lower()
        if name in names:
            raise refuse(cte, f"two CTEs are called '{cte.alias}'")
        names.add(name)
        relation = compile_derived(context, cte.this, found, parent)
        found[name] = replace(relation, columns=renamed_columns(relation, cte.args.get("alias")))
    return found


def _name_hint(context: SqlContext, entry: exp.Expr) -> str:
    """What to write for a column without a name: one in double quotes is a text in Spark, and was meant as a name."""
    from sqlglot import exp

    if isinstance(entry, exp.Literal) and context.sql.text[offset_of(entry)] == '"':
        return f'"{entry.name}" is a text in Spark SQL: write `{entry.name}` for a column, or give it a name with AS'
    return "give it one with AS"


def _named_result(context: SqlContext, tree: exp.Expr, relation: QueryRelation, position: Position | None) -> Node:
    """The columns under the user's names."""
    seen: set[str] = set()
    select = tree
    while not select.args.get("expressions") and "this" in select.args:
        select = select.this
    for number, column in enumerate(relation.columns):
        entry = select.expressions[number] if len(select.expressions) == len(relation.columns) else tree
        if column.name is None:
            raise refuse(entry, f"column {number + 1} of the result has no name", _name_hint(context, entry))
        if column.name.lower() in seen:
            hint = "rename one with AS"
            if any(each.is_star for each in select.expressions):
                hint = f"leave one out with * EXCEPT ({column.name}), list the columns, or join with USING"
            raise refuse(entry, f"two columns of the result are called '{column.name}'", hint)
        if column.name.lower() == RESERVED:
            raise refuse(entry, f"a column cannot be called '{RESERVED}', which is reserved", "rename it with AS")
        seen.add(column.name.lower())
    named = tuple(NamedExpression(str(each.name), Expression(each.internal, position)) for each in relation.columns)
    return Project(context.step, context.step, position, relation.node, named)
