"""Relations that change columns: withColumns, withColumnsRenamed, drop, toDF, to(schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lineage_service.plan.from_connect.bound_expressions import (
    aggregate_calls,
    as_column,
    column_expression,
    expression,
    literal_expression,
)
from lineage_service.plan.from_connect.data_types import type_text
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.row_operations import input_frame
from lineage_service.plan.from_connect.select_lists import SelectEntry, entry_of, select
from lineage_service.plan.from_connect.untraceable import Untraceable


def compile_with_columns(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """withColumns(): in place of the columns of the same name, or at the end."""
    below = input_frame(context, inner)
    binder = Binder(context, (below,))
    new: dict[str, SelectEntry] = {}
    for each in inner.messages("aliases"):
        given = each.message("expr")
        assert given is not None
        entry = entry_of(binder.bind(given))
        (name,) = each.texts("name")
        if name.lower() in new:
            raise context.refuse(f"two new columns are called '{name}'")
        new[name.lower()] = SelectEntry(entry.bound, (name,))
        refuse_aggregates(context, entry.bound)
    made = select(context, below, list(new.values()), plan_id)
    by_name = dict(zip(new, made.columns, strict=True))
    columns = [by_name.get((each.name or "").lower(), each) for each in below.columns]
    known = {(each.name or "").lower() for each in below.columns}
    columns += [each for name, each in by_name.items() if name not in known]
    return replace(made, columns=tuple(columns))


def refuse_aggregates(context: FrameContext, bound: Message) -> None:
    if any(aggregate_calls(bound)):
        raise context.refuse("withColumn() has an aggregate function without a window")


def compile_renamed(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """withColumnsRenamed(): one after the other; a name that no column has is passed over."""
    below = input_frame(context, inner)
    renames = [(each.text("col_name"), each.text("new_col_name")) for each in inner.messages("renames")]
    given = inner.get("rename_columns_map")
    if isinstance(given, Mapping):
        renames += [(str(old), str(new)) for old, new in given.items()]
    columns = list(below.columns)
    for old, new in renames:
        columns = [context.column(new, each.internal) if each.is_called(old) else each for each in columns]
    return Frame(below.node, tuple(columns), (below,), plan_id, below.hidden, "project")


def compile_drop(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """drop(): by name, or the columns themselves; what is no column here is passed over."""
    below = input_frame(context, inner)
    dropped = set[int]()
    for each in inner.messages("columns"):
        try:
            column = as_column(Binder(context, (below,)).bind(each))
        except Untraceable as error:
            if "ambiguous" in error.reason:
                raise
            continue
        if column is not None:
            dropped.add(column.identity)
    for name in inner.texts("column_names"):
        dropped |= {each.identity for each in below.columns if each.is_called(name)}
    columns = tuple(each for each in below.columns if each.identity not in dropped)
    return Frame(below.node, columns, (below,), plan_id, below.hidden, "project")


def compile_to_df(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """toDF(): all columns under other names."""
    below = input_frame(context, inner)
    names = inner.texts("column_names")
    if len(names) != len(below.columns):
        raise context.refuse(f"toDF() has {len(names)} names for {len(below.columns)} columns")
    columns = tuple(context.column(new, each.internal) for new, each in zip(names, below.columns, strict=True))
    return Frame(below.node, columns, (below,), plan_id, (), "closed")


def compile_to_schema(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """to(schema): the columns of the schema in its order, cast to its types."""
    below = input_frame(context, inner)
    schema = inner.message("schema")
    kind, struct = kind_of(schema) if schema is not None else ("", inner)
    if kind != "struct":
        raise context.refuse("to() of a schema that is no struct")
    entries = []
    for field in struct.messages("fields"):
        name, type_ = field.text("name"), field.message("data_type")
        found = [each for each in below.columns if each.is_called(name)]
        if len(found) > 1 or type_ is None:
            raise context.refuse(f"to(): column '{name}' is ambiguous")
        named = type_text(type_)
        if not found and not field.flag("nullable"):
            raise context.refuse(f"to(): there is no column '{name}', and it may not be null")
        if named is None or "<" in named:
            raise context.refuse(f"to(): the fields of '{name}' are matched by their names, which is not traced yet")
        value = column_expression(found[0]) if found else _null()
        entries.append(SelectEntry(_cast(value, type_), (name,)))
    return replace(select(context, below, entries, plan_id), opening="closed")


def _null() -> Message:
    return literal_expression("null", Message("DataType", {"null": Message("DataType.NULL")}))


def _cast(value: Message, type_: Message) -> Message:
    return expression("cast", Message("Expression.Cast", {"expr": value, "type": type_}))
