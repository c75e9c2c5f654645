"""A workflow file -> spec: what is read, what is inferred, and what stays the same under change."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from lineage_service.errors import NotFound, WorkflowError
from lineage_service.spec.loader import LoadedWorkflow, load_workflow
from lineage_service.spec.models import BrokenOutput, BrokenSource, BrokenStep, OutputSpec
from lineage_service.spec.source_models import SourceSpec
from lineage_service.spec.step_models import AggregateStep, ExplodeStep, JoinStep, LimitStep, ProjectStep, SortStep

EXAMPLE = Path(__file__).parent / "example.yml"
HEAD = "version: 1\nname: w\nsources: {a: {path: a.parquet}}\n"


def load(tmp_path: Path, text: str, **variables: str) -> LoadedWorkflow:
    path = tmp_path / "w.yml"
    path.write_text(text, encoding="utf-8")
    return load_workflow(path, variables)


def step_of(tmp_path: Path, fields: str, **variables: str) -> object:
    text = f"{HEAD}vars: {{n: 3, flag: true}}\nsteps: [{{name: s, input: a, {fields}}}]\noutputs: {{s: }}\n"
    loaded = load(tmp_path, text, **variables)
    assert loaded.errors == ()
    return loaded.spec.steps[0]


def test_the_example_of_the_contract_has_no_problems() -> None:
    loaded = load_workflow(EXAMPLE)
    spec = loaded.spec
    assert loaded.errors == ()
    assert loaded.path.is_absolute()
    customer, orders, totals = spec.sources["customer"], spec.sources["orders"], spec.steps[4]
    assert isinstance(customer, SourceSpec) and isinstance(orders, SourceSpec) and isinstance(totals, AggregateStep)
    assert customer.path == "../data/customer.parquet"
    assert customer.legal_hold is not None and customer.legal_hold.until == date(2031, 12, 31)
    assert orders.options == {"header": "true"} and orders.schema_ is not None
    assert totals.by == ("order_id",) and totals.measures == {"revenue": "sum(revenue)", "lines": "count(*)"}
    assert spec.steps[1].reads == ("building", "orders") if isinstance(spec.steps[1], JoinStep) else False
    assert [check.severity for check in spec.outputs["totals"].checks] == ["error", "error", "warn"]  # type: ignore[union-attr]
    report = spec.outputs["report"]
    assert isinstance(report, OutputSpec) and report.step == "totals"
    assert [query.to for query in spec.lineage.workload][-1] == ("customer", "orders")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.parquet", "parquet"), ("a.pq", "parquet"), ("a.csv.gz", "csv"), ("A.CSV", "csv"), ("a.tsv", "csv"),
        ("x/*.jsonl", "json"), ("a.ndjson", "json"), ("a.json", "json"), ("folder", "parquet"), ("folder/", "parquet"),
        ("data/v1.2", "parquet"), ("x/*", "parquet"), ("orders.csv/", "csv"), ("p-*.snappy.parquet", "parquet"),
    ],
)  # fmt: skip
def test_format_follows_from_the_path(path: str, expected: str) -> None:
    assert SourceSpec(path=path).file_format == expected


def test_tabs_separate_tsv_unless_said_otherwise() -> None:
    assert SourceSpec(path="a.tsv.gz").reader_options == {"sep": "\t"}
    assert SourceSpec(path="a.tsv", options={"Delimiter": "|"}).reader_options == {"Delimiter": "|"}
    assert SourceSpec(path="a.csv").reader_options == {}


def test_scalars_become_the_text_they_were_written_as(tmp_path: Path) -> None:
    step = step_of(tmp_path, "op: project, columns: {i: 1, f: 1.50, e: 1E3, t: true, d: 2031-12-31, on: off, 2024: x}")
    assert isinstance(step, ProjectStep)
    assert step.columns == {
        "i": "1", "f": "1.50", "e": "1e3", "t": "true", "d": "2031-12-31", "on": "off", "2024": "x",
    }  # fmt: skip


def test_defaults_and_single_entries(tmp_path: Path) -> None:
    explode = step_of(tmp_path, "op: explode, column: items")
    assert isinstance(explode, ExplodeStep) and explode.as_ == "items" and explode.outer is False
    renamed = step_of(tmp_path, "op: explode, column: items, as: item, outer: true")
    assert isinstance(renamed, ExplodeStep) and (renamed.as_, renamed.outer) == ("item", True)
    sort = step_of(tmp_path, "op: sort, by: x desc")
    assert isinstance(sort, SortStep) and sort.by == ("x desc",)
    keys = step_of(tmp_path, "op: aggregate, by: [x]")
    assert isinstance(keys, AggregateStep) and keys.measures == {}


def test_variables_fill_numbers_and_flags_too(tmp_path: Path) -> None:
    limit = step_of(tmp_path, 'op: limit, n: "${n}"', n="7")
    assert isinstance(limit, LimitStep) and limit.n == 7
    project = step_of(tmp_path, 'op: project, columns: ["${n}", "$${n}"], distinct: "${flag}"')
    assert isinstance(project, ProjectStep) and project.distinct is True and project.columns == ("3", "${n}")


def test_values_are_not_substituted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOKE_TEST_VALUE", "${n}")
    text = (
        HEAD + 'vars: {n: 1, e: "${env:SMOKE_TEST_VALUE}"}\nsteps: [{name: s, op: filter, input: a, where: "${e}"}]\n'
    )
    loaded = load(tmp_path, text + "outputs: {s: }\n", n="${e}")
    assert loaded.errors == ()
    assert loaded.variables == {"n": "${e}", "e": "${n}"}
    assert loaded.spec.steps[0].where == "${n}"  # type: ignore[union-attr]


def test_an_override_of_an_undeclared_variable_is_a_problem(tmp_path: Path) -> None:
    text = HEAD + "vars: {since: 1}\nsteps: [{name: s, op: distinct, input: a}]\noutputs: {s: }\n"
    (problem,) = load(tmp_path, text, sinc="2").problems
    assert problem.message == "unknown variable 'sinc' was given; variables here: since"
    assert problem.hint == "did you mean 'since'?"


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    text = """\
version: 1
name: w
sources:
  a: &csv {path: a.csv, options: {header: true}}
  b: {<<: *csv, path: b.csv}
  c: *csv
steps: [{name: s, op: union, inputs: [a, b, c]}]
outputs: {s: }
"""
    loaded = load(tmp_path, text)
    assert loaded.problems == ()
    assert [source.path for source in loaded.spec.sources.values()] == ["a.csv", "b.csv", "a.csv"]  # type: ignore[union-attr]
    assert loaded.marks.at("sources", "c").line == 6
    assert loaded.marks.at("sources", "c", "path").line == 4


def test_broken_parts_stay_as_placeholders(tmp_path: Path) -> None:
    text = """\
version: 1
name: w
sources: {a: {pth: x}, b: {path: b.csv}}
steps: [{name: s, op: filter, input: a}, {name: t, op: join, left: s, right: b, using: [x]}]
outputs: {t: , u: {step: s, nope: 1}}
"""
    spec = load(tmp_path, text).spec
    assert spec.sources["a"] == BrokenSource("a") and isinstance(spec.sources["b"], SourceSpec)
    assert spec.steps[0] == BrokenStep("s", "filter", ("a",)) and isinstance(spec.steps[1], JoinStep)
    assert spec.outputs["u"] == BrokenOutput("u", "s")


def test_version_ignores_form_and_defaults_only(tmp_path: Path) -> None:
    tail = "steps: [{name: s, op: limit, input: a, n: 1}]\noutputs: {s: }\n"
    base = load(tmp_path, HEAD + "vars: {x: 1}\n" + tail).version
    same = "# a comment\nname: w\nversion: 1\nvars:\n  x: 2\nsources:\n  a:\n    path: a.parquet\n"
    assert load(tmp_path, same + tail).version == base
    assert load(tmp_path, HEAD + "vars: {x: 1}\n" + tail, x="9").version == base
    assert load(tmp_path, HEAD + "vars: {y: 1}\n" + tail).version != base
    assert load(tmp_path, HEAD + "vars: {x: 1}\n" + tail.replace("n: 1", "n: 2")).version != base
    assert load_workflow(EXAMPLE).version == load_workflow(EXAMPLE, {"since": "2000-01-01"}).version


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.yml' does not exist"):
        load_workflow(tmp_path / "nowhere.yml")
    with pytest.raises(WorkflowError, match="is a folder"):
        load_workflow(tmp_path)
    with pytest.raises(WorkflowError, match="not a regular file"):
        load_workflow("/dev/null")
    with pytest.raises(WorkflowError, match="cannot be read"):
        load_workflow("a\0b")


def test_import_is_light() -> None:
    code = (
        "import sys, lineage_service.spec.loader, lineage_service.spec.json_schema;"
        "print([m for m in ('pyspark', 'duckdb', 'pyarrow', 'sqlglot', 'networkx', 'sqlalchemy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
