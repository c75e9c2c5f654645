"""The JSON Schema of the workflow file, for editors."""

from __future__ import annotations

from typing import Any

from lineage_service.spec.models import WorkflowSpec


def workflow_json_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of the file as users write it."""
    schema = WorkflowSpec.model_json_schema(by_alias=True, mode="validation")
    definitions = schema["$defs"]
    # Filled in from the output's name and the column when they are left out: "" is no default to show.
    for model, key in (("OutputSpec", "step"), ("ExplodeStep", "as")):
        definitions[model]["properties"][key].pop("default", None)
    # `totals:` alone is an output with defaults.
    outputs = schema["properties"]["outputs"]
    for patterns in (outputs.get("patternProperties", {}), outputs):
        for key, value in list(patterns.items()):
            if isinstance(value, dict) and "$ref" in value:
                patterns[key] = {"anyOf": [value, {"type": "null"}]}
    for key in ("sources", "outputs"):
        schema["properties"][key]["additionalProperties"] = False
    schema["properties"]["vars"]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "smoke-lineage workflow"}
