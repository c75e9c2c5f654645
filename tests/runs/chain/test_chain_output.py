"""What `run` prints of several workflows: why each runs or does not, its report, and what failed. Nothing is run."""

import json
from pathlib import Path

import pytest
from lineage_cli.main import main

from lineage_service.errors import Position, Problem, RunError
from lineage_service.runs.chain import chain_run
from lineage_service.runs.run_report import RunReport
from tests.runs.chain.test_chained_workflows import text, workflow

REASONS = {"apart": None, "first": "its file has changed", "second": "never asked", "third": None}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    workflow(tmp_path, "first")
    workflow(tmp_path, "third", "second.second")
    text(tmp_path / "second.sql", "SELECT * FROM first.out JOIN t ON true")
    text(tmp_path / "apart.sql", "SELECT * FROM u")
    asked = []
    monkeypatch.setattr(chain_run, "reason_to_run", lambda item, *_: REASONS[item.name])

    def call(*arguments: str, failing: str = ""):
        def run_workflow(file, options, store, tell):
            asked.append((Path(file).name, dict(options.sources)))
            if failing and file.stem == failing:
                raise RunError(Problem("no such luck", Position("x.sql", 1, 2)))
            return RunReport("r1", file.stem, "committed", {}, {"out": {"rows": 3}}, {}, {}, {}, ("a warning",))

        monkeypatch.setattr(chain_run, "run_workflow", run_workflow)
        asked.clear()
        given = ["--home", str(tmp_path / "home"), "--source", "t=t.parquet", "--source", "u=u.parquet"]
        with pytest.raises(SystemExit) as left:
            main(["run", str(tmp_path), *given, *arguments])
        out, err = capsys.readouterr()
        return left.value.code, out, err.splitlines(), list(asked)

    return call


def test_those_out_of_date_run_in_their_order(run):
    code, out, err, asked = run()
    assert code == 0
    assert asked == [("first.yml", {}), ("second.sql", {"t": "t.parquet"}), ("third.yml", {})]
    assert err == [
        "apart: up to date (run -)",
        "first: runs, its file has changed",
        "second: runs, 'first' will run before it",
        "third: runs, 'second' will run before it",
        "a warning",
        "a warning",
        "a warning",
    ]
    assert [line for line in out.splitlines() if line.startswith("run ")] == [
        "run r1  first  committed", "run r1  second  committed", "run r1  third  committed"
    ]  # fmt: skip


def test_json_is_one_array(run):
    code, out, _, _ = run("--json", "--select", "second")
    assert code == 0
    assert [(each["workflow"], each["status"]) for each in json.loads(out)] == [("second", "committed")]
    assert run("--json", "--select", "apart")[:2] == (0, "[]\n")
    assert [each["workflow"] for each in json.loads(run("--json", "--all")[1])] == ["apart", "first", "second", "third"]


def test_a_failure_is_told_and_stops_what_depends_on_it(run):
    code, out, err, asked = run("--json", failing="second")
    assert code == 1
    assert [name for name, _ in asked] == ["first.yml", "second.sql"]
    found = json.loads(out)
    assert [(each["workflow"], each["status"], each["run_id"]) for each in found] == [
        ("first", "committed", "r1"), ("second", "failed", None), ("third", "skipped", None)
    ]  # fmt: skip
    assert found[1].keys() - {"reason"} == found[0].keys()
    assert found[1]["reason"] == "no such luck"
    assert err[-4:] == [
        "second: failed",
        "x.sql:1:2: no such luck",
        "third: not run, 'second', which it reads, was not run successfully",
        "error: 1 of 4 workflows failed: second; skipped because they depend on a failed one: third",
    ]
