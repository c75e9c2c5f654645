"""Messages of Spark Connect's protocol as plain values, without protobuf: what a program's data frame is made of.

A message has the name of its type and the fields that are set. Values of a field are texts, numbers, booleans, bytes,
messages, tuples of these (repeated fields), and mappings (map fields). An enum is the name of its value.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from lineage_service.spec.sql_parsing import deep_recursion

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
    """The message as a text without loss, to be stored in the catalog."""
    with deep_recursion():
        return json.dumps(_encoded(message), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Message:
    """The message of a text that to_json made. Raises ValueError for any other."""
    with deep_recursion():
        decoded = _decoded(json.loads(text))
    if not isinstance(decoded, Message):
        raise ValueError("the text holds no message")
    return decoded


# The keys under which what JSON has no form for is written. A message is [type, {fields}] under "m".
_MESSAGE, _BYTES, _FLOAT, _MAP = "m", "b", "f", "d"


def _encoded(value: Value) -> Any:
    match value:
        case Message():
            return {_MESSAGE: [value.type, {name: _encoded(each) for name, each in value.fields.items()}]}
        case bytes():
            return {_BYTES: base64.b64encode(value).decode("ascii")}
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {_FLOAT: repr(value)}
        case tuple():
            return [_encoded(each) for each in value]
        case Mapping():
            return {_MAP: [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    raise TypeError(f"a message cannot hold {type(value).__name__}")


def _decoded(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(_decoded(each) for each in value)
    if not isinstance(value, dict):
        if value is None:
            raise ValueError("the text holds no message")
        return value  # type: ignore[no-any-return]
    ((key, inner),) = value.items()
    if key == _MESSAGE:
        name, fields = inner
        return Message(name, {each: _decoded(part) for each, part in fields.items()})
    if key == _BYTES:
        return base64.b64decode(inner)
    if key == _FLOAT:
        return float(inner)
    if key == _MAP:
        return {_decoded(name): _decoded(each) for name, each in inner}
    raise ValueError("the text holds no message")
