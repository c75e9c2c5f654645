"""References to sources and steps, which stand for what a program reads."""

from __future__ import annotations

from lineage_service.errors import join_names
from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import SOURCE_REFERENCE, Message
from lineage_service.plan.schema import ColumnError


def source_reference(name: str, qualifier: tuple[str, ...] = (), plan_id: int | None = None) -> Message:
    """The relation that takes the place of a read; `qualifier` may stand before its columns, as the name of a view."""
    inner = Message(SOURCE_REFERENCE, {"name": name} | ({"qualifier": qualifier} if qualifier else {}))
    common = {} if plan_id is None else {"common": Message("RelationCommon", {"plan_id": plan_id})}
    return Message("Relation", {**common, "source_reference": inner})


def compile_source(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """The rows of a source or step, each column under a name of its own."""
    name = inner.text("name")
    below = context.table(name)
    if below is None:
        raise context.refuse(f"unknown source '{name}'; sources here: {join_names(sorted(context.tables))}")
    if isinstance(below, Message):
        return context.compile(context, below)
    if not below.schema.known:
        raise context.refuse(f"the columns of '{name}' are not known")
    try:
        columns = below.schema.unambiguous_columns()
    except ColumnError as error:
        raise context.refuse(error.message) from None
    internals = {context.names.fresh(name, each.name): each.name for each in columns}
    node = context.project(name, below, {new: quote_identifier(old) for new, old in internals.items()})
    qualifier = inner.texts("qualifier")
    shown = tuple(context.column(old, new, qualifier) for new, old in internals.items())
    return Frame(node, shown, (), plan_id)
