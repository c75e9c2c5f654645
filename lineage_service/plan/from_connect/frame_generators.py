"""Functions that return several rows, in select(): explode, posexplode, inline and their outer forms."""

from __future__ import annotations

from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_connect.bound_expressions import as_column, function_name
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import FrameColumn
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_sql.generators import ARRAYS, MAPS
from lineage_service.plan.nested_types import constructor, exploded_type, field_names
from lineage_service.plan.nodes import Explode, NamedExpression, Node, WithColumns

_KINDS = ("explode", "posexplode", "inline")


def explode_rows(
    context: FrameContext, node: Node, call: Message, names: tuple[str, ...]
) -> tuple[Node, list[FrameColumn]]:
    """The rows, one for each element, and the columns of the elements."""
    called = function_name(call) or ""
    kind, is_outer = called.removesuffix("_outer"), called.endswith("_outer")
    arguments = kind_of(call)[1].messages("arguments")
    if kind not in _KINDS or len(arguments) != 1:
        raise context.refuse(f"the rows that {called}() returns are not traced")
    node, text = context.text_in(node, arguments[0], "elements")
    if context.expression(text).is_volatile:
        raise context.refuse(f"{called}() of an expression that is not repeatable, such as rand()")
    type_, is_map = _type_of(context, node, arguments[0], text)
    if kind == "inline":
        fields = field_names(exploded_type(type_)) if type_ is not None else None
        if not fields:
            raise context.refuse("inline() of a column whose type is not known before the run")
    else:
        given = len(names) - (kind == "posexplode")
        if is_map is None and names:
            is_map = given == 2
        elif is_map is None:
            raise context.refuse(f"it is not known whether {called}() has an array or a map: name its columns with "
                                 "alias(…)")  # fmt: skip
        fields = ["key", "value"] if is_map else ["col"]
    made = ["pos", *fields] if kind == "posexplode" else list(fields)
    if names and len(names) != len(made):
        raise context.refuse(f"{len(names)} names for the {len(made)} columns of {called}()")
    is_whole = kind == "explode" and not is_map
    if is_map and kind == "explode":
        text = f"map_entries({text})"
    elif kind == "posexplode":
        values = {"col": "x", "key": "x.key", "value": "x.value"}
        parts = ", ".join(f"'{name}', {values[name]}" for name in fields)
        elements = f"map_entries({text})" if is_map else text
        text = f"transform({elements}, (x, i) -> named_struct('pos', i, {parts}))"
    elif type_ is None:
        text = f"filter({text}, x -> true)"  # no map
    listed = context.names.fresh("each", "elements")
    node = context.make(WithColumns, "elements", node, (NamedExpression(listed, context.scalar(text)),))
    columns = [context.column(name, context.names.fresh("each", name)) for name in names or made]
    if is_whole:
        return context.make(Explode, "explode", node, listed, columns[0].internal, is_outer), columns
    element = context.names.fresh("each", "element")
    node = context.make(Explode, "explode", node, listed, element, is_outer)
    named = tuple(
        NamedExpression(column.internal, context.scalar(f"{element}.{quote_identifier(name)}"))
        for column, name in zip(columns, made, strict=True)
    )
    return context.make(WithColumns, "fields", node, named), columns


def _type_of(context: FrameContext, node: Node, argument: Message, text: str) -> tuple[str | None, bool | None]:
    """The type where it is known, and whether it is a map; None where that is not known."""
    name = function_name(argument)
    if name is not None:
        return None, False if name in ARRAYS else True if name in MAPS else None
    type_ = context.column_type(node, text) if as_column(argument) is not None else None
    made = constructor(type_)
    return (type_, made == "map") if made in ("array", "map") else (None, None)
