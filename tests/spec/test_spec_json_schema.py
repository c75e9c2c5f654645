"""The JSON Schema says what the models say; checked by a validator just large enough for it."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from lineage_service.spec.json_schema import workflow_json_schema
from lineage_service.spec.yaml_tree import read_tree

EXAMPLE = Path(__file__).parent / "example.yml"
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float), "integer": (int,),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def accepts(schema: Any, value: Any, root: dict[str, Any]) -> bool:
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return accepts(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, root)
    if "anyOf" in schema and not any(accepts(one, value, root) for one in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(accepts(one, value, root) for one in schema["oneOf"]) != 1:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(isinstance(value, TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names):
            return False
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if isinstance(value, list) and "items" in schema:
        return all(accepts(schema["items"], item, root) for item in value)
    return not isinstance(value, dict) or accepts_object(schema, value, root)


def accepts_object(schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any]) -> bool:
    if not set(schema.get("required", ())) <= set(value):
        return False
    for key, item in value.items():
        patterns = [s for pattern, s in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        own = [schema["properties"][key]] if key in schema.get("properties", {}) else []
        if not all(accepts(s, item, root) for s in own + patterns or [schema.get("additionalProperties", True)]):
            return False
    return True


def test_the_schema_accepts_the_example_and_is_closed() -> None:
    schema = json.loads(json.dumps(workflow_json_schema()))
    example = read_tree(EXAMPLE, "example.yml").value
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert accepts(schema, example, schema)
    assert accepts(schema, {**example, "outputs": {"totals": None}}, schema)
    for change in (
        lambda tree: tree.update(extra=1),
        lambda tree: tree.pop("name"),
        lambda tree: tree["steps"][0].update(op="filtr"),
        lambda tree: tree["steps"][0].update(wher="x"),
        lambda tree: tree["sources"]["customer"].update(snapshot="yes"),
        lambda tree: tree["sources"].update(Upper={"path": "x"}),
    ):
        wrong = copy.deepcopy(example)
        change(wrong)
        assert not accepts(schema, wrong, schema)


def test_every_field_has_a_description_and_no_object_is_open() -> None:
    schema = workflow_json_schema()
    assert not [name for name in schema["$defs"] if "Broken" in name]
    for definition in (schema, *schema["$defs"].values()):
        assert definition["additionalProperties"] is False
        for key, field in definition["properties"].items():
            assert field.get("description") or key == "op", (definition["title"], key)
