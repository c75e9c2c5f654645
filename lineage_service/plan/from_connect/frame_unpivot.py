"""unpivot(), melt(): a row for each of some columns, with its name and its value."""

from __future__ import annotations

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_connect.bound_expressions import as_column
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.frame_aggregates import repeated
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.literals import string_text
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.row_operations import input_frame
from lineage_service.plan.nodes import NamedExpression, WithColumns


def compile_unpivot(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """Without values, all columns that are no ids."""
    below = input_frame(context, inner)
    binder, given = Binder(context, (below,)), inner.message("values")
    ids = _columns(context, binder.bind_all(inner.messages("ids")))
    if given is None:
        kept = {each.identity for each in ids}
        values = [each for each in below.columns if each.identity not in kept]
    else:
        values = _columns(context, binder.bind_all(given.messages("values")))
    if not values or any(each.name is None for each in values):
        raise context.refuse("unpivot() has no values, or one whose name is not known")
    if len({family(context.type_of(below, each)) for each in values} - {None}) > 1:
        raise context.refuse("unpivot() of columns of different kinds of types")
    node, number = repeated(context, below.node, "unpivot", len(values))
    names = ", ".join(string_text(str(each.name)) for each in values)
    cells = ", ".join(each.internal for each in values)
    shown = [
        (inner.text("variable_column_name"), f"array({names})[{number}]"),
        (inner.text("value_column_name"), f"array({cells})[{number}]"),
    ]
    columns = [context.column(name, context.names.fresh("unpivot", "value")) for name, _ in shown]
    computed = tuple(
        NamedExpression(column.internal, context.scalar(text)) for column, (_, text) in zip(columns, shown, strict=True)
    )
    node = context.make(WithColumns, "unpivoted", node, computed)
    return Frame(node, (*ids, *columns), (below,), plan_id)


def _columns(context: FrameContext, bound: list[Message]) -> list[FrameColumn]:
    found = [as_column(each) for each in bound]
    if any(each is None for each in found):
        raise context.refuse("unpivot() of expressions that are no columns")
    return [each for each in found if each is not None]
