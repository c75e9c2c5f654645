"""Which files a folder means, in which order they run, and what a selection picks."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.errors import LineageError, NotFound, QuestionError, WorkflowError
from lineage_service.runs.chain.chained_workflows import load_chain
from lineage_service.runs.chain.workflow_files import workflow_files


def workflow(folder: Path, name: str, *reads: str, outputs=("out",), file: str | None = None, **more) -> Path:
    """A workflow that reads outputs, or a file where it reads none."""
    sources = {f"s{number}": {"output": read} for number, read in enumerate(reads)} or {"s0": {"path": "x.parquet"}}
    steps = [
        {"name": f"{each}", "op": "union", "inputs": [*sources, *sources][: max(2, len(sources))]} for each in outputs
    ]
    body = {"version": 1, "name": name, "sources": sources, "steps": steps, "outputs": dict.fromkeys(outputs), **more}
    path = folder / (file or f"{name}.yml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1), encoding="utf-8")
    return path


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def chain(*files: Path, variables=None, sources=(), datasets=()):
    return load_chain(files, variables or {}, sources, lambda name: name in datasets)


def messages(*files: Path, **given) -> list[str]:
    with pytest.raises(LineageError) as error:
        chain(*files, **given)
    return [f"{Path(p.position.file).name if p.position else '-'}: {p.message}" + (f" [{p.hint}]" if p.hint else "")
            for p in error.value.problems]  # fmt: skip


def test_a_folder_means_the_workflows_in_it_and_below(tmp_path):
    workflow(tmp_path, "b")
    steps = [{"name": "out", "op": "sql", "file": "../queries/${which}.sql"}]
    workflow(tmp_path, "a", file="deep/a.yaml", vars={"which": "step"}, steps=steps)
    text(tmp_path / "queries/step.sql", "SELECT 1")
    text(tmp_path / "queries/own.SQL", "SELECT 1")
    text(tmp_path / "docker-compose.yml", "services: {steps: {image: x}}")
    text(tmp_path / "broken_but_no_workflow.yml", "{{ template }}")
    text(tmp_path / "azure-pipelines.yml", "name: x\nsteps:\n- script: make\n- task: Docker@2\n")
    text(tmp_path / "build.yml", "jobs:\n  b:\n    steps:\n    - run: make\n    outputs: {a: 1}\n")
    text(tmp_path / "template.yml", "jobs:\n  {{ x }}\n  b:\n    steps: []\n    outputs: {}\n")
    text(tmp_path / "note.yml", "text: |\n  steps:\n  sources:\n")
    text(tmp_path / "notes.txt", "steps: none")
    workflow(tmp_path, "hidden", file=".git/hidden.yml")
    workflow(tmp_path, "dot", file=".dot.yml")
    found = [str(path.relative_to(tmp_path)) for path in workflow_files([tmp_path])]
    assert found == ["b.yml", "deep/a.yaml", "queries/own.SQL"]
    again = workflow_files([tmp_path / "deep", tmp_path / "deep" / "a.yaml", tmp_path])
    assert [path.name for path in again] == ["a.yaml", "b.yml", "own.SQL"]


def test_a_workflow_that_is_broken_is_no_other_file(tmp_path):
    text(tmp_path / "a.yml", "version: 1\nname: a\nsteps: [\n")
    text(tmp_path / "b.yml", '{"version": 1, "sources": {}, "steps": [')
    text(tmp_path / "c.yml", "  version: 1\n  steps: []\n  outputs: {}\n")
    text(tmp_path / "d.yml", "steps:\n- {name: a, op: filter}\n")
    path, *others = workflow_files([tmp_path])
    assert messages(path)[0].startswith("a.yml: not valid YAML")
    assert [each.name for each in others] == ["b.yml", "c.yml", "d.yml"]


def test_a_folder_without_workflows_and_a_file_that_is_not_there(tmp_path):
    with pytest.raises(WorkflowError, match="no workflow in"):
        workflow_files([tmp_path])
    with pytest.raises(NotFound, match="does not exist"):
        workflow_files([tmp_path / "x.yml"])


def test_what_is_read_runs_first_whatever_names_it(tmp_path):
    files = [
        workflow(tmp_path, "last", "middle.out", "by_alone", "home.out"),
        workflow(tmp_path, "other"),
        text(tmp_path / "middle_sql.sql", "SELECT * FROM first.out JOIN kept_one JOIN parquet.`x`"),
        workflow(tmp_path, "middle", "first.out", outputs=("out", "by_alone")),
        workflow(tmp_path, "first", outputs=("out", "kept_one")),
    ]
    found = chain(*files, datasets=["home.out"])
    assert list(found.workflows) == ["other", "first", "middle_sql", "middle", "last"]
    assert {name: item.reads for name, item in found.workflows.items()} == {
        "other": (), "first": (), "middle_sql": ("first",), "middle": ("first",), "last": ("middle",)
    }  # fmt: skip


def test_a_certain_run_of_a_workflow_does_not_depend_on_a_new_one(tmp_path):
    files = workflow(tmp_path, "a", "b.out@3f2a"), workflow(tmp_path, "b", "a.out")
    assert list(chain(*files, datasets=["b.out@3f2a"]).workflows) == ["a", "b"]


def test_cycles_are_reported_exactly(tmp_path):
    files = [workflow(tmp_path, "a", "c.out"), workflow(tmp_path, "b", "a.out"), workflow(tmp_path, "c", "d.out", "b.out"),
             workflow(tmp_path, "d"), workflow(tmp_path, "behind", "c.out")]  # fmt: skip
    assert messages(*files) == ["a.yml: workflows read each other's outputs in a cycle: a -> c -> b -> a"]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("frist.out", "source 's0': unknown output 'frist.out': neither these workflows nor a run in this home has it; "
         "outputs here: first.out, first.more, second.more, x.out [did you mean 'first.out'?]"),
        ("first.tot", "source 's0': workflow 'first' has no output 'tot'; outputs: out, more [did you mean 'out'?]"),
        ("more", "source 's0': several workflows make 'more': first.more, second.more [qualify it: WORKFLOW.OUTPUT]"),
    ],
)  # fmt: skip
def test_outputs_that_nobody_makes(tmp_path, read, message):
    files = [workflow(tmp_path, "first", outputs=("out", "more")), workflow(tmp_path, "second", outputs=("more",))]
    assert messages(*files, workflow(tmp_path, "x", read)) == [f"x.yml: {message}"]


def test_an_unknown_table_of_a_query(tmp_path):
    query = text(tmp_path / "q.sql", "SELECT *\nFROM frist")
    assert messages(workflow(tmp_path, "a", outputs=("first",)), query) == [
        "q.sql: unknown table 'frist'; sources given: none [did you mean 'first'?]"
    ]


def test_all_problems_of_all_files_at_once(tmp_path):
    bad = text(tmp_path / "bad.yml", "version: 1\nname: bad\nstps: []\n")
    two = workflow(tmp_path, "a", file="a1.yml"), workflow(tmp_path, "a", file="a2.yml")
    found = messages(bad, *two)
    assert any(each.startswith("bad.yml: unknown key 'stps'") for each in found)
    assert f"a2.yml: workflow name 'a' is already used by '{tmp_path}/a1.yml' [rename one of them]" in found


def test_variables_go_to_those_that_have_them(tmp_path):
    files = [
        workflow(tmp_path, "a", vars={"x": 1}),
        workflow(tmp_path, "b", vars={"y": 1}),
        text(tmp_path / "q.sql", "SELECT ${x} FROM parquet.`f`"),
    ]
    found = chain(*files, variables={"x": "7"}).workflows
    assert {name: dict(item.variables) for name, item in found.items()} == {"a": {"x": "7"}, "b": {}, "q": {"x": "7"}}
    assert messages(*files, variables={"x": "7", "yy": "1"}) == [
        "-: no workflow here has a variable 'yy'; variables: x, y [did you mean 'y'?]"
    ]


def test_a_source_is_given_in_vain_where_no_query_names_it(tmp_path):
    files = [text(tmp_path / f"{name}.sql", f"SELECT * FROM {name}_table") for name in ("a", "b")]
    found = chain(*files, workflow(tmp_path, "w"), sources={"a_table": "x", "B_table": "y", "c_table": "z"}).workflows
    given = {name: dict(item.sources) for name, item in found.items()}
    assert given == {"a": {"a_table": "x", "c_table": "z"}, "b": {"B_table": "y", "c_table": "z"}, "w": {}}
    assert messages(workflow(tmp_path, "w"), sources={"a": "x"}) == [
        "-: --source applies only to .sql files, and none of the files is one"
    ]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (["b"], "b"),
        (["b+"], "b d e"),
        (["+d"], "a b c d"),
        (["+b+"], "a b d e"),
        (["c", "b"], "b c"),
        (["+c e"], "a c e"),
        (["lonely+"], "lonely"),
    ],
)
def test_selections(tmp_path, patterns, chosen):
    reads = {"a": [], "b": ["a.out"], "c": ["a.out"], "d": ["b.out", "c.out"], "e": ["b.out"], "lonely": []}
    found = chain(*[workflow(tmp_path, name, *each) for name, each in reads.items()])
    assert sorted(found.select(patterns).workflows) == chosen.split()
    with pytest.raises(QuestionError, match="no workflow 'bb' here") as error:
        found.select(["bb+"])
    assert error.value.problems[0].hint == "did you mean 'b'?"


def test_files_that_are_validated_together_know_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOKE_HOME", str(tmp_path / "home"))
    columns = {"s0": {"path": "x.csv", "schema": "id BIGINT"}}
    text(tmp_path / "x.csv", "1")
    workflow(tmp_path, "first", sources=columns)
    text(tmp_path / "q.sql", "SELECT id FROM first.out JOIN csv.`x.csv` ON true")
    arguments = ["validate", "q.sql", "first.yml", "--home", str(tmp_path / "home")]
    alone = CliRunner().invoke(cli, arguments[:2])
    assert isinstance(alone.exception, WorkflowError)
    assert alone.exception.problems[0].message.startswith("unknown table 'first.out'")
    together = CliRunner().invoke(cli, arguments)
    assert together.output == "q.sql: ok\nfirst.yml: ok\n"
