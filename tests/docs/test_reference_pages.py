"""docs/workflow-file.md is made from the models, and docs/semantics.md is backed by case files.

SMOKE_GOLDEN=1 rewrites the tables of the former; what is written by hand around them stays.
"""

import os
import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from lineage_service.spec import models
from lineage_service.spec.fields import NAME_PATTERN
from lineage_service.spec.json_schema import workflow_json_schema
from lineage_service.spec.step_models import STEP_TYPES
from tests.support.paths import CASES, ROOT
from tests.support.pictures import picture

REFERENCE = ROOT / "docs" / "workflow-file.md"
SEMANTICS = ROOT / "docs" / "semantics.md"

PART = re.compile(r"(?P<open><!-- keys of (?P<model>\w+) -->\n)(?P<text>.*?)(?P<close><!-- end -->)", re.DOTALL)
OF_EVERY_STEP = ("name", "op", "checks")
SECTIONS = {  # what a model is called, and where the page tells of it
    "PrivacySpec": ("privacy", "privacy"), "SourceSpec": ("source", "sources"), "OutputSpec": ("output", "outputs"),
    "LineageSpec": ("lineage", "lineage"), "CheckSpec": ("checks", "checks"), "WorkloadQuery": ("queries", "lineage"),
    "LegalHold": ("legal hold", "sources"), "KeepSpec": ("keep", "outputs"),
}  # fmt: skip


def kind(schema: dict[str, Any]) -> str:
    """What a key takes, in words."""
    if "$ref" in schema:
        name, section = SECTIONS[schema["$ref"].rsplit("/", 1)[1]]
        return f"[{name}](#{section})"
    if "anyOf" in schema:
        forms = [form for form in schema["anyOf"] if form.get("type") != "null" and not is_variable(form)]
        return ", or ".join(dict.fromkeys(kind(form) for form in forms))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match schema["type"]:
        case "array":
            return "list of steps" if "oneOf" in schema["items"] else f"list of {plural(kind(schema['items']))}"
        case "object":
            values = schema.get("patternProperties", {NAME_PATTERN: schema.get("additionalProperties")})
            (value,) = values.values()
            return f"name: {kind(value)}"
        case "boolean":
            return "`true`, `false`"
        case "integer":
            return "whole number"
        case "string" if schema.get("format") == "date":
            return "date"
        case "string":
            return "name"
        case ["string", "number", "boolean"]:
            return "text"
    raise AssertionError(schema)


def is_variable(schema: dict[str, Any]) -> bool:
    return schema.get("pattern", "").startswith(r"^\$\{")


def plural(word: str) -> str:
    return word if word.startswith("[") else f"{word}s"


def default(key: str, schema: dict[str, Any], required: list[str]) -> str:
    if key in required:
        return "*required*"
    value = schema.get("default")
    if value in (None, [], {}, ""):
        return ""
    return f"`{str(value).lower()}`"


def meaning(schema: dict[str, Any]) -> str:
    """The description, with what Markdown would take for its own set as code."""
    name = NAME_PATTERN.strip("^$")
    return schema["description"].replace(name, f"`{name}`").replace("|", r"\|")


def table(model: str) -> str:
    """The keys of a model: for a step, those that not every step has."""
    schema = workflow_json_schema()
    if model == "StepBase":
        step = schema["$defs"]["FilterStep"]
        described = {key: step["properties"][key] for key in OF_EVERY_STEP}
        described["op"] = {"enum": list(STEP_TYPES), "description": "What the step does"}
        required = step["required"]
        told = ""
    else:
        found = schema if model == "WorkflowSpec" else schema["$defs"][model]
        is_step = model.endswith("Step")
        described = {k: v for k, v in found["properties"].items() if not (is_step and k in OF_EVERY_STEP)}
        required = found.get("required", [])
        told = f"{found['description']}\n\n" if is_step else ""
    rows = [
        f"| `{key}` | {kind(each)} | {default(key, each, required)} | {meaning(each)} |"
        for key, each in described.items()
    ]
    return told + "\n".join(["| key | takes | default | meaning |", "| --- | --- | --- | --- |", *rows]) + "\n"


def with_current_tables(page: str) -> str:
    return PART.sub(lambda found: found["open"] + table(found["model"]) + found["close"], page)


def test_the_reference_is_made_from_the_models():
    page = REFERENCE.read_text(encoding="utf-8")
    if os.environ.get("SMOKE_GOLDEN"):
        REFERENCE.write_text(with_current_tables(page), encoding="utf-8")
        page = REFERENCE.read_text(encoding="utf-8")
    assert page == with_current_tables(page)


def test_the_reference_tells_of_every_model():
    told = {found["model"] for found in PART.finditer(REFERENCE.read_text(encoding="utf-8"))}
    assert told == {"WorkflowSpec", "StepBase", *workflow_json_schema()["$defs"]}


def test_every_operator_has_a_section_with_a_right_example():
    page = REFERENCE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### ([a-z_]+)\n(.*?)(?=^##)", page, re.DOTALL | re.MULTILINE))
    assert sections.keys() == STEP_TYPES.keys()
    for op, section in sections.items():
        examples = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
        assert examples, op
        for example in examples:
            (step,) = YAML(typ="safe").load(example)
            assert STEP_TYPES[op].model_validate(step).op == op


def test_other_examples_of_the_reference_are_right():
    page = REFERENCE.read_text(encoding="utf-8")
    seen = set()
    for block in re.findall(r"```yaml\n([a-z].*?)```", page, re.DOTALL):
        for key, value in YAML(typ="safe").load(block).items():
            seen.add(key)
            if key in ("lineage", "privacy"):
                {"lineage": models.LineageSpec, "privacy": models.PrivacySpec}[key].model_validate(value)
            else:
                model = {"sources": models.SourceSpec, "outputs": models.OutputSpec}[key]
                for part in value.values():
                    model.model_validate(part or {})
    assert seen == {"sources", "outputs", "lineage", "privacy"}


@pytest.mark.parametrize("model", ["WorkflowSpec", *sorted(workflow_json_schema()["$defs"])])
def test_every_key_has_a_meaning(model):
    schema = workflow_json_schema()
    found = schema if model == "WorkflowSpec" else schema["$defs"][model]
    properties = found["properties"]
    assert properties
    for key, each in properties.items():
        assert key == "op" or len(each["description"].split()) >= 2, f"{model}.{key}"


PICTURE = re.compile(r"!\[[^\]]+\]\(pictures/([a-z_]+)-([a-z0-9_]+)\.svg\)")
CASE = re.compile(r"\[[^\]]+\]\(\.\./tests/cases/([a-z_]+/[a-z0-9_]+)\.yml\)")


def test_the_pictures_of_the_semantics_are_drawn_from_case_files():
    page = SEMANTICS.read_text(encoding="utf-8")
    folder = ROOT / "docs" / "pictures"
    drawn = {f"{operator}-{name}.svg": picture(f"{operator}/{name}") for operator, name in PICTURE.findall(page)}
    if os.environ.get("SMOKE_GOLDEN"):
        folder.mkdir(exist_ok=True)
        for name, content in drawn.items():
            (folder / name).write_text(content, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == drawn


def test_every_operator_of_the_semantics_is_backed_by_case_files():
    page = SEMANTICS.read_text(encoding="utf-8")
    named = set(CASE.findall(page))
    assert {name for name in named if not (CASES / f"{name}.yml").is_file()} == set()
    assert {name.split("/")[0] for name in named} >= STEP_TYPES.keys()
    assert {f"{operator}/{name}" for operator, name in PICTURE.findall(page)} <= named, "a picture names its case"


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == pages
