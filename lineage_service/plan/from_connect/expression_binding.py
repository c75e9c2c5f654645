"""Expressions of the protocol to bound expressions: every name is resolved to a column of the plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_service.errors import Position
from lineage_service.plan.from_connect.bound_expressions import (
    column_expression,
    expression,
    field_expression,
    function_expression,
    is_generator,
    literal_expression,
    walk,
)
from lineage_service.plan.from_connect.column_resolution import FoundColumn, parse_name, resolve, star_columns
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.messages import Message, Value, kind_of
from lineage_service.plan.from_connect.sql_fragments import bind_fragment
from lineage_service.plan.from_connect.untraceable import UnknownFrameColumn, Untraceable
from lineage_service.plan.nested_types import field_names, field_type

_CALL_SITE = re.compile(r"(?P<file>.+):(?P<line>\d+)\s*$")
_ROW_BY_ROW = frozenset({100, 101, 200, 204, 250, 251})  # eval types of UDFs that give one value for each row
_GROUPED = "a user-defined function over groups of rows: which rows a value comes from is not known"


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds expressions over the rows of some frames.

    below: whether columns that a projection has left out may be meant, as in filter() and sort()
    """

    context: FrameContext
    inputs: tuple[Frame, ...]
    below: bool = False

    def bind(self, given: Message) -> Message:
        """One expression that stands for one value."""
        bound = self._bind(given)
        if len(bound) != 1:
            raise self._refuse(given, f"'*' is {len(bound)} columns, and one is needed here")
        return bound[0]

    def bind_all(self, given: Sequence[Message]) -> list[Message]:
        """Expressions of a list, in which stars stand for several."""
        return [each for one in given for each in self._bind(one)]

    def resolve(self, identifier: str, plan_id: int | None, position: Position | None) -> Message:
        found = self.find(parse_name(identifier, position), plan_id, position)
        bound = column_expression(found.column)
        for name in found.fields:
            bound = field_expression(bound, name)
        return bound

    def find(self, parts: tuple[str, ...], plan_id: int | None, position: Position | None) -> FoundColumn:
        inputs = self.inputs
        while True:
            try:
                found = resolve(parts, inputs, plan_id, position)
            except Untraceable as error:
                if (
                    self.context.enclosing
                    and plan_id is None
                    and inputs is self.inputs
                    and "ambiguous" not in error.reason
                ):
                    return resolve(parts, self.context.enclosing, None, position)
                if not isinstance(error, UnknownFrameColumn):
                    raise
                if not (self.below and len(inputs) == 1 and inputs[0].opening in ("project", "transparent")):
                    raise
                inputs = inputs[0].inputs
            else:
                if all(each.node.schema.find(found.column.internal) is None for each in self.inputs):
                    raise Untraceable(f"column '{'.'.join(parts)}' is no longer part of the data frame", position)
                return found

    def _bind(self, given: Message) -> list[Message]:
        kind, inner = kind_of(given)
        position = self.position_of(given)
        match kind:
            case "unresolved_attribute":
                if inner.flag("is_metadata_column"):
                    raise self._refuse(given, "columns of a file's metadata are not traced")
                plan_id = inner.number("plan_id") if "plan_id" in inner else None
                return [self.resolve(inner.text("unparsed_identifier"), plan_id, position)]
            case "unresolved_star":
                return self._star(inner, position)
            case "unresolved_regex":
                return [column_expression(each) for each in self._matching(inner, position)]
            case "expression_string":
                return bind_fragment(self.context, self.inputs, inner.text("expression"), position, self.find)
            case "literal" | "unresolved_named_lambda_variable":
                return [expression(kind, inner)]
            case "unresolved_function" | "call_function":
                return [self._function(given, kind, inner)]
            case "common_inline_user_defined_function":
                return [self._user_function(given, kind, inner)]
            case (
                "alias"
                | "cast"
                | "sort_order"
                | "lambda_function"
                | "window"
                | "unresolved_extract_value"
                | ("update_fields" | "named_argument_expression" | "subquery_expression")
            ):
                return [expression(kind, self._inside(inner))]
            case "typed_aggregate_expression":
                raise self._refuse(given, _GROUPED)
        raise self._refuse(given, f"an expression of the kind {kind or 'unknown'} cannot be traced")

    def _inside(self, message: Message) -> Message:
        """A message whose expressions are bound."""

        def value_of(value: Value) -> Value:
            if isinstance(value, Message):
                return self.bind(value) if value.type == "Expression" else self._inside(value)
            if isinstance(value, tuple):
                return tuple(value_of(each) for each in value)
            return value

        return Message(message.type, {name: value_of(value) for name, value in message.fields.items()})

    def _star(self, inner: Message, position: Position | None) -> list[Message]:
        target = inner.text("unparsed_target").removesuffix(".*")
        parts = parse_name(target, position) if target else ()
        plan_id = inner.number("plan_id") if "plan_id" in inner else None
        found = star_columns(self.inputs, parts, plan_id, position)
        if isinstance(found, FoundColumn):
            return self._fields(found, target, position)
        return [column_expression(each) for each in found]

    def _fields(self, found: FoundColumn, target: str, position: Position | None) -> list[Message]:
        """The fields of a struct, each under its name."""
        types = (self.context.column_type(each.node, found.column.internal) for each in self.inputs)
        names = field_names(field_type(next((each for each in types if each is not None), None), found.fields))
        if not names:
            raise Untraceable(f"'{target}.*': the fields of the struct are not known before the run", position)
        bound = column_expression(found.column)
        for name in found.fields:
            bound = field_expression(bound, name)
        return [field_expression(bound, name) for name in names]

    def _matching(self, inner: Message, position: Position | None) -> list[FrameColumn]:
        pattern = inner.text("col_name").strip("`")
        found = star_columns(self.inputs, (), inner.number("plan_id") if "plan_id" in inner else None, position)
        assert isinstance(found, tuple)
        try:
            return [each for each in found if each.name and re.fullmatch(pattern, each.name, re.IGNORECASE)]
        except re.error:
            raise Untraceable(f"the pattern {pattern!r} of colRegex() cannot be read", position) from None

    def _function(self, given: Message, kind: str, inner: Message) -> Message:
        name = inner.text("function_name")
        if kind == "unresolved_function" and inner.flag("is_user_defined_function"):
            raise self._refuse(given, f"{name}() is a function of the session: what it computes is not known")
        if "." in name:
            raise self._refuse(given, f"{name}() is a function of a catalog: what it computes is not known")
        if name.lower() == "count" and _counts_rows(inner):
            return function_expression("count", literal_expression("integer", 1))
        arguments = tuple(self.bind_all(inner.messages("arguments")))
        if any(is_generator(part) for each in arguments for part in walk(each)):
            raise self._refuse(given, "a function that returns several rows stands inside another")
        return expression(kind, inner.replaced(arguments=arguments))

    def _user_function(self, given: Message, kind: str, inner: Message) -> Message:
        udf = inner.message("python_udf")
        name = inner.text("function_name")
        if udf is None:
            raise self._refuse(given, f"{name}() is no Python function: what it computes is not known")
        if udf.number("eval_type") not in _ROW_BY_ROW:
            raise self._refuse(given, f"{name}() is {_GROUPED}")
        return expression(kind, inner.replaced(arguments=tuple(self.bind_all(inner.messages("arguments")))))

    def position_of(self, given: Message) -> Position | None:
        """The line of the program that made an expression, where the protocol tells it."""
        common = given.message("common")
        origin = common.message("origin") if common is not None else None
        python = origin.message("python_origin") if origin is not None else None
        found = _CALL_SITE.match(python.text("call_site")) if python is not None else None
        return Position(found["file"], int(found["line"]), 1) if found is not None else self.context.here

    def _refuse(self, given: Message, reason: str) -> Untraceable:
        return Untraceable(reason, self.position_of(given))


def _counts_rows(inner: Message) -> bool:
    """Whether it is count(*), which Spark makes count(1)."""
    arguments = inner.messages("arguments")
    if len(arguments) != 1 or inner.flag("is_distinct"):
        return False
    kind, star = kind_of(arguments[0])
    return kind == "unresolved_star" and "unparsed_target" not in star and "plan_id" not in star
