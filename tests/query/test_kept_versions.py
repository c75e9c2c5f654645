"""Refreshes of earlier releases made no new version of an output that stayed as it was: several runs have made its rows
then, each with lineage of its own. Readers are linked with the run of which they have read."""

import pyarrow as pa
import pytest
from lineage_catalog.engine import connect
from lineage_catalog.models import runs
from sqlalchemy import update

from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

ROWS = pa.table({"id": [0, 1]})


def pairs(home, dataset, to):
    return {(row["out_rid"], row["rid"]) for row in home.backward(dataset, all=True, to=to, pairs=True).to_pylist()}


def ahead(home, source, to):
    return {(row["out_rid"], row["rid"]) for row in home.forward(source, all=True, to=to, pairs=True).to_pylist()}


@pytest.fixture
def twice(tmp_path):
    """An output that two runs of a workflow have made, the second with other rows behind it."""
    made = MadeHome(tmp_path / "home")
    first = made.run("a", {"s": Made(ROWS, "source"), "tot": Made(ROWS, hops={"s": [(0, 0), (1, 1)]})})
    same, read = made.versions[first, "tot"], made.versions[first, "s"]
    second = made.run("a", {"s": Made(read, "source"), "tot": Made(same, hops={"s": [(0, 1), (1, 0)]})})
    return made, first, second, same


def reader(made, version, declared):
    return made.run("b", {"tot": Made(version, "source", declared), "o": Made(ROWS, hops={"tot": [(0, 0), (1, 1)]})})


@pytest.mark.parametrize("prefix", [True, False])
def test_a_run_that_the_workflow_names_is_the_one_that_was_read(twice, prefix):
    made, first, second, same = twice
    for run, behind in ((first, {(0, 0), (1, 1)}), (second, {(0, 1), (1, 0)})):
        reader(made, same, {"output": f"a.tot@{run[:4] if prefix else run}"})
        with made.home as home:
            assert pairs(home, "b.o", f"a.s@{run}") == behind
            assert ahead(home, f"a.s@{run}", "b.o") == behind


def test_of_a_reader_that_has_named_no_run_the_latest_run_counts(twice):
    made, _, _, same = twice
    reader(made, same, {"output": "a.tot"})
    with made.home as home:
        assert pairs(home, "b.o", "a.s") == {(0, 1), (1, 0)}


def test_an_erasure_may_have_put_another_run_in_the_place_of_the_one_that_was_read(twice):
    made, first, _, same = twice
    old = made.run("a", {})
    reader(made, same, {"output": f"a.tot@{old}"})
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == old).values(status="superseded", superseded_by=first))
        seal_anew(connection)
    engine.dispose()
    with made.home as home:
        assert pairs(home, "b.o", "a.s") == {(0, 0), (1, 1)}, "not those of the later run"
