"""groupBy(), rollup(), cube(), groupingSets() and pivot()."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from lineage_service.plan.from_connect.bound_expressions import function_name, text_expression
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frame_groups import GroupKey, group_keys, group_rows
from lineage_service.plan.from_connect.frame_pivots import compile_pivot
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.result_names import result_name
from lineage_service.plan.from_connect.row_operations import input_frame
from lineage_service.plan.from_connect.select_lists import (
    SelectEntry,
    entry_of,
    refuse_aggregates_and_windows,
    select,
)
from lineage_service.plan.from_sql.grouping_sets import GroupingSet, MultipliedRows
from lineage_service.plan.nodes import Explode, NamedExpression, Node, WithColumns

_MOST_SETS = 4096


def compile_aggregate(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """The keys, and what is computed of each group."""
    below = input_frame(context, inner)
    binder = Binder(context, (below,))
    given = [entry_of(each) for each in binder.bind_all(inner.messages("grouping_expressions"))]
    measures = [entry_of(each) for each in binder.bind_all(inner.messages("aggregate_expressions"))]
    for each in given:
        refuse_aggregates_and_windows(context, each.bound, "groupBy()")
    kind = inner.text("group_type").removeprefix("GROUP_TYPE_")
    if kind == "PIVOT":
        named = [_with_name(below.node, each) for each in (*given, *measures)]
        return compile_pivot(context, below, inner, named[: len(given)], named[len(given) :], plan_id)
    named = [_with_name(below.node, each) for each in given]
    node, keys = group_keys(context, below.node, [(each.bound, _name_of(each)) for each in named])
    readers = [*(each.bound for each in given), *(each.bound for each in measures)]
    names = [each.names for each in named] + [_with_name(below.node, each).names for each in measures]
    sets = _sets(context, binder, inner, kind, keys)
    if sets is None:
        grouped = group_rows(context, node, keys, readers)
    else:
        node, multiplied = _multiplied(context, node, sets)
        keys = [_key_of_sets(context, key, number, multiplied) for number, key in enumerate(keys)]
        extra = (NamedExpression(multiplied.column, context.expression(multiplied.column)),)
        grouped = group_rows(
            context, node, keys, readers, extra, lambda call: _grouping(context, call, keys, multiplied)
        )
    rows = Frame(grouped.node, (), (below,))
    entries = [SelectEntry(new, name) for new, name in zip(grouped.expressions, names, strict=True)]
    frame = select(context, rows, entries, plan_id)
    return Frame(frame.node, frame.columns, (below,), plan_id)


def _with_name(node: Node, entry: SelectEntry) -> SelectEntry:
    if entry.names:
        return entry
    name = result_name(node, entry.bound)
    return SelectEntry(entry.bound, () if name is None else (name,))


def _name_of(entry: SelectEntry) -> str | None:
    return entry.names[0] if entry.names else None


def _sets(
    context: FrameContext, binder: Binder, inner: Message, kind: str, keys: Sequence[GroupKey]
) -> tuple[GroupingSet, ...] | None:
    every = range(len(keys))
    match kind:
        case "GROUPBY":
            return None
        case "ROLLUP":
            sets = tuple(tuple(range(count)) for count in range(len(keys), -1, -1))
        case "CUBE" if 2 ** len(keys) <= _MOST_SETS:
            sets = tuple(chosen for count in range(len(keys), -1, -1) for chosen in combinations(every, count))
        case "GROUPING_SETS":
            numbers = {_text_of(key.bound): number for number, key in reversed(list(enumerate(keys)))}
            found = []
            for each in inner.messages("grouping_sets"):
                texts = [_text_of(binder.bind(one)) for one in each.messages("grouping_set")]
                if any(text not in numbers for text in texts):
                    raise context.refuse("a grouping set has an expression that groupingSets() does not list as a key")
                found.append(tuple(dict.fromkeys(numbers[text] for text in texts)))
            sets = tuple(found)
        case _:
            raise context.refuse(f"groups of the kind {kind} are not traced")
    if sets == ((),):
        return None
    if not keys or len(sets) > _MOST_SETS:
        raise context.refuse("grouping sets without any key, or too many of them, are not traced")
    return sets


def _text_of(bound: Message) -> str:
    return expression_text(bound)[0]


def _multiplied(context: FrameContext, node: Node, sets: Sequence[GroupingSet]) -> tuple[Node, MultipliedRows]:
    """Every row once for each set, with the number of the set."""
    node, number = repeated(context, node, "grouping_set", len(sets))
    return node, MultipliedRows(tuple(sets), number)


def repeated(context: FrameContext, node: Node, what: str, count: int) -> tuple[Node, str]:
    """Every row so often, and the column with the number of the copy."""
    listed, number = context.names.fresh(what, "numbers"), context.names.fresh(what, "number")
    array = context.scalar(f"array({', '.join(map(str, range(count)))})")
    node = context.make(WithColumns, "numbers", node, (NamedExpression(listed, array),))
    return context.make(Explode, what, node, listed, number, False), number


def _key_of_sets(context: FrameContext, key: GroupKey, number: int, multiplied: MultipliedRows) -> GroupKey:
    """A key that is null in the sets without it. Aggregate functions still read the column that it is made of."""
    if context.scalar(key.text).is_volatile:
        raise context.refuse("grouping sets by an expression that is not repeatable, such as rand()")
    internal = context.names.fresh("key", key.column.name or "value")
    column = context.column(key.column.name, internal, key.column.qualifier)
    return GroupKey(key.bound, column, multiplied.key_text(number, key.text))


def _grouping(
    context: FrameContext, call: Message, keys: Sequence[GroupKey], multiplied: MultipliedRows
) -> Message | None:
    """grouping() and grouping_id() as expressions over the number of the set."""
    name = function_name(call)
    if name not in ("grouping", "grouping_id"):
        return None
    numbers = {_text_of(key.bound): number for number, key in enumerate(keys)}
    arguments = [_text_of(each) for each in kind_of(call)[1].messages("arguments")]
    if any(each not in numbers for each in arguments) or (name == "grouping" and len(arguments) != 1):
        raise context.refuse(f"the arguments of {name}() are no keys of the groups")
    listed = [numbers[each] for each in arguments]
    if name == "grouping":
        return text_expression(f"CAST({multiplied.grouping_id(listed)} AS TINYINT)")
    if listed and listed != list(range(len(keys))):
        raise context.refuse("grouping_id() takes all keys in their order")
    return text_expression(f"({multiplied.grouping_id(list(range(len(keys))))})")
