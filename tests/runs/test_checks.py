"""Checks: the rows that fail are named, are a dataset with lineage, and are explained by the command that is printed."""

import json
import re
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_cli.main import main

from lineage_service import Home
from lineage_service.errors import ChecksFailed, NotFound, RunError, WorkflowError

ROWS = {"k": [1, 1, 2, 3, None, 3], "v": [1.0, 2.0, -3.0, 4.0, 5.0, None]}


def flow(folder, checks, on_step=(), capture="auto", path=None):
    pq.write_table(pa.table(ROWS), folder / "s.parquet")
    body = {
        "version": 1,
        "name": "flow",
        "sources": {"s": {"path": "s.parquet"}},
        "steps": [
            {"name": "twice", "op": "with_columns", "input": "s", "columns": {"w": "v * 2"}, "checks": list(on_step)},
            {"name": "out", "op": "filter", "input": "twice", "where": "k IS NULL OR k > 0"},
        ],
        "outputs": {"out": {"checks": checks, "path": path} if path else {"checks": checks}},
        "lineage": {"capture": capture},
    }
    file = folder / "flow.yml"
    file.write_text(json.dumps(body))
    return file


def test_a_warning_names_the_rows_and_the_run_is_committed(spark, tmp_path):
    warn = {"severity": "warn"}
    file = flow(
        tmp_path,
        [{"unique": "k", **warn}, {"not_null": ["k", "v"], **warn}, {"where": "v > 0", **warn}, {"where": "true"}],
        on_step=[{"where": "w > 2", **warn}],
    )
    with Home.open(tmp_path / "home") as home:
        report = home.run(file)
        assert report.status == "committed"
        told = [line for warning in report.warnings for line in warning.splitlines() if "warning: check" in line]
        assert [line.partition("warning: ")[2] for line in told] == [
            "check unique(k) of 'out' fails for 4 rows: _rid 0, 1, 3, 5",
            "check not_null(k, v) of 'out' fails for 2 rows: _rid 4, 5",
            "check where(v > 0) of 'out' fails for 1 row: _rid 2",
            "check where(w > 2) of 'twice' fails for 2 rows: _rid 0, 1 of 'twice_failing'",
        ]
        failing = [(row["_check"], row["k"], row["v"]) for row in home.rows("out_failing").to_pylist()]
        assert sorted(failing, key=str) == sorted(
            [
                ("unique(k)", 1, 1.0), ("unique(k)", 1, 2.0), ("unique(k)", 3, 4.0), ("unique(k)", 3, None),
                ("not_null(k, v)", None, 5.0), ("not_null(k, v)", 3, None), ("where(v > 0)", 2, -3.0),
            ],
            key=str,
        )  # fmt: skip
        pairs = home.backward("out_failing", all=True, to="s", pairs=True).to_pylist()
        rows = {row["_rid"]: (row["k"], row["v"]) for row in home.rows("out_failing").to_pylist()}
        assert {(rows[pair["out_rid"]], pair["rid"]) for pair in pairs} == {
            (row, index) for index, row in enumerate(zip(ROWS["k"], ROWS["v"], strict=True)) if row in rows.values()
        }
        behind = home.backward("twice_failing", all=True, to="s").to_pylist()
        assert [row["_rid"] for row in behind] == [0, 2]
        kinds = {row["dataset"]: row["kind"] for row in home.datasets().to_pylist()}
        assert kinds["flow.out_failing"] == kinds["flow.twice_failing"] == "failing"
        assert home.trace("s", rid=2).ahead[0].made_by[0].does == "the rows that fail a check"


def test_an_error_keeps_the_run_apart_and_the_printed_commands_explain_it(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("SMOKE_HOME", raising=False)
    with Home.open(tmp_path / "home") as home:
        good = home.run(flow(tmp_path, [{"not_null": "v", "severity": "warn"}])).run_id
        published = tmp_path / "published"
        with pytest.raises(ChecksFailed) as refused:
            home.run(flow(tmp_path, [{"unique": "k"}, {"where": "v > -9"}], path="published"))
        (problem,) = refused.value.problems
        assert refused.value.report.to_json()["status"] == "failed"
        assert problem.position.file == str(tmp_path / "flow.yml")
        assert problem.message == "check unique(k) of 'out' fails for 4 rows: _rid 0, 1, 3, 5"
        assert not published.exists()
        # No name means the failed run, except with its id.
        assert [run["run_id"] for run in home.runs().to_pylist()] == [good]
        (failed,) = home.runs(failed=True).to_pylist()
        assert failed["status"] == "failed"
        assert {row["run_id"] for row in home.datasets().to_pylist()} == {good}
        with pytest.raises(NotFound):
            home.rows("nowhere")
        assert home.forward("s", rid=0, to="out").to_pylist() == [{"_rid": 0, "k": 1, "v": 1.0, "w": 2.0}]
        commands = re.findall(r"smoke-lineage .*", str(problem))
        assert [shlex.split(each)[1] for each in commands] == ["backward", "rows"]
        assert home.backward(f"out@{failed['run_id'][:8]}", rid=1, to="s").to_pylist() == [
            {"_rid": 1, "k": 1, "v": 2.0}
        ]
        answers = []
        for each in commands:
            with pytest.raises(SystemExit) as left:
                main([*shlex.split(each)[1:], "--json"])
            assert left.value.code == 0
            answers.append(capsys.readouterr().out)
        assert '"dataset": "flow.s", "_rid": 5, "k": 3, "v": null' in answers[0]
        assert answers[1].count("unique(k)") == 4
        assert home.gc()["removed"] == 1
        assert home.runs(failed=True).count() == 0
        assert [run["run_id"] for run in home.runs().to_pylist()] == [good]
        assert home.rows("out").count() == 6


def test_a_copy_that_went_with_a_failed_run_is_made_anew(spark, tmp_path):
    (tmp_path / "s.csv").write_text("k,v\n1,1\n1,2\n")
    file = flow(tmp_path, [{"unique": "k"}])
    body = json.loads(file.read_text())
    body["sources"]["s"] = {"path": "s.csv", "options": {"header": True}, "schema": "k INT, v INT"}
    file.write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(RunError):
            home.run(file)
        body["outputs"] = {"out": None}
        file.write_text(json.dumps(body))
        home.run(file)
        home.gc()
        assert [row["v"] for row in home.rows("s").to_pylist()] == [1, 2]


def test_many_failing_rows_are_counted_and_some_are_named(spark, tmp_path):
    file = flow(tmp_path, [{"where": "v < 0", "severity": "warn"}], capture="off")
    pq.write_table(pa.table({"k": list(range(1, 501)), "v": [1.0] * 500}), tmp_path / "s.parquet")
    with Home.open(tmp_path / "home") as home:
        (warning,) = home.run(file).warnings
        assert "fails for 500 rows: _rid 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 490 more of 'out_failing'" in warning
        assert "backward" not in warning, "without lineage nothing is promised"
        assert home.rows("out_failing").count() == 500


def test_rows_are_named_by_the_dataset_that_holds_them(spark, tmp_path):
    """The step is an output under another name; the same check is asked twice; one check is of a step nobody reads."""
    warn = {"severity": "warn"}
    file = flow(tmp_path, [])
    body = json.loads(file.read_text())
    body["steps"] = [
        {"name": "x", "op": "filter", "input": "s", "where": "true",
         "checks": [{"where": "v > 1", **warn}, {"where": "v <> 2", **warn}, {"where": "v <> 2", **warn}]},
        {"name": "unread", "op": "filter", "input": "s", "where": "true", "checks": [{"not_null": "K", **warn}]},
        {"name": "long", "op": "with_columns", "input": "s", "columns": {"i": "make_interval(1, 2)"},
         "checks": [{"where": "v > 4", **warn}]},
        {"name": "out", "op": "project", "input": "long", "columns": ["k"]},
    ]  # fmt: skip
    body["outputs"] = {"report": {"step": "x"}, "out": None}
    file.write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        warnings = home.run(file).warnings
        told = [line.partition("check ")[2] for text in warnings for line in text.splitlines() if ": check " in line]
        assert told == [
            "where(v > 1) of 'x' fails for 2 rows: _rid 0, 2 of 'report'",
            "where(v <> 2) of 'x' fails for 1 row: _rid 1 of 'report'",
            "where(v <> 2) of 'x' fails for 1 row: _rid 1 of 'report'",
            "not_null(K) of 'unread' fails for 1 row: _rid 0 of 'unread_failing'",
            "where(v > 4) of 'long' fails for 4 rows: _rid 0, 1, 2, 3 of 'long_failing'",
        ]
        assert [row["v"] for row in home.rows("x_failing").to_pylist()] == [1.0, 2.0, -3.0]
        assert home.backward("unread_failing", rid=0, to="s", rids=True).to_pylist() == [{"_rid": 4}]
        (explained,) = {line for text in warnings for line in text.splitlines() if "--rid 1 --to" in line}
        assert "backward flow.report@" in explained


def test_a_check_that_is_no_predicate_is_told_before_anything_is_written(spark, tmp_path):
    file = flow(tmp_path, [{"where": "v + 1"}], on_step=[{"where": "w = array(1)"}])
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(WorkflowError) as refused:
            home.run(file)
        assert len(refused.value.problems) == 2
        assert all("check where(" in problem.message for problem in refused.value.problems)


def test_nothing_reads_a_failed_run_and_its_names_mean_nothing(spark, tmp_path):
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(RunError):
            home.run(flow(tmp_path, [{"unique": "k"}]))
        failed = home.runs(failed=True).to_pylist()[0]["run_id"]
        reading = {
            "version": 1,
            "name": "other",
            "sources": {"i": {"output": f"flow.out@{failed}"}},
            "steps": [{"name": "out", "op": "distinct", "input": "i"}],
            "outputs": {"out": None},
        }
        file = tmp_path / "other.yml"
        file.write_text(json.dumps(reading))
        with pytest.raises(WorkflowError, match="failed a check and is not committed"):
            home.run(file)
        reading["sources"] = {"i": {"path": "s.parquet"}}
        file.write_text(json.dumps(reading))
        home.run(file)
        assert home.rows("out").count() == 6, "the failed run's `out` makes this name no less clear"
