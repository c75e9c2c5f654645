"""Protobuf messages of Spark Connect to plain messages (plan/from_connect/messages.py) and back, by their descriptors.

Nothing here knows a single message: what a newer Spark adds is carried along, and the compiler decides about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from lineage_service.plan.from_connect.messages import Message, Value
from lineage_service.spec.sql_parsing import deep_recursion

_PACKAGE = "spark.connect."


def plain_message(proto: Any) -> Message:
    """A protobuf message with all fields that are set. Those without presence are set where they differ from their
    default."""
    with deep_recursion():
        return _plain(proto)


def protobuf_message(message: Message) -> Any:
    """The protobuf message that plain_message() has made a plain one of."""
    with deep_recursion():
        proto = _class_of(message.type)()
        _fill(proto, message)
        return proto


def _plain(proto: Any) -> Message:
    fields: dict[str, Value] = {}
    for field, value in proto.ListFields():
        if _is_map(field):
            fields[field.name] = {key: _plain_value(_value_field(field), each) for key, each in value.items()}
        elif _is_repeated(field):
            fields[field.name] = tuple(_plain_value(field, each) for each in value)
        else:
            fields[field.name] = _plain_value(field, value)
    return Message(proto.DESCRIPTOR.full_name.removeprefix(_PACKAGE), fields)


def _plain_value(field: Any, value: Any) -> Value:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else int(value)
    return value  # type: ignore[no-any-return]


def _fill(proto: Any, message: Message) -> None:
    for name, value in message.fields.items():
        field = proto.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, Mapping):
            _fill_map(proto, field, value)
        elif isinstance(value, tuple):
            target = getattr(proto, name)
            for each in value:
                if isinstance(each, Message):
                    _fill(target.add(), each)
                else:
                    target.append(_protobuf_value(field, each))
        elif isinstance(value, Message):
            target = getattr(proto, name)
            target.SetInParent()  # a message without fields counts as set too
            _fill(target, value)
        else:
            setattr(proto, name, _protobuf_value(field, value))


def _fill_map(proto: Any, field: Any, value: Mapping[Any, Value]) -> None:
    target = getattr(proto, field.name)
    for key, each in value.items():
        if isinstance(each, Message):
            target[key].SetInParent()
            _fill(target[key], each)
        else:
            target[key] = _protobuf_value(_value_field(field), each)


def _protobuf_value(field: Any, value: Value) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value_field(field: Any) -> Any:
    return field.message_type.fields_by_name["value"]


@cache
def _class_of(name: str) -> Any:
    """The class of a message type, by its name without the package."""
    import pyspark.sql.connect.proto  # noqa: F401 (registers every message of the protocol)
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.Default()
    try:
        descriptor = pool.FindMessageTypeByName(_PACKAGE + name)
    except KeyError:
        descriptor = pool.FindMessageTypeByName(name)  # google.protobuf.Any
    return message_factory.GetMessageClass(descriptor)
