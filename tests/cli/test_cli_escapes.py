"""Text of workflows and data cannot steer the terminal."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from lineage_cli.messages import visible

from tests.made_runs import Made, MadeHome

STEERING = "\x1b]0;owned\x07\x1b[2J\r\x08\x7f\x9b31m\u202e\u200b"
PROGRAM = Path(sys.executable).with_name("smoke-lineage")


def raw(text):
    """Characters that would reach the terminal as they are."""
    return [character for character in text if visible(character) != character]


def workflow(folder, **changed):
    body = {
        "version": 1,
        "name": "flow",
        "sources": {"a": {"path": "a.csv", "format": "csv", "schema": "k int"}},
        "steps": [{"name": "o", "op": "filter", "input": "a", "where": "k > 1"}],
        "outputs": {"o": {}},
    }
    (folder / "a.csv").write_text("1\n")
    (folder / "flow.yml").write_text(json.dumps({**body, **changed}))
    return folder / "flow.yml"


def step(**changed):
    return [{"name": "o", "op": "filter", "input": "a", "where": "k > 1", **changed}]


@pytest.mark.parametrize(
    "changed",
    [
        {"name": STEERING},
        {"description": STEERING},
        {STEERING: 1},
        {"steps": step(where=f"unknown{STEERING}(k)")},
        {"steps": step(where=f"`{STEERING}` > 1")},
        {"steps": step(input=STEERING)},
        {"steps": step(op=STEERING)},
        {"sources": {"a": {"path": STEERING}}},
        {"outputs": {STEERING: {"step": "nowhere"}}},
        {"vars": {STEERING: 1}},
    ],
)
@pytest.mark.parametrize("verb", ["validate", "explain", "graph"])
def test_what_is_said_of_a_workflow(tmp_path, changed, verb):
    path = workflow(tmp_path, **changed)
    done = subprocess.run([PROGRAM, verb, path], capture_output=True, text=True, check=False)
    assert raw(done.stdout + done.stderr) == []
    assert "Traceback" not in done.stderr


def test_what_is_said_of_data(tmp_path):
    made = MadeHome(tmp_path / "home")
    people = Made(pa.table({"id": [1], "name": [STEERING]}), "source")
    made.run(
        "flow", {"people": people, "o": Made(pa.table({"id": [1], "name": [STEERING]}), hops={"people": [(0, 0)]})}
    )
    made.run("flow", {"people": people, "o": Made(pa.table({"id": [1], "name": ["a"]}), hops={"people": [(0, 0)]})})
    for verb in (
        ["rows", "o@0001flow"], ["trace", "o@0001flow", "--rid", "0"], ["diff", "o", "--key", "id"],
        ["rows", STEERING], ["rows", "o", "--where", f"x{STEERING}"], ["query", f"SELECT {STEERING}"],
        ["runs", "--workflow", STEERING], [STEERING],
    ):  # fmt: skip
        done = subprocess.run([PROGRAM, *verb, "--home", made.folder], capture_output=True, text=True, check=False)
        assert raw(done.stdout + done.stderr) == [], verb
    whole = subprocess.run(
        [PROGRAM, "rows", "o@0001flow", "--json", "--home", made.folder], capture_output=True, text=True, check=True
    )
    assert json.loads(whole.stdout)[0]["name"] == STEERING, "data is not changed"
