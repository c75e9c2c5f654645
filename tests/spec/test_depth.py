"""Workflows that are deeper, or whose paths are wider, than can be looked at."""

import json
from itertools import pairwise

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.errors import LineageError
from lineage_service.spec.loader import load_workflow
from lineage_service.spec.name_checks import MOST_DEPTH
from lineage_service.store import listing as listings
from lineage_service.store.listing import is_vast, listing


def chained(folder, count, **names):
    steps = [
        {"name": f"s{n}", "op": "filter", "input": f"s{n - 1}" if n else "a", "where": "k > 0"} for n in range(count)
    ]
    source = {"path": "a.csv", "format": "csv", "schema": "k int"}
    body = {
        "version": 1,
        "name": "deep",
        "sources": {"a": source},
        "steps": steps[::-1],
        "outputs": {steps[-1]["name"]: {}},
    }
    (folder / "a.csv").write_text("1\n")
    (folder / "flow.yml").write_text(json.dumps({**body, **names}))
    return folder / "flow.yml"


@pytest.mark.long
def test_three_thousand_chained_steps_are_refused_with_the_limit(tmp_path):
    (problem,) = load_workflow(chained(tmp_path, 3000)).errors
    assert problem.message == f"step 's{MOST_DEPTH}' is behind more than {MOST_DEPTH} steps that follow each other"
    assert problem.hint


@pytest.mark.long
@pytest.mark.parametrize("verb", ["validate", "explain", "graph"])
def test_verbs_say_so(tmp_path, verb):
    found = CliRunner().invoke(cli, [verb, str(chained(tmp_path, 3000))])
    assert isinstance(found.exception, LineageError | SystemExit), found.exception
    assert "steps that follow each other" in f"{found.output} {found.exception}"


@pytest.mark.long
def test_as_many_as_are_allowed_can_be_explained_and_drawn(tmp_path):
    from lineage_service.runs.workflow_file import explain_workflow, validate_workflow

    path = chained(tmp_path, MOST_DEPTH)
    assert validate_workflow(path) is not None
    assert explain_workflow(path) is not None


def test_a_path_that_goes_down_through_everything_is_not_looked_through(tmp_path, monkeypatch):
    for number in range(30):
        (tmp_path / f"f{number}").mkdir()
    (tmp_path / "f3" / "a.csv").write_text("k\n1\n")
    assert not is_vast("**/*.csv", tmp_path)
    assert len(listing("**/*.csv", tmp_path).files) == 1
    assert is_vast("**/*.csv", tmp_path, most=20)
    assert not is_vast("f3/**/*.csv", tmp_path, most=20)
    assert not is_vast("f3/*.csv", tmp_path, most=0)
    monkeypatch.setattr(listings.glob, "iglob", lambda *_, **__: pytest.fail("looked through"))
    assert is_vast(str(tmp_path / "**" / "*.csv"), tmp_path, most=20)


# --- sql steps ------------------------------------------------------------------------------------------------


def chained_queries(folder, count):
    """Each query is compiled to operations that follow each other: 38 for these."""
    names = ["t", *(f"c{number}" for number in range(11))]
    ctes = ", ".join(f"{name} AS (SELECT k FROM {below} WHERE k > 0)" for below, name in pairwise(names))
    steps = [
        {
            "name": f"s{n}",
            "op": "sql",
            "query": f"WITH {ctes.replace('t ', f's{n - 1} ' if n else 'a ')} SELECT k FROM c10",
        }
        for n in range(count)
    ]
    return chained(folder, 1, steps=steps, outputs={steps[-1]["name"]: {}})


@pytest.mark.long
@pytest.mark.parametrize("count", [12, 30])
def test_queries_that_follow_each_other_can_be_explained_or_are_refused(tmp_path, count):
    """Passes over a plan recurse: a workflow of a few dozen queries once ended in a RecursionError."""
    from lineage_service.runs.workflow_file import explain_workflow, validate_workflow

    path = chained_queries(tmp_path, count)
    if count == 12:
        assert validate_workflow(path) is not None
        assert explain_workflow(path) is not None
        return
    for verb in (validate_workflow, explain_workflow):
        with pytest.raises(LineageError, match="operations that follow each other") as told:
            verb(path)
        (problem,) = told.value.problems
        assert problem.hint
