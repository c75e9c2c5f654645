"""What is shown of a workflow file has references to the environment in it, never its values."""

import json

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service import Home
from lineage_service.errors import Problem, WorkflowError
from lineage_service.runs.workflow_file import explain_workflow, validate_workflow
from lineage_service.spec.environment import HiddenValues

SECRET = "hunter2squared"

WORKFLOW = """
version: 1
name: secretive
vars: {who: "${env:SMOKE_TEST_SECRET}"}
sources:
  orders: {path: orders.csv, format: csv, options: {header: true}, schema: "id int, name string, v int"}
steps:
  - {name: others, op: filter, input: orders, where: "name <> '${env:SMOKE_TEST_SECRET}'"}
  - {name: named, op: with_columns, input: others, columns: {same: "concat(name, '${who}')"}}
  - {name: counted, op: aggregate, input: named, by: [name], measures: {n: "sum(v)"}, having: "name <> '${who}'"}
outputs: {counted: {}}
lineage:
  workload:
    - {name: q, backward: counted, to: orders, where: "name <> '${who}'"}
    - {name: m, backward: counted, to: orders, by: [name], measures: {n: "max(concat(name, '${who}'))"}}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_TEST_SECRET", SECRET)
    (tmp_path / "orders.csv").write_text("id,name,v\n1,a,2\n")
    path = tmp_path / "flow.yml"
    path.write_text(WORKFLOW)
    return path


@pytest.mark.parametrize(
    "arguments",
    [("explain",), ("explain", "--json"), *(("graph", "--format", each) for each in ("mermaid", "dot", "svg", "html"))],
    ids=" ".join,
)
def test_a_file_is_shown_with_references(file, arguments):
    verb, *options = arguments
    result = CliRunner().invoke(cli, [verb, str(file), *options, "--home", str(file.parent / "home")])
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    assert "env:SMOKE_TEST_SECRET" in result.output


def test_every_text_of_the_explanation_has_the_reference(file):
    facts = explain_workflow(file).to_json()
    assert facts["sources"]["orders"]["filters_pushed_down"] == ["name <> '${env:SMOKE_TEST_SECRET}'"]
    assert [each["does"].count("${env:SMOKE_TEST_SECRET}") for each in facts["steps"]] == [1, 1, 1, 1]
    assert json.dumps(facts["workload"]).count("${env:SMOKE_TEST_SECRET}") == 2
    assert SECRET not in json.dumps(facts)


def test_the_record_of_processing_has_references(file):
    file.write_text(WORKFLOW.replace('v int"}', 'v int", origin: "from ${who}", subject: {person: name}}'))
    with Home.open(file.parent / "home") as home:
        record = json.dumps(home.audit.record(file))
    assert SECRET not in record
    assert "from ${env:SMOKE_TEST_SECRET}" in record


@pytest.mark.parametrize(
    "wrong",
    [
        ("where: \"name <> '${env:SMOKE_TEST_SECRET}'\"", "where: \"name <> ${env:SMOKE_TEST_SECRET}\""),
        ("concat(name, '${who}')", "concat(name, '${who}') AS x"),
        ("concat(name, '${who}')", "rank(name, '${who}')"),
        ("concat(name, '${who}')", "nonsense('${who}', ("),
        ("op: filter", "op: ${who}"),
        ("by: [name]", "by: [\"${who}\"]"),
        ("max(concat(name, '${who}'))", "concat(name, '${who}')"),
        ("outputs: {counted: {}}", "outputs: {counted: {checks: [{where: \"${who} > 1\"}]}}"),
        ("id int,", "${who} intt,"),
        ("header: true", "header: \"${who}\""),
    ],
)  # fmt: skip
def test_problems_do_not_quote_the_value(file, wrong):
    assert wrong[0] in WORKFLOW
    file.write_text(WORKFLOW.replace(*wrong))
    with pytest.raises(WorkflowError) as refused:
        validate_workflow(file)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.problems)


def test_warnings_do_not_quote_the_value(file):
    file.write_text(WORKFLOW.replace('measures: {n: "sum(v)"}', 'measures: {n: "sum(v + rand())"}'))
    assert SECRET not in "".join(map(str, validate_workflow(file)))


def test_a_value_that_is_an_ordinary_word_is_replaced_where_it_was_used_only():
    hidden = HiddenValues({"name <> 'a'": "name <> '${env:X}'"}, {"a": "${env:X}"})
    assert hidden.in_text("a step where name <> 'a'") == "a step where name <> '${env:X}'"
    assert hidden.in_problem(Problem("a step")).message == "a step"
