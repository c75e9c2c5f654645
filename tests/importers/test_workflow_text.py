"""The text of an imported workflow: read again, it has exactly the texts that went in."""

import random

import pytest

from lineage_service.importers.assembly import ImportedSource, ImportedStep, ImportedWorkflow
from lineage_service.importers.foreign_project import Check, Omission
from lineage_service.importers.workflow_text import workflow_text
from lineage_service.spec.variables import substitute_declared
from lineage_service.spec.yaml_tree import parse_tree

PIECES = [
    *"ab \n\n  \t'\"#:-|>{}[]&*!%@`,?$\\é漢\u2028\x85\r\x07\ufeff\xa0😀\x7f=~0.1",
    "select ", "\n  ", "-- x\n", "  ", "---\n", "...\n", "# c\n", "${a}", "$${", "true", "\r\n",
]  # fmt: skip


def workflow(query: str = "SELECT 1", words: str = "x", **parts) -> ImportedWorkflow:
    given = {
        "tool": words,
        "name": "flow",
        "description": words if words.strip() else None,
        "owner": None,
        "variables": {},
        "sources": (ImportedSource("s", words, words, words, options={"sep": words}, comments=(words,)),),
        "steps": (ImportedStep("t", query, words, (words,), (Check("where", words), Check("unique", words, "warn"))),),
        "outputs": ("t",),
        "renamed": (),
        "omissions": (Omission(words, words, words),),
        "warnings": (words,),
    }
    return ImportedWorkflow(**{**given, **parts})


def read_again(flow: ImportedWorkflow) -> dict:
    return parse_tree(workflow_text(flow), "flow.yml").value


def as_text(value: object) -> object:
    return {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value


@pytest.mark.parametrize("seed", range(0, 500, 100))
def test_random_texts_come_back(seed):
    blocks = 0
    for number in range(seed, seed + 100):
        pick = random.Random(number)
        text = "".join(pick.choice(PIECES) for _ in range(pick.randrange(1, 25)))
        flow = workflow(text, text)
        value = read_again(flow)
        literal = text.replace("${", "$${")
        assert value["steps"][0]["query"] == literal
        assert substitute_declared(literal, {}, {}) == text.replace("$${", "$${")
        assert as_text(value["steps"][0]["checks"][0]["where"]) == literal
        assert as_text(value["sources"]["s"]["path"]) == literal
        assert as_text(value["sources"]["s"]["options"]["sep"]) == text
        blocks += "query: |" in workflow_text(flow)
    assert blocks > 20


def test_queries_are_block_scalars_wherever_they_can_be():
    for query in (
        "SELECT 1\n",
        "  SELECT\n\t1\n",
        "\n\nSELECT 1",
        "SELECT '# no comment'\n\n",
        "-- a: b\nSELECT 1 -- c\n",
    ):
        assert "    query: |" in workflow_text(workflow(query))
        assert read_again(workflow(query))["steps"][0]["query"] == query
    for query in ("SELECT '\r'", "SELECT '\x85'", "\ufeffSELECT 1"):
        assert '    query: "' in workflow_text(workflow(query))


def test_only_variables_of_the_workflow_are_variables_in_a_query():
    flow = workflow("SELECT '${known} ${other} ${' ", variables={"known": "a ${b}"})
    value = read_again(flow)
    assert value["vars"] == {"known": "a $${b}"}
    assert value["steps"][0]["query"] == "SELECT '${known} $${other} $${' "


def test_comments_stay_comments():
    text = workflow_text(workflow(words="first\nversion: 2\n\u2028steps: []\rname: x\x85y: 1"))
    value = parse_tree(text, "flow.yml").value
    assert list(value) == ["version", "name", "description", "sources", "steps", "outputs"]
    assert value["version"] == 1 and value["name"] == "flow"
