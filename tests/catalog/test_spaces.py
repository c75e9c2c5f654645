"""Spaces and forms of lineage: values in the program, texts in the catalog."""

import json

import pytest
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import DatasetRecord, HopRecord
from lineage_catalog.spaces import Space, SpaceKind, group_space, side_space, source_space, step_space, window_space


@pytest.mark.parametrize(
    ("space", "text", "kind", "name", "step"),
    [
        (source_space("items"), "source:items", SpaceKind.SOURCE, "items", "items"),
        (step_space("priced"), "step:priced", SpaceKind.STEP, "priced", "priced"),
        (group_space("revenue:aggregate"), "group:revenue:aggregate", SpaceKind.GROUP, "revenue:aggregate", "revenue"),
        (window_space("w:0"), "window:w:0", SpaceKind.WINDOW, "w:0", "w"),
        (side_space("silent"), "side:silent", SpaceKind.SIDE, "silent", "silent"),
    ],
)
def test_a_space_is_its_text(space, text, kind, name, step):
    assert (space, space.kind, space.name, space.step_name) == (text, kind, name, step)
    assert Space(text) == space
    assert hash(space) == hash(text)
    assert json.dumps({space: [space]}) == json.dumps({text: [text]})
    flags = {each: getattr(space, f"is_{each}") for each in SpaceKind}
    assert [each for each, flag in flags.items() if flag] == [kind]
    assert space.is_dataset == (kind in (SpaceKind.SOURCE, SpaceKind.STEP))


@pytest.mark.parametrize("text", ["", "items", "rows:items", "Source:items"])
def test_other_texts_are_no_spaces(text):
    with pytest.raises(ValueError, match="no space"):
        Space(text)


def test_records_read_spaces_and_forms_from_text():
    hop = HopRecord("r", "step:out", "source:a", 0, "pairs", 1, 1, "b", "f")
    assert (hop.from_space.name, hop.to_space.is_source, hop.form) == ("out", True, HopForm.PAIRS)
    assert DatasetRecord("r", "flow", "a", "source", "source:a", "v", "{}").space.is_source
    with pytest.raises(ValueError, match="no space"):
        HopRecord("r", "out", "source:a", 0, "pairs", 1, 1, "b", "f")
    with pytest.raises(ValueError, match="rows"):
        HopRecord("r", "step:out", "source:a", 0, "rows", 1, 1, "b", "f")
