"""Messages of Spark Connect's protocol as plain values, without protobuf: what a program's data frame is made of.

A message has the name of its type and the fields that are set. Values of a field are texts, numbers, booleans, bytes,
messages, tuples of these (repeated fields), and mappings (map fields). An enum is the name of its value.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

# Recursive, so a string in Union and not the operator.
Value = Union[str, int, float, bool, bytes, "Message", tuple["Value", ...], Mapping[Any, "Value"]]

SOURCE_REFERENCE = "SourceReference"  # a message of ours: a read that a source of the workflow has taken the place of


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `type` is the name in the protocol without its package: `Relation`, `Expression.Literal`."""

    type: str
    fields: Mapping[str, Value] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def get(self, name: str) -> Value | None:
        return self.fields.get(name)

    def message(self, name: str) -> Message | None:
        """A field that holds a message; None where it is not set."""
        value = self.fields.get(name)
        assert value is None or isinstance(value, Message), name
        return value

    def messages(self, name: str) -> tuple[Message, ...]:
        """A repeated field of messages."""
        value = self.fields.get(name, ())
        assert isinstance(value, tuple), name
        return tuple(each for each in value if isinstance(each, Message))

    def text(self, name: str) -> str:
        value = self.fields.get(name, "")
        assert isinstance(value, str), name
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.fields.get(name, ())
        assert isinstance(value, tuple), name
        return tuple(str(each) for each in value)

    def number(self, name: str) -> int:
        value = self.fields.get(name, 0)
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        return bool(self.fields.get(name, False))

    def replaced(self, **fields: Value) -> Message:
        """The same message with other values of some fields."""
        return Message(self.type, {**self.fields, **fields})

    def children(self) -> Iterator[Message]:
        """The messages directly in its fields, in order."""
        for value in self.fields.values():
            yield from _messages_in(value)

    def walk(self) -> Iterator[Message]:
        """This message and all below it; not recursive, since plans are as deep as programs make them."""
        waiting = [self]
        while waiting:
            each = waiting.pop()
            yield each
            waiting += reversed(list(each.children()))


def _messages_in(value: Value) -> Iterator[Message]:
    if isinstance(value, Message):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _messages_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _messages_in(each)


def kind_of(message: Message) -> tuple[str, Message]:
    """The field of the `oneof` that is set, and what it holds: of a Relation its rel_type, of an Expression its
    expr_type. "" where nothing is set."""
    for name, value in message.fields.items():
        if name != "common" and isinstance(value, Message):
            return name, value
    return "", Message(message.type)


def to_json(message: Message) -> str:
    """The message as a text without loss, to be stored in the catalog: a list of messages, each behind those that are
    in it. A plan is as deep as the loops of a program make it, and JSON is read and written recursively."""
    numbers: dict[int, int] = {}
    found: list[Any] = []
    for each in reversed(list(message.walk())):
        if id(each) not in numbers:
            numbers[id(each)] = len(found)
            found.append([each.type, {name: _encoded(value, numbers) for name, value in each.fields.items()}])
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Message:
    """The message of a text that to_json made. Raises ValueError for any other."""
    messages: list[Message] = []
    try:
        for type_, fields in json.loads(text):
            messages.append(Message(type_, {name: _decoded(each, messages) for name, each in fields.items()}))
        return messages[-1]
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        raise ValueError("the text holds no message") from error


# The keys under which what JSON has no form for is written; a message is its number in the list.
_MESSAGE, _BYTES, _FLOAT, _MAP = "m", "b", "f", "d"


def _encoded(value: Value, numbers: Mapping[int, int]) -> Any:
    match value:
        case Message():
            return {_MESSAGE: numbers[id(value)]}
        case bytes():
            return {_BYTES: base64.b64encode(value).decode("ascii")}
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {_FLOAT: repr(value)}
        case tuple():
            return [_encoded(each, numbers) for each in value]
        case Mapping():
            return {_MAP: [[key, _encoded(each, numbers)] for key, each in value.items()]}
    raise TypeError(f"a message cannot hold {type(value).__name__}")


def _decoded(value: Any, messages: Sequence[Message]) -> Value:
    match value:
        case list():
            return tuple(_decoded(each, messages) for each in value)
        case bool() | int() | float():
            return value
        case str():
            return value
        case {"m": int(number)}:
            return messages[number]
        case {"b": str(text)}:
            return base64.b64decode(text)
        case {"f": str(text)}:
            return float(text)
        case {"d": pairs}:
            return {key: _decoded(each, messages) for key, each in pairs}
    raise ValueError("the text holds no message")
