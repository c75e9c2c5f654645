"""Relations that keep rows as they are: filter, sort, limit, offset, repartition, hints, aliases."""

from __future__ import annotations

from dataclasses import replace

from lineage_service.plan.expressions import SortKey
from lineage_service.plan.from_connect.bound_expressions import conjuncts
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import conjunction, expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frame_subqueries import attach_scalars, keep_where_subquery, subqueries_of
from lineage_service.plan.from_connect.frame_windows import directions
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.message_expressions import columns_read
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.select_lists import refuse_aggregates_and_windows
from lineage_service.plan.nodes import Filter, Limit, NamedExpression, Node, Project, Sort

_HINTS = {"broadcast": "broadcast", "broadcastjoin": "broadcast", "mapjoin": "broadcast", "merge": "merge",
          "shuffle_merge": "merge", "mergejoin": "merge", "shuffle_hash": "shuffle_hash",
          "shuffle_replicate_nl": "shuffle_replicate_nl"}  # fmt: skip


def input_frame(context: FrameContext, inner: Message, name: str = "input") -> Frame:
    """The frame that a relation is over."""
    given = inner.message(name)
    if given is None:
        raise context.refuse("the relation has no input")
    return context.compile(context, given)


def same_columns(below: Frame, node: Node, plan_id: int | None) -> Frame:
    """A frame of the same columns over a node."""
    return Frame(node, below.columns, (below,), plan_id, below.hidden, "transparent")


def compile_filter(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """filter(), where(). Conditions that only a message has are computed behind those before them, as Spark does."""
    below = input_frame(context, inner)
    condition = inner.message("condition")
    assert condition is not None
    bound = Binder(context, (below,), below=True).bind(condition)
    refuse_aggregates_and_windows(context, bound, "a filter")
    node, plain, lifted = below.node, list[Message](), list[Message]()
    for each in conjuncts(bound):
        if context.enclosing and reads_outside(below.node, each):
            lifted.append(each)
            continue
        if not subqueries_of(each):
            plain.append(each)
            continue
        node, plain = keep_where(context, node, plain), []
        joined = keep_where_subquery(context, below, node, each)
        if joined is None:
            joined, compared = attach_scalars(context, below, node, [each])
            joined = keep_where(context, joined, list(compared))
        node = joined
    frame = same_columns(below, keep_where(context, node, plain), plan_id)
    return replace(frame, lifted=tuple(lifted))


def reads_outside(node: Node, bound: Message) -> bool:
    """Whether an expression reads a column that a node does not have: one of the frame around a subquery."""
    return any(node.schema.find(name) is None for name in columns_read(bound))


def keep_where(context: FrameContext, node: Node, conditions: list[Message]) -> Node:
    """The rows for which all conditions hold."""
    texts: list[str] = []

    def filtered(below: Node) -> Node:
        if not texts:
            return below
        made = context.make(Filter, "filter", below, context.scalar(conjunction(texts)))
        texts.clear()
        return made

    for each in conditions:
        text, is_exact = expression_text(each)
        if not is_exact:
            node, text = context.text_in(filtered(node), each, "condition")
        texts.append(text)
    return filtered(node)


def compile_sort(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """orderBy(); sortWithinPartitions() has no effect on which rows there are."""
    below = input_frame(context, inner)
    binder, node, keys = Binder(context, (below,), below=True), below.node, []
    for each in inner.messages("order"):
        child = each.message("child")
        assert child is not None
        bound = binder.bind(child)
        refuse_aggregates_and_windows(context, bound, "a sort")
        node, text = context.text_in(node, bound, "order")
        keys.append(SortKey(context.scalar(text), *directions(each)))
    if inner.flag("is_global") and keys:
        node = context.make(Sort, "sort", node, tuple(keys))
    return same_columns(below, node, plan_id)


def compile_limit(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    below = input_frame(context, inner)
    return same_columns(below, _limited(context, below.node, inner.number("limit"), 0), plan_id)


def compile_offset(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    below = input_frame(context, inner)
    return same_columns(below, _limited(context, below.node, None, inner.number("offset")), plan_id)


def _limited(context: FrameContext, node: Node, most: int | None, offset: int) -> Node:
    """The first rows: in their order, where the rows below are sorted."""
    if isinstance(node, Sort) and node.step == context.step:
        return context.make(Limit, "limit", node.input, most, node.by, offset)
    if isinstance(node, Limit) and node.n is None and most is not None and node.step == context.step:
        return context.make(Limit, "limit", node.input, most, node.by, node.offset)
    return context.make(Limit, "limit", node, most, (), offset)


def compile_unchanged(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """Relations that change neither rows nor columns."""
    below = input_frame(context, inner)
    return same_columns(below, below.node, plan_id)


def compile_repartition_by(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    below = input_frame(context, inner)
    for each in inner.messages("partition_exprs"):
        Binder(context, (below,), below=True).bind(each)
    return same_columns(below, below.node, plan_id)


def compile_hint(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    below = input_frame(context, inner)
    hint = _HINTS.get(inner.text("name").lower())
    if hint is None:
        return same_columns(below, below.node, plan_id)
    columns = tuple(NamedExpression(name, context.expression(name)) for name in below.node.schema.names)
    return same_columns(below, context.make(Project, "hint", below.node, columns, hint), plan_id)


def compile_alias(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """alias(): its name may stand before the columns, instead of those that could before."""
    below = input_frame(context, inner)
    qualifier = (*inner.texts("qualifier"), inner.text("alias"))
    columns = tuple(replace(each, qualifier=qualifier) for each in below.columns)
    return Frame(below.node, columns, (below,), plan_id, (), "closed")
