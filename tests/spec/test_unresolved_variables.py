"""A string with a variable that has no value is blamed once, for that, and not read any further."""

from pathlib import Path

import pytest

from lineage_service.errors import WorkflowError
from lineage_service.runs.workflow_file import validate_workflow

FILE = """\
version: 1
name: w
vars: {{empty: , given: 1}}
sources:
  s: {source}
  u: {{path: s.csv, schema: "x int, y string"}}
steps:
  - {step}
  - {{name: after, op: filter, input: out, where: "anything > ${{given}}"}}
outputs: {outputs}
lineage: {lineage}
"""
SOURCE = '{path: s.csv, schema: "x int, y string"}'
STEP = "{name: out, op: with_columns, input: s, columns: {anything: x}}"


def told(folder: Path, source: str = SOURCE, step: str = STEP, outputs: str = "{after: }", lineage: str = "{}"):
    (folder / "s.csv").touch()
    file = folder / "w.yml"
    file.write_text(FILE.format(source=source, step=step, outputs=outputs, lineage=lineage), encoding="utf-8")
    with pytest.raises(WorkflowError) as caught:
        validate_workflow(file, home=folder / "home")
    return [problem for problem in caught.value.problems if problem.severity == "error"]


@pytest.mark.parametrize(
    "part",
    [
        {"source": '{path: "${nope}/s.csv", schema: "x int"}'},
        {"source": '{path: s.csv, format: "${nope}"}'},
        {"source": '{path: s.csv, schema: "x ${nope}"}'},
        {"source": '{path: s.csv, schema: "x int", options: {sep: "${nope}"}}'},
        {"source": '{output: "${nope}"}'},
        {"step": "{name: out, op: filter, input: s, where: '${nope} > 1'}"},
        {"step": "{name: out, op: filter, input: s, where: 'x > ${nope'}"},
        {"step": "{name: out, op: filter, input: s, where: 'x > ${env:SMOKE_TEST_UNSET}'}"},
        {"step": "{name: out, op: filter, input: '${nope}', where: x > 1}"},
        {"step": "{name: out, op: '${nope}', input: s, where: x > 1}"},
        {"step": "{name: out, op: limit, input: s, n: '${nope}'}"},
        {"step": "{name: out, op: sort, input: s, by: ['${nope} desc', x]}"},
        {"step": "{name: out, op: with_columns, input: s, columns: {z: '${nope}'}}"},
        {"step": "{name: out, op: aggregate, input: s, by: ['${nope}'], measures: {n: count(*)}}"},
        {"step": "{name: out, op: aggregate, input: s, by: [x], measures: {n: 'sum(${nope})'}}"},
        {"step": "{name: out, op: aggregate, input: s, by: [x], measures: {n: count(*)}, having: '${nope} > 1'}"},
        {"step": "{name: out, op: join, left: s, right: u, how: '${nope}', using: [x]}"},
        {"step": "{name: out, op: join, left: s, right: u, using: ['${nope}']}"},
        {"step": "{name: out, op: explode, input: s, column: '${nope}'}"},
        {"step": "{name: out, op: union, inputs: [u, '${nope}']}"},
        {"step": "{name: out, op: distinct, input: s, checks: [{where: '${nope} > 1'}]}"},
        {"step": "{name: out, op: distinct, input: s, checks: [{not_null: ['${nope}']}]}"},
        {"outputs": "{after: , other: {step: '${nope}'}}"},
        {"lineage": "{keep: ['${nope}']}"},
        {"lineage": "{capture: '${nope}'}"},
        {"lineage": "{workload: [{name: q, backward: after, to: [s], where: '${nope} > 1'}]}"},
        {"lineage": "{workload: [{name: q, backward: after, to: [s], columns: ['${nope}']}]}"},
    ],
    ids=lambda part: next(iter(part.values())),
)
def test_no_second_problem_where_a_variable_has_no_value(tmp_path, monkeypatch, part):
    monkeypatch.delenv("SMOKE_TEST_UNSET", raising=False)
    declared, found = told(tmp_path, **part)
    assert "variable 'empty' needs a default" in declared.message
    assert (
        "unknown variable 'nope'" in found.message
        or "'${' is not closed" in found.message
        or ("'SMOKE_TEST_UNSET' is not set" in found.message)
    )


def test_a_use_of_a_variable_without_a_default_is_no_second_problem(tmp_path):
    found = told(tmp_path, step="{name: out, op: filter, input: s, where: 'x > ${empty}'}")
    assert [problem.message.split(";")[0] for problem in found] == [
        "variable 'empty' needs a default: text, a number, true or false"
    ]


def test_what_else_is_wrong_in_the_step_is_told_all_the_same(tmp_path):
    step = "{name: out, op: with_columns, input: s, columns: {a: '${nope}', b: zz, c: 'x +'}}"
    told_messages = [problem.message for problem in told(tmp_path, step=step)]
    assert any("unknown column 'zz'" in message for message in told_messages)
    assert any("cannot read the expression 'x +'" in message for message in told_messages)
    assert len(told_messages) == 4


def test_a_problem_of_a_check_is_placed_at_the_check_s_own_text(tmp_path):
    step = "{name: out, op: filter, input: s, where: x > 1, checks: [{where: zz > 1}, {unique: [x, qq]}]}"
    found = [problem for problem in told(tmp_path, step=step) if problem.position.line == 8]
    columns = {problem.position.column for problem in found if "unknown column" in problem.message}
    line = f"  - {step}"
    assert columns == {line.index("zz") + 1, line.index("qq") + 1}
