"""An expression that Spark evaluates as a message of its protocol, since no text of SQL has the same meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from lineage_service.errors import Position
from lineage_service.plan import functions
from lineage_service.plan.expressions import ColumnRef, Expression
from lineage_service.plan.from_connect.bound_expressions import (
    COLUMN,
    TEXT,
    expression,
    function_name,
    rewritten,
    walk,
)
from lineage_service.plan.from_connect.expression_rendering import expression_text, field_name
from lineage_service.plan.from_connect.literals import quoted
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.untraceable import Untraceable

_NAMING = frozenset({"struct", "arrays_zip"})  # functions that call their fields like their arguments


@dataclass(frozen=True)
class MessageExpression(Expression):
    """`text` is what is shown; `message` is evaluated. It is only a column of its own, never a part of a text.

    reads: the columns of the plan · functions: names of the functions it calls, in lower case · is_stable: whether it
    always has the same value for the same row
    """

    message: Message = field(default=Message("Expression"), hash=False)
    reads: tuple[str, ...] = ()
    functions_called: tuple[str, ...] = ()
    is_stable: bool = True

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return tuple(ColumnRef((name,)) for name in self.reads)

    @property
    def bare_columns(self) -> tuple[ColumnRef, ...]:
        return self.columns

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self.reads)

    @property
    def function_names(self) -> tuple[str, ...]:
        return self.functions_called

    @property
    def repeatable(self) -> bool:
        return self.is_stable and super().repeatable

    @property
    def is_volatile(self) -> bool:
        return not self.is_stable or super().is_volatile

    def _refuse_non_scalar(self) -> None:
        """The text is ours, and is not evaluated."""


def columns_read(bound: Message) -> tuple[str, ...]:
    """The columns of the plan that an expression reads."""
    reads: dict[str, None] = {}
    for each in walk(bound):
        kind, inner = kind_of(each)
        if kind == COLUMN:
            reads[inner.text("internal")] = None
        elif kind == TEXT:
            holes = inner.get("holes")
            known = holes if isinstance(holes, dict) else {}
            found = (ref.parts[0] for ref in Expression(inner.text("text")).columns)
            reads |= {name: None for name in found if name not in known}
    return tuple(reads)


def message_expression(bound: Message, position: Position | None) -> MessageExpression:
    """A bound expression without aggregates, windows and generators."""
    called: dict[str, None] = {}
    is_stable = True
    for each in walk(bound):
        kind, inner = kind_of(each)
        if kind == TEXT:
            called |= dict.fromkeys(Expression(inner.text("text")).function_names)
        elif kind == "subquery_expression":
            raise Untraceable("a subquery of a data frame cannot be traced here", position)
        elif kind == "common_inline_user_defined_function":
            is_stable = is_stable and inner.flag("deterministic")
        elif (name := function_name(each)) is not None and name in functions.KNOWN:
            called[name] = None
    shown, _ = expression_text(bound)
    return MessageExpression(shown, position, executable(bound), columns_read(bound), tuple(called), is_stable)


def executable(bound: Message) -> Message:
    """The message of the protocol that has the value of a bound expression over the columns of the plan."""

    def change(each: Message) -> Message | None:
        kind, inner = kind_of(each)
        if kind == COLUMN:
            fields = {"unparsed_identifier": quoted(inner.text("internal"))}
            return expression("unresolved_attribute", Message("Expression.UnresolvedAttribute", fields))
        if kind == "unresolved_extract_value" and "dotted" in inner:
            plain = Message(inner.type, {name: inner.fields[name] for name in ("child", "extraction")})
            return rewritten(expression(kind, plain), change)
        if kind == TEXT:
            text, _ = expression_text(each)
            return expression("expression_string", Message("Expression.ExpressionString", {"expression": text}))
        if function_name(each) in _NAMING:
            arguments = tuple(_named(argument) for argument in inner.messages("arguments"))
            return Message("Expression", {kind: inner.replaced(arguments=arguments)})
        return None

    def _named(argument: Message) -> Message:
        inside, name = rewritten(argument, change), field_name(argument)
        if name is None or kind_of(argument)[0] == "alias":
            return inside
        return expression("alias", Message("Expression.Alias", {"expr": inside, "name": (name,)}))

    return rewritten(bound, change)
