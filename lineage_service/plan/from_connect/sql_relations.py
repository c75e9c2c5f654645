"""spark.sql(): a text of SQL over views, tables and data frames, with or without arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lineage_service.errors import Problem, join_names
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.plan.from_sql.constant_rows import check_set_operations
from lineage_service.plan.from_sql.query_compiler import sql_context
from lineage_service.plan.from_sql.refusals import SqlRefusal
from lineage_service.plan.nodes import Node, PlanError
from lineage_service.plan.schema import RESERVED
from lineage_service.spec.sql_parsing import parse_query, table_nodes, tables_of, tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.sql_text import SqlText


def compile_sql_relation(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """The rows of a query. Its tables are what the program's session has under their names."""
    place = context.here or context.position
    text = inner.text("query")
    sql = SqlText(text, place.file if place else "", ((0, *((place.line, place.column) if place else (1, 1))),), False)
    try:
        sql = sql.with_edits(_arguments(context, sql, inner))
        tree = parse_query(sql.text)
        dotted = [each for each in table_nodes(tree, dotted=True) if each.args.get("db") is not None]
        names = {id(each): ".".join(part.name for part in each.parts).lower() for each in dotted}
        plain = {name: context.names.fresh("table", name) for name in dict.fromkeys(names.values())}
        edits = [
            (each.parts[0].meta["start"], each.parts[-1].meta["end"] + 1, plain[names[id(each)]]) for each in dotted
        ]
        if edits:
            sql = sql.with_edits(edits)
            tree = parse_query(sql.text)
        tables = {name: _table(context, name) for name in tables_of(tree) if name not in plain.values()}
        tables |= {new: _table(context, old) for old, new in plain.items()}
        return _compiled(context, sql, tables, plan_id)
    except (SqlRefusal, SqlSyntaxError) as error:
        hint = f"; {context.names.with_shown(error.hint)}" if error.hint else ""
        raise Untraceable(f"in a text of SQL: {context.names.with_shown(error.message)}{hint}", place) from None


def _compiled(context: FrameContext, sql: SqlText, tables: Mapping[str, Node], plan_id: int | None) -> Frame:
    compiler = sql_context(sql, context.step, tables, names=context.names, made=context.made)
    relation = compiler.compile_query(compiler, parse_query(sql.text), {}, None)
    context.made = compiler.made
    check_set_operations(relation.node)
    columns = tuple(context.column(each.name, each.internal) for each in relation.columns)
    return Frame(relation.node, columns, (), plan_id)


def _table(context: FrameContext, name: str) -> Node:
    """What a name in a text stands for, with the columns under the program's names."""
    given = context.table(name)
    if given is None:
        known = join_names(sorted(context.tables))
        raise context.refuse(f"a text of SQL reads '{name}', and it is not known what that is; known: {known}")
    if not isinstance(given, Message):
        return given
    frame = context.compile(context, given)
    seen: set[str] = set()
    for each in frame.columns:
        if each.name is None or each.name.lower() in seen or each.name.lower() == RESERVED:
            raise PlanError([Problem(f"the columns of '{name}' have no names, or the same", context.here)])
        seen.add(each.name.lower())
    shown = {str(each.name): each.internal for each in frame.columns}
    return context.project("view", frame.node, shown)


def _arguments(context: FrameContext, sql: SqlText, inner: Message) -> Iterator[tuple[int, int, str]]:
    """The arguments in the places of `:name` and `?`."""
    named = {**_values(inner, "args"), **_values(inner, "named_arguments")}
    positional = [*inner.messages("pos_args"), *inner.messages("pos_arguments")]
    if not named and not positional:
        return
    tokens, number = tokenize_query(sql.text), 0
    for index, token in enumerate(tokens):
        if positional and token.text == "?" and token.token_type.name == "PLACEHOLDER":
            if number == len(positional):
                raise context.refuse(f"a text of SQL has more than {number} places for arguments")
            yield token.start, token.end + 1, _argument_text(context, positional[number])
            number += 1
        elif token.text == ":" and index + 1 < len(tokens) and tokens[index + 1].start == token.end + 1:
            name = tokens[index + 1]
            if name.text in named and (index == 0 or tokens[index - 1].end + 1 <= token.start):
                yield token.start, name.end + 1, _argument_text(context, named[name.text])


def _values(inner: Message, name: str) -> dict[str, Message]:
    given = inner.get(name)
    return (
        {str(key): each for key, each in given.items() if isinstance(each, Message)}
        if isinstance(given, Mapping)
        else {}
    )


def _argument_text(context: FrameContext, given: Message) -> str:
    bound = given if given.type == "Expression" else Message("Expression", {"literal": given})
    text, is_exact = expression_text(Binder(context, ()).bind(bound))
    if not is_exact:
        raise context.refuse(f"an argument of a text of SQL cannot be written as SQL: {text}")
    return text


def compile_with_relations(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """A relation, and others that its subqueries or its text of SQL read. Spark knows it by the id of either."""
    root = inner.message("root")
    assert root is not None
    with _references(context, inner.messages("references")):
        below = context.compile(context, root)
    return below if plan_id is None else replace(below, inputs=(below,), plan_id=plan_id)


@contextmanager
def _references(context: FrameContext, references: tuple[Message, ...]) -> Iterator[None]:
    tables, by_id = context.tables, context.references
    added: dict[str, Message] = {}
    known: dict[int, Message] = {}
    for each in references:
        kind, inner = kind_of(each)
        below = inner.message("input")
        if kind == "subquery_alias" and below is not None:
            added[inner.text("alias").lower()] = below
        common = each.message("common")
        if common is not None and "plan_id" in common:
            known[common.number("plan_id")] = each
    context.tables, context.references = {**tables, **added}, {**by_id, **known}
    try:
        yield
    finally:
        context.tables, context.references = tables, by_id
