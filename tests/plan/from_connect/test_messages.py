"""Messages of the protocol as plain values: nothing is lost on the way to JSON, or to protobuf and back."""

import math

import pytest

from lineage_service.plan.from_connect.messages import Message, from_json, to_json
from lineage_service.plan.from_connect.program_reads import reads_of, with_references
from lineage_service.plan.from_connect.source_references import source_reference
from tests.support.connect_frames import message_of, session_without_server, sql_frame

VALUES = {
    "text": 'it\'s \\ "ö" \n ${x}',
    "large": 2**63 - 1,
    "small": -(2**63),
    "flag": True,
    "one": 1,
    "float": 0.1,
    "whole": 1.0,
    "minus_zero": -0.0,
    "infinite": -math.inf,
    "bytes": bytes(range(256)),
    "list": (1, (Message("Inner", {"a": 1.5}),), ()),
    "map": {"k": Message("Inner"), "": 3},
    "numbers": {1: "a", 2: "b"},
}


def test_json_keeps_every_value():
    message = Message("Outer", VALUES)
    again = from_json(to_json(message))
    assert again == message
    assert {name: type(value) for name, value in again.fields.items()} == {
        name: type(value) for name, value in VALUES.items()
    }
    assert math.copysign(1, again.fields["minus_zero"]) == -1
    assert math.isnan(from_json(to_json(Message("Outer", {"x": math.nan}))).fields["x"])


@pytest.mark.parametrize("text", ["3", "null", "[]", '{"b": "AA=="}', '{"x": 1}'])
def test_other_texts_are_no_messages(text):
    with pytest.raises(ValueError, match="no message"):
        from_json(text)


def test_a_deep_plan_is_stored():
    message = Message("Relation")
    for number in range(2_000):
        message = Message("Relation", {"filter": Message("Filter", {"input": message, "n": number})})
    assert to_json(from_json(to_json(message))) == to_json(message)


def test_reads_and_references():
    session = session_without_server()
    orders, view = session.read.format("csv").load(["a.csv", "b.csv"]), session.table("v")
    frame = orders.join(view, "id").union(sql_frame(session, "SELECT * FROM v, w WHERE EXISTS (SELECT 1 FROM x)"))
    frame = frame.where(session.range(3).exists())
    message = message_of(frame)
    found = list(reads_of(message))
    assert sorted((each.kind, each.tables) for each in found) == [
        ("files", ()), ("range", ()), ("sql", ("v", "w", "x")), ("table", ("v",))
    ]  # fmt: skip
    for each in found:
        place = message
        for part in each.path:
            place = place.fields[part] if isinstance(place, Message) else place[part]
        assert place == each.relation

    replaced = with_references(message, lambda each: source_reference("s", plan_id=each.plan_id))
    assert list(reads_of(replaced)) == []
    assert {each.plan_id for each in found} <= {
        each.message("common").number("plan_id") for each in replaced.walk() if "source_reference" in each
    }
