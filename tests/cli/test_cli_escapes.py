"""Text of workflows and data cannot steer the terminal."""

import json

import pyarrow as pa
import pytest
from lineage_cli.main import main

from lineage_service.render.safe_text import escape_text
from tests.support.made_runs import Made, MadeHome

STEERING = "\x1b]0;owned\x07\x1b[2J\r\x08\x7f\x9b31m\u202e\u200b"


def raw(text):
    """Characters that would reach the terminal as they are."""
    return [character for character in text if escape_text(character) != character]


@pytest.fixture
def said(capsys):
    """What a command writes to its output and to its errors."""

    def call(*arguments):
        with pytest.raises(SystemExit):
            main([str(argument) for argument in arguments])
        return capsys.readouterr()

    return call


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
def test_what_is_said_of_a_workflow(tmp_path, said, changed, verb):
    out, err = said(verb, workflow(tmp_path, **changed))
    assert out + err and raw(out + err) == []
    assert "Traceback" not in err


def test_what_is_said_of_data(tmp_path, said):
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
        out, err = said(*verb, "--home", made.folder)
        assert out + err and raw(out + err) == [], verb
    whole, _ = said("rows", "o@0001flow", "--json", "--home", made.folder)
    assert json.loads(whole)[0]["name"] == STEERING, "data is not changed"
