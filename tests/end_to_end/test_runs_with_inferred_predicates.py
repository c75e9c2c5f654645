"""Every verb on a run with inferred predicates gives what it gives on a run without them."""

import re
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home

PART = [{"k": 1, "s": "a"}, {"k": 1, "s": "a"}, {"k": 2, "s": "b"}, {"k": None, "s": "a"}, {"k": 4, "s": "b"}]
SUPPLY = [{"k": k, "v": v} for k, v in ((1, 9), (2, 9), (2, 0), (4, 9), (None, 9))]
ITEM = [{"k": k, "q": q, "who": f"Person-{who}-Wvu"} for k, q, who in (
    (1, 1, 0), (1, 2, 1), (2, 3, 0), (2, 4, 1), (None, 1, 2), (4, 20, 0), (4, 1, 1),
)]  # fmt: skip
FLOW = """
version: 1
name: flow
sources:
  part: {path: part.parquet}
  supply: {path: supply.parquet}
  item: {path: item.parquet, subject: {person: who}, pii: [who]}
steps:
  - name: out
    op: sql
    query: |
      SELECT k, v, (SELECT count(*) FROM item i WHERE i.k = o.k) AS n FROM supply o
      WHERE v > (SELECT sum(q) FROM item i WHERE i.k = o.k) AND k IN (SELECT k FROM part WHERE s = 'a') AND o.k < 9
outputs: {out: }
"""
ALWAYS = patch("lineage_service.capture.inferred_predicates.expected_to_pay", lambda plan, found, sizes: found)
NEVER = patch("lineage_service.capture.inferred_predicates.expected_to_pay", lambda plan, found, sizes: [])


def home_in(folder: Path, part=PART, supply=SUPPLY, item=ITEM) -> Home:
    folder.mkdir(exist_ok=True)
    for name, rows in (("part", part), ("supply", supply), ("item", item)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    (folder / "flow.yml").write_text(FLOW)
    return Home.open(folder / "home")


def answer(home: Home, values: bool = True) -> list[tuple]:
    """Each row of the output with the rows behind it, as values, so that homes can be compared."""
    told = {
        name: {row["_rid"]: row for row in home.rows(name, reveal=True).to_pylist()}
        for name in ("part", "supply", "item")
    }
    found = []
    for row in home.rows("out").to_pylist():
        behind = [
            sorted(str({**told[name][each["rid"]], "_rid": 0})
            for each in home.backward("out", to=name, rid=row["_rid"], pairs=True).to_pylist())
            for name in told
        ]  # fmt: skip
        found.append((row["k"], row["v"], row["n"], behind))
    for name in told:
        back = home.backward("out", to=name, all=True, pairs=True).to_pylist()
        assert sorted(map(str, back)) == sorted(
            map(str, home.forward(name, to="out", all=True, pairs=True).to_pylist())
        )
    return sorted(map(str, found))


def anew(folder: Path, **rows) -> list[tuple]:
    with home_in(folder, **rows) as home, NEVER:
        home.run(folder / "flow.yml")
        assert not inferred(home)
        return answer(home)


def inferred(home: Home) -> list[str]:
    steps = home._open.reader.steps(home.runs().to_pylist()[0]["run_id"])
    return [each.node for each in steps if re.search(r":in_\d+_semi$|:where_", each.node)]


@pytest.fixture
def home(spark, tmp_path):
    with home_in(tmp_path / "one") as opened, ALWAYS:
        opened.run(tmp_path / "one" / "flow.yml")
        assert len(inferred(opened)) == 5  # both for each scalar subquery, the comparison for IN
        yield opened


@pytest.mark.parametrize("capture", ["off", "inject", "stage", "defer", "lazy"])
def test_every_strategy_finds_the_same(spark, tmp_path, capture):
    with home_in(tmp_path / "one") as home, ALWAYS:
        home.run(tmp_path / "one" / "flow.yml", capture=capture)
        assert len(inferred(home)) == 5
        if capture == "off":
            assert [row["k"] for row in home.rows("out").to_pylist()] == [1]
        else:
            assert answer(home) == anew(tmp_path / "two")


def test_a_refresh_finds_groups_that_were_not_made(home, tmp_path):
    home.refresh("part", changed=[{"_rid": 2, "s": "a", "k": 2}])
    part = [*PART[:2], {"k": 2, "s": "a"}, *PART[3:]]
    assert answer(home) == anew(tmp_path / "two", part=part)
    home.refresh("item", removed="q = 20")
    home.refresh("part", added=[{"k": 4, "s": "a"}])
    item = [each for each in ITEM if each["q"] != 20]
    assert answer(home) == anew(tmp_path / "three", part=[*part, {"k": 4, "s": "a"}], item=item)
    home.refresh("part", removed="k = 1")
    left = [each for each in part if each["k"] != 1]
    assert answer(home) == anew(tmp_path / "four", part=[*left, {"k": 4, "s": "a"}], item=item)


def test_a_what_if_is_what_a_refresh_would_bring(home):
    told = home.what_if(without="item", where="q = 2", on="out").to_pylist()
    assert [(row["change"], row["n"]) for row in told] == [("vanishes", 2), ("appears", 1)]
    told = home.what_if(without="part", where="k = 1", on="out").to_pylist()
    assert [(row["change"], row["n"]) for row in told] == [("vanishes", 2)]
    assert not home.what_if(without="item", where="k = 2 OR k = 4", on="out").to_pylist()


def test_an_erasure_leaves_what_a_run_without_the_person_gives(home, tmp_path):
    home.refresh("part", changed=[{"_rid": 2, "s": "a", "k": 2}])
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    home.audit.plan_erasure(["person=Person-1-Wvu"], out=plan)
    home.audit.apply(plan, out=certificate)
    assert home.audit.verify(certificate, values=["Person-1-Wvu"]).holds
    part = [*PART[:2], {"k": 2, "s": "a"}, *PART[3:]]
    assert answer(home) == anew(tmp_path / "two", part=part, item=[each for each in ITEM if "-1-" not in each["who"]])


def test_why_not_names_no_inferred_join(home, tmp_path):
    told = home.why_not("item", to="out", all=True)
    assert ":in_" not in str(told.to_json()) and ":where_" not in str(told.to_json())
    with home_in(tmp_path / "two") as other, NEVER:
        other.run(tmp_path / "two" / "flow.yml")
        expected = other.why_not("item", to="out", all=True)
    assert without_run(told.to_json()) == without_run(expected.to_json())


def without_run(told: dict) -> dict:
    return {key: value for key, value in told.items() if "run" not in key and key != "seconds"}


def test_the_record_of_a_run_shows_what_ran(home):
    names = {each["name"] for each in home.explained_run("flow").to_json()["steps"]}
    assert set(inferred(home)) < names
    with NEVER:  # the file would not be run in this way now
        assert set(inferred(home)) < {each["name"] for each in home.explained_run("flow").to_json()["steps"]}
