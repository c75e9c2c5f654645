"""Set operations, distinct rows, and one row for each value of some columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.row_operations import input_frame
from lineage_service.plan.nodes import Aggregate, Difference, Distinct, Intersect, NamedExpression, Node, Union


def compile_set_operation(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """union(), unionByName(), intersect(), exceptAll() and so on: by position, or by name."""
    left, right = input_frame(context, inner, "left_input"), input_frame(context, inner, "right_input")
    kind, is_all, by_name = inner.text("set_op_type"), inner.flag("is_all"), inner.flag("by_name")
    pairs: list[tuple[FrameColumn | None, FrameColumn | None]]
    if by_name:
        pairs = _pairs_by_name(context, left, right, inner.flag("allow_missing_columns"))
    elif len(left.columns) != len(right.columns):
        raise context.refuse(f"a set operation of {len(left.columns)} and {len(right.columns)} columns")
    else:
        pairs = list(zip(left.columns, right.columns, strict=True))
    names = [context.names.fresh("set", (one or other or left.columns[0]).name or "column") for one, other in pairs]
    sides = [
        context.project(
            "side",
            frame.node,
            {new: _text(context, pair[side], pair[1 - side], other) for new, pair in zip(names, pairs, strict=True)},
        )
        for side, (frame, other) in enumerate(((left, right), (right, left)))
    ]
    for name, (one, other) in zip(names, pairs, strict=True):
        types = {context.type_of(left, one) if one else None, context.type_of(right, other) if other else None}
        context.types.pop(name, None)
        if len(types) == 1 and None not in types:
            context.types |= dict.fromkeys((name,), str(*types))
    columns = tuple(
        replace(one, internal=name) if one is not None else context.column(other.name if other else None, name)
        for name, (one, other) in zip(names, pairs, strict=True)
    )
    node: Node
    if kind == "SET_OP_TYPE_UNION":
        node = context.make(Union, "union", tuple(sides), not by_name)
        node = node if is_all else context.make(Distinct, "distinct", node)
        return Frame(node, columns, (left, right), plan_id, (), "union")
    if kind not in ("SET_OP_TYPE_INTERSECT", "SET_OP_TYPE_EXCEPT"):
        raise context.refuse(f"a set operation of the kind {kind} is not traced")
    made: type[Intersect] | type[Difference] = Intersect if kind == "SET_OP_TYPE_INTERSECT" else Difference
    node = context.make(made, "intersect" if made is Intersect else "except", *sides, is_all)
    return Frame(node, columns, (left, right), plan_id)


def _pairs_by_name(
    context: FrameContext, left: Frame, right: Frame, allow_missing: bool
) -> list[tuple[FrameColumn | None, FrameColumn | None]]:
    pairs: list[tuple[FrameColumn | None, FrameColumn | None]] = []
    for frame in (left, right):
        names = [(column.name or "").lower() for column in frame.columns]
        if len(set(names)) < len(names) or "" in names:
            raise context.refuse("unionByName() of a data frame in which two columns have the same name")
    for one in left.columns:
        other = next((each for each in right.columns if one.name and each.is_called(one.name)), None)
        if other is None and not allow_missing:
            raise context.refuse(f"unionByName(): the other data frame has no column '{one.name}'")
        pairs.append((one, other))
    known = {id(other) for _, other in pairs}
    rest = [each for each in right.columns if id(each) not in known]
    if rest and not allow_missing:
        raise context.refuse(f"unionByName(): the data frame has no column '{rest[0].name}', which the other has")
    return [*pairs, *((None, each) for each in rest)]


def _text(context: FrameContext, own: FrameColumn | None, other: FrameColumn | None, other_frame: Frame) -> str:
    """A column of one side; null where it has none."""
    if own is not None:
        return own.internal
    assert other is not None
    type_ = context.type_of(other_frame, other)
    return "NULL" if type_ is None else f"CAST(NULL AS {type_})"


def compile_deduplicate(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """distinct(), dropDuplicates(): every row of a group contributes. Of a subset of the columns, the others are those
    of any row of the group, as Spark takes them: `first` of each."""
    below = input_frame(context, inner)
    if inner.flag("within_watermark"):
        raise context.refuse("dropDuplicatesWithinWatermark() is only for streams")
    wanted = inner.texts("column_names")
    if not wanted or inner.flag("all_columns_as_keys"):
        return distinct(context, below, plan_id)
    keys: list[FrameColumn] = []
    for name in wanted:
        found = [each for each in below.columns if each.is_called(name)]
        if not found:
            raise context.refuse(f"dropDuplicates(): there is no column '{name}'")
        keys += found
    return first_of_groups(context, below, keys, plan_id)


def distinct(context: FrameContext, below: Frame, plan_id: int | None) -> Frame:
    renewed = context.renewed(below, "distinct")
    node = context.make(Distinct, "distinct", renewed.node)
    return Frame(node, renewed.columns, (below,), plan_id)


def first_of_groups(context: FrameContext, below: Frame, keys: Sequence[FrameColumn], plan_id: int | None) -> Frame:
    """A row for each group of equal keys."""
    by = {each.internal: NamedExpression(each.internal, context.expression(each.internal)) for each in keys}
    measures: dict[str, NamedExpression] = {}
    columns = []
    for each in below.columns:
        if each.internal in by:
            columns.append(each)
            continue
        name = context.names.fresh("first", each.name or "column")
        measures[name] = NamedExpression(name, context.expression(f"first({each.internal})"))
        if (type_ := context.type_of(below, each)) is not None:
            context.types[name] = type_
        columns.append(replace(each, internal=name))
    node = context.make(Aggregate, "deduplicate", below.node, tuple(by.values()), tuple(measures.values()))
    return Frame(node, tuple(columns), (below,), plan_id)
