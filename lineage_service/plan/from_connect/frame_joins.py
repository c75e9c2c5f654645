"""Joins of frames: every column has a name of its own in the plan, also where a frame is joined with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lineage_service.plan.from_connect.bound_expressions import conjuncts
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import conjunction, expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.message_expressions import message_expression
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.row_operations import input_frame, keep_where
from lineage_service.plan.from_connect.select_lists import refuse_aggregates_and_windows
from lineage_service.plan.nodes import How, Join, NamedExpression, Node, WithColumns

_HOW: dict[str, How] = {
    "JOIN_TYPE_INNER": "inner", "JOIN_TYPE_FULL_OUTER": "full", "JOIN_TYPE_LEFT_OUTER": "left",
    "JOIN_TYPE_RIGHT_OUTER": "right", "JOIN_TYPE_LEFT_ANTI": "anti", "JOIN_TYPE_LEFT_SEMI": "semi",
    "JOIN_TYPE_CROSS": "cross",
}  # fmt: skip


def compile_join(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """join(), crossJoin()."""
    left = input_frame(context, inner, "left")
    right = beside(context, left, input_frame(context, inner, "right"))
    how = _HOW.get(inner.text("join_type"))
    if how is None:
        raise context.refuse(f"a join of the kind {inner.text('join_type')} is not traced")
    using, condition = inner.texts("using_columns"), inner.message("join_condition")
    if using:
        return _join_by_names(context, left, right, how, using, plan_id)
    node: Node
    if condition is None:
        if how not in ("inner", "cross"):
            return _joined(context, left, right, how, ["true"], plan_id)
        node = context.make(Join, "join", left.node, right.node, "cross", None, ())
        return _both(left, right, node, plan_id)
    bound = Binder(context, (left, right)).bind(condition)
    refuse_aggregates_and_windows(context, bound, "the condition of a join")
    how = "inner" if how == "cross" else how
    left, right, texts, later = _condition(context, left, right, how, conjuncts(bound))
    joined = _joined(context, left, right, how, texts or ["true"], plan_id)
    return replace(joined, node=keep_where(context, joined.node, later)) if later else joined


def beside(context: FrameContext, left: Frame, right: Frame) -> Frame:
    """The right side of a join under names that the left side does not have, as in a join of a frame with itself."""
    taken, identities = set(left.node.schema.names), {each.identity for each in (*left.columns, *left.hidden)}
    shared = [name for name in right.node.schema.names if name in taken]
    again = {
        each.identity: context.identities.fresh()
        for each in (*right.columns, *right.hidden)
        if each.identity in identities
    }
    if not shared:
        return right.renamed({}, again, right.node) if again else right
    internals = {name: context.names.fresh("again", context.names.shown.get(name, name)) for name in shared}
    columns = {internals.get(name, name): name for name in right.node.schema.names}
    return right.renamed(internals, again, context.project("again", right.node, columns))


def _joined(
    context: FrameContext, left: Frame, right: Frame, how: How, texts: Sequence[str], plan_id: int | None
) -> Frame:
    on = context.scalar(conjunction(texts))
    return _both(left, right, context.make(Join, "join", left.node, right.node, how, on, ()), plan_id, how)


def _both(left: Frame, right: Frame, node: Node, plan_id: int | None, how: How = "inner") -> Frame:
    if how in ("semi", "anti"):
        return Frame(node, left.columns, (left, right), plan_id, left.hidden)
    return Frame(node, left.columns + right.columns, (left, right), plan_id, left.hidden + right.hidden)


def _condition(
    context: FrameContext, left: Frame, right: Frame, how: How, conditions: list[Message]
) -> tuple[Frame, Frame, list[str], list[Message]]:
    """The conditions as texts, and those of an inner join that are applied to the joined rows. What only a message can
    compute of one side is a column there."""
    texts: list[str] = []
    later: list[Message] = []
    for each in conditions:
        text, is_exact = expression_text(each)
        if is_exact:
            texts.append(text)
        elif how == "inner":
            later.append(each)
        else:
            reads = set(message_expression(each, context.here).reads)
            if reads <= set(right.node.schema.names) and how in ("left", "semi", "anti"):
                node, text = context.text_in(right.node, each, "on")
                right = replace(right, node=node)
            elif reads <= set(left.node.schema.names) and how == "right":
                node, text = context.text_in(left.node, each, "on")
                left = replace(left, node=node)
            else:
                raise context.refuse(f"the condition of a {how} join has a function that no text of SQL can call; "
                                     "compute it with withColumn() first")  # fmt: skip
            texts.append(text)
    return left, right, texts, later


def _join_by_names(
    context: FrameContext, left: Frame, right: Frame, how: How, using: Sequence[str], plan_id: int | None
) -> Frame:
    """Columns that are compared by name are shown once; references to the joined frames find both."""
    how = "inner" if how == "cross" else how
    pairs = [(single_column(context, left, name), single_column(context, right, name)) for name in using]
    on = " AND ".join(f"{one.internal} = {other.internal}" for one, other in pairs)
    node: Node = context.make(Join, "join", left.node, right.node, how, context.scalar(on), ())
    used = {column.identity for pair in pairs for column in pair}
    rest = [each for each in left.columns if each.identity not in used]
    if how in ("semi", "anti"):
        return Frame(node, (*(one for one, _ in pairs), *rest), (left, right), plan_id, left.hidden)
    rest += [each for each in right.columns if each.identity not in used]
    hidden = [other for _, other in pairs]
    keys = [one for one, _ in pairs]
    if how == "right":
        keys, hidden = hidden, keys
    elif how == "full":
        keys = [context.column(one.name, context.names.fresh("key", one.name or "key")) for one, _ in pairs]
        named = tuple(
            NamedExpression(key.internal, context.scalar(f"coalesce({one.internal}, {other.internal})"))
            for key, (one, other) in zip(keys, pairs, strict=True)
        )
        node = context.make(WithColumns, "using", node, named)
        hidden = [column for pair in pairs for column in pair]
    return Frame(node, (*keys, *rest), (left, right), plan_id, (*hidden, *left.hidden, *right.hidden))


def single_column(context: FrameContext, frame: Frame, name: str) -> FrameColumn:
    found = [column for column in frame.columns if column.is_called(name)]
    if len({column.identity for column in found}) != 1:
        raise context.refuse(f"{'ambiguous' if found else 'unknown'} column '{name}' in a join by names")
    return found[0]
