"""Expressions whose names are resolved: messages of the protocol with two kinds of ours in place of what was a name.

`bound_column`: a column of the plan. `bound_text`: Spark SQL over columns of the plan, from a text of the program;
its `holes` are expressions that names in it stand for, since they are computed elsewhere: aggregates and windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lineage_service.plan import functions
from lineage_service.plan.from_connect.frames import FrameColumn
from lineage_service.plan.from_connect.literals import literal_kind
from lineage_service.plan.from_connect.messages import Message, Value, kind_of

COLUMN, TEXT = "bound_column", "bound_text"


def expression(kind: str, inner: Message) -> Message:
    return Message("Expression", {kind: inner})


def column_expression(column: FrameColumn) -> Message:
    fields: dict[str, Value] = {"internal": column.internal, "identity": column.identity}
    fields |= {"qualifier": column.qualifier} | ({} if column.name is None else {"name": column.name})
    return expression(COLUMN, Message("BoundColumn", fields))


def text_expression(
    text: str, *, name: str | None = None, holes: dict[str, Message] | None = None, function: str | None = None
) -> Message:
    """`function`: the aggregate or window function that the text is a call of."""
    fields: dict[str, Value] = {"text": text, "holes": dict(holes or {})}
    fields |= {} if name is None else {"name": name}
    fields |= {} if function is None else {"function": function}
    return expression(TEXT, Message("BoundText", fields))


def function_expression(name: str, *arguments: Message) -> Message:
    fields: dict[str, Value] = {"function_name": name, "arguments": tuple(arguments)}
    return expression("unresolved_function", Message("Expression.UnresolvedFunction", fields))


def literal_expression(kind: str, value: Value) -> Message:
    return expression("literal", Message("Expression.Literal", {kind: value}))


def field_expression(child: Message, name: str) -> Message:
    """A field of a struct, or an entry of a map, as `column.name` means it. `dotted` tells that it was a name."""
    fields: dict[str, Value] = {"child": child, "extraction": literal_expression("string", name), "dotted": True}
    return expression("unresolved_extract_value", Message("Expression.UnresolvedExtractValue", fields))


def as_column(bound: Message) -> FrameColumn | None:
    """The column that an expression consists of."""
    kind, inner = kind_of(bound)
    if kind != COLUMN:
        return None
    name = inner.get("name")
    qualifier = inner.texts("qualifier")
    return FrameColumn(None if name is None else str(name), inner.text("internal"), inner.number("identity"), qualifier)


def function_name(bound: Message) -> str | None:
    """The name of the function that is called, in lower case."""
    kind, inner = kind_of(bound)
    if kind in ("unresolved_function", "call_function"):
        return inner.text("function_name").lower()
    if kind == TEXT and "function" in inner:
        return inner.text("function")
    return None


def children(bound: Message) -> Iterator[Message]:
    """The expressions inside of one."""
    if COLUMN in bound.fields:
        return
    for each in bound.children():
        yield from _expressions_in(each)


def _expressions_in(message: Message) -> Iterator[Message]:
    if message.type == "Expression":
        yield message
        return
    for each in message.children():
        yield from _expressions_in(each)


def walk(bound: Message) -> Iterator[Message]:
    """An expression and all inside of it."""
    yield bound
    for each in children(bound):
        yield from walk(each)


def rewritten(bound: Message, change: Callable[[Message], Message | None]) -> Message:
    """The expression with others in place of those for which `change` gives one; it is asked for the outermost first,
    and not for what is inside of one that it has changed."""
    if bound.type == "Expression":
        new = change(bound)
        if new is not None:
            return new

    def value_of(value: Value) -> Value:
        if isinstance(value, Message):
            return rewritten(value, change)
        if isinstance(value, tuple):
            return tuple(value_of(each) for each in value)
        if isinstance(value, dict):
            return {key: value_of(each) for key, each in value.items()}
        return value

    return Message(bound.type, {name: value_of(each) for name, each in bound.fields.items()})


def is_aggregate_call(bound: Message) -> bool:
    return function_name(bound) in functions.AGGREGATES


def aggregate_calls(bound: Message) -> Iterator[Message]:
    """The outermost aggregate functions that are not a window's own."""
    kind, inner = kind_of(bound)
    if kind == "window":
        function = inner.message("window_function")
        inside = [] if function is None else list(children(function))
        for name in ("partition_spec", "order_spec"):
            inside += [each for part in inner.messages(name) for each in _expressions_in(part)]
        for each in inside:
            yield from aggregate_calls(each)
        return
    if is_aggregate_call(bound):
        yield bound
        return
    for each in children(bound):
        yield from aggregate_calls(each)


def window_expressions(bound: Message) -> Iterator[Message]:
    """The outermost window expressions."""
    if kind_of(bound)[0] == "window":
        yield bound
        return
    for each in children(bound):
        yield from window_expressions(each)


def is_generator(bound: Message) -> bool:
    return function_name(bound) in functions.GENERATORS


def without_aliases(bound: Message) -> Message:
    """The expression without the names that are given to it; Spark ignores those that are not outermost."""
    kind, inner = kind_of(bound)
    while kind == "alias":
        inside = inner.message("expr")
        assert inside is not None
        bound = inside
        kind, inner = kind_of(bound)
    return bound


def conjuncts(bound: Message) -> list[Message]:
    """The conditions that must all hold, in order."""
    found: list[Message] = []
    waiting = [bound]
    while waiting:
        each = waiting.pop()
        arguments = kind_of(each)[1].messages("arguments") if function_name(each) == "and" else ()
        if len(arguments) == 2:
            waiting += reversed(arguments)
        else:
            found.append(each)
    return found


def literal_value(bound: Message) -> Value | None:
    """The value of a literal; None for anything else."""
    kind, inner = kind_of(bound)
    return literal_kind(inner)[1] if kind == "literal" else None
