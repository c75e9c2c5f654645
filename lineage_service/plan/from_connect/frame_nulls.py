"""fillna(), dropna() and replace(): which columns they change depends on the types of the columns."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_connect.bound_expressions import column_expression, text_expression
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.literals import literal_kind, literal_text
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.row_operations import input_frame, same_columns
from lineage_service.plan.from_connect.select_lists import SelectEntry, select
from lineage_service.plan.nested_types import constructor
from lineage_service.plan.nodes import Filter

_FLOATING = ("float", "double")
_FAMILIES = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double", "decimal"), "number"),
    "string": "text",
    "boolean": "boolean",
}


def compile_fill(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """fillna(): one value for the columns of its kind, or a value for each column that is named. NaN counts as null."""
    below = input_frame(context, inner)
    names, values = inner.texts("cols"), inner.messages("values")
    if not values or (len(values) > 1 and len(values) != len(names)):
        raise context.refuse("fillna() has no values, or not one for each column")
    by_column: dict[int, Message] = {}
    for number, name in enumerate(names):
        value = values[number] if len(values) > 1 else values[0]
        for column in _called(context, below, name):
            by_column[column.identity] = value
    entries = []
    for column in below.columns:
        value_of = by_column.get(column.identity) if names else values[0]
        if value_of is not None and len(values) == 1 and not _is_of_kind(context, below, column, value_of):
            value_of = None
        entries.append(_entry(column, None if value_of is None else _filled(context, below, column, value_of)))
    return _of_same_types(context, below, select(context, below, entries, plan_id))


def _filled(context: FrameContext, below: Frame, column: FrameColumn, value: Message) -> str:
    type_ = _known_type(context, below, column)
    given = f"nanvl({column.internal}, NULL)" if constructor(type_) in _FLOATING else column.internal
    return f"coalesce({given}, CAST({_literal(context, value)} AS {type_}))"


def compile_replace(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """replace(): values for values, in the columns of the values' kind."""
    below = input_frame(context, inner)
    names, pairs = inner.texts("cols"), []
    for each in inner.messages("replacements"):
        old, new = each.message("old_value"), each.message("new_value")
        assert old is not None
        assert new is not None
        pairs.append((old, new))
    if not pairs:
        return same_columns(below, below.node, plan_id)
    wanted = {column.identity for name in names for column in _called(context, below, name)}
    entries = []
    for column in below.columns:
        changed = (not names or column.identity in wanted) and _is_of_kind(context, below, column, pairs[0][0])
        entries.append(_entry(column, _replaced(context, below, column, pairs) if changed else None))
    return _of_same_types(context, below, select(context, below, entries, plan_id))


def _of_same_types(context: FrameContext, below: Frame, frame: Frame) -> Frame:
    """Notes that the columns still have the types that they had."""
    for old, new in zip(below.columns, frame.columns, strict=True):
        if (type_ := context.type_of(below, old)) is not None:
            context.types[new.internal] = type_
    return frame


def _replaced(
    context: FrameContext, below: Frame, column: FrameColumn, pairs: Sequence[tuple[Message, Message]]
) -> str:
    type_ = _known_type(context, below, column)

    def value(literal: Message) -> str:
        text = _literal(context, literal)
        if family(type_) == "number" and text != "NULL":
            text = f"CAST({text} AS DOUBLE)"
        return f"CAST({text} AS {type_})"

    cases = " ".join(f"WHEN {column.internal} = {value(old)} THEN {value(new)}" for old, new in pairs)
    return f"CASE {cases} ELSE {column.internal} END"


def compile_drop_nulls(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """dropna(): the rows with so many values that are neither null nor NaN."""
    below = input_frame(context, inner)
    names = inner.texts("cols")
    columns = [each for name in names for each in _called(context, below, name)] if names else list(below.columns)
    least = inner.number("min_non_nulls") if "min_non_nulls" in inner else len(columns)
    conditions = []
    for column in columns:
        is_floating = constructor(_known_type(context, below, column)) in _FLOATING
        there = f"{column.internal} IS NOT NULL"
        conditions.append(f"({there} AND NOT isnan({column.internal}))" if is_floating else there)
    if least <= 0:
        return same_columns(below, below.node, plan_id)
    if least == len(conditions):
        text = " AND ".join(conditions)
    elif least == 1:
        text = " OR ".join(conditions)
    else:
        text = " + ".join(f"CASE WHEN {each} THEN 1 ELSE 0 END" for each in conditions) + f" >= {least}"
    return same_columns(below, context.make(Filter, "not_null", below.node, context.scalar(text)), plan_id)


def _called(context: FrameContext, below: Frame, name: str) -> list[FrameColumn]:
    found = [each for each in below.columns if each.is_called(name.strip("`"))]
    if not found:
        raise context.refuse(f"there is no column '{name}'")
    return found


def _entry(column: FrameColumn, text: str | None) -> SelectEntry:
    names = () if column.name is None else (column.name,)
    return SelectEntry(column_expression(column) if text is None else text_expression(text), names)


def _is_of_kind(context: FrameContext, below: Frame, column: FrameColumn, value: Message) -> bool:
    """Whether a value may stand in a column: numbers of any type in columns of numbers."""
    kind, _ = literal_kind(value)
    if kind not in _FAMILIES:
        raise context.refuse(f"a value of the kind {kind} in fillna() or replace() is not traced")
    return family(_known_type(context, below, column)) == _FAMILIES[kind]


def _known_type(context: FrameContext, below: Frame, column: FrameColumn) -> str:
    type_ = context.type_of(below, column)
    if type_ is None:
        raise context.refuse(f"the type of column '{column.name}' is not known before the run")
    return type_


def _literal(context: FrameContext, value: Message) -> str:
    text = literal_text(value)
    if text is None:
        raise context.refuse("a value in fillna() or replace() cannot be written as SQL")
    return text
