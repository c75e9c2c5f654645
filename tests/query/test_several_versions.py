"""A name that leads to several versions with different rows: the question asks for a run, or the answer names them."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError
from lineage_service.store.patched_rids import AT
from tests.support.made_runs import Made, MadeHome

A = """version: 1
name: a
sources: {s: {path: s.parquet, snapshot: true}}
steps: [{name: tot, op: aggregate, input: s, by: [k], measures: {s: sum(v), n: count(*)}}]
outputs: {tot: {}}
"""
BOTH = """version: 1
name: b
sources: {old: {output: "a.tot@OLD"}, new: {output: a.tot}}
steps: [{name: u, op: union, inputs: [old, new]}]
outputs: {u: {}}
"""
BESIDE = """version: 1
name: e
sources: {s: {path: s.parquet}, t: {output: "a.tot@OLD"}}
steps:
  - {name: own, op: project, input: s, columns: {k: k, sid: v}}
  - {name: o, op: join, left: own, right: t, using: [k]}
outputs: {o: {}}
"""


class Catalog:
    """Two runs of one workflow over a file that was overwritten between them."""

    def __init__(self, folder, before, after):
        self.folder = folder
        (folder / "a.yml").write_text(A)
        self.home = Home.open(folder / "home")
        self.write(before)
        self.old = self.home.run(folder / "a.yml").run_id
        self.write(after)
        self.new = self.home.run(folder / "a.yml").run_id

    def write(self, rows):
        pq.write_table(pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}), self.folder / "s.parquet")

    def run(self, text):
        (self.folder / "next.yml").write_text(text.replace("OLD", self.old))
        return self.home.run(self.folder / "next.yml").run_id

    def pairs(self, dataset, to, direction="backward"):
        ask = self.home.backward if direction == "backward" else self.home.forward
        return sorted((each["out_rid"], each["rid"]) for each in ask(dataset, to=to, all=True, pairs=True).to_pylist())


@pytest.fixture
def both(spark, tmp_path):
    catalog = Catalog(tmp_path, [(1, 5), (2, 3)], [(3, 5), (4, 8)])
    catalog.run(BOTH)
    with catalog.home:
        yield catalog


def test_questions_and_evaluations_ask_for_a_run(both):
    home = both.home
    asked = {
        "pairs": lambda name: home.backward("b.u", to=name, all=True, pairs=True),
        "witnesses": lambda name: home.backward("b.u", to=name, all=True, semantics="why"),
        "survival": lambda name: home.backward("b.u", all=True, semantics="how", evaluate="boolean", without={name: 0}),
        "cost": lambda name: home.backward("b.u", all=True, semantics="how", evaluate="min-cost", cost={name: "v"}),
        "trust": lambda name: home.backward("b.u", all=True, semantics="how", evaluate="trust", trust={name: 0.5}),
    }
    for what, ask in asked.items():
        with pytest.raises(QuestionError, match="means several datasets here") as refused:
            ask("a.s")
        assert both.old in str(refused.value) and both.new in str(refused.value), what
        ask(f"a.s@{both.old}").to_pylist()
    survived = home.backward("b.u", all=True, semantics="how", evaluate="boolean", without={f"a.s@{both.new}": 0})
    of_row = dict(zip([each["k"] for each in home.rows("b.u").to_pylist()], survived.to_pylist(), strict=True))
    assert [key for key, each in of_row.items() if any(value is False for value in each.values())] == [3]


def test_counts_and_all_datasets_name_the_run(both):
    counted = {each["dataset"]: each["rows"] for each in both.home.backward("b.u", all=True).to_pylist()}
    assert counted == {
        "b.old": 2, "b.new": 2, f"a.tot@{both.old}": 2, f"a.tot@{both.new}": 2, f"a.s@{both.old}": 2, f"a.s@{both.new}": 2
    }  # fmt: skip
    found = both.home.backward("b.u", all=True, to="all", pairs=True).to_pylist()
    assert {each["dataset"] for each in found} == counted.keys()
    assert len({(each["dataset"], each["out_rid"], each["rid"]) for each in found}) == len(found) == 12


def test_a_saved_query_hides_no_version_that_another_one_read(spark, tmp_path):
    catalog = Catalog(tmp_path, [(1, 5), (2, 3)], [(3, 5), (4, 8), (5, 1)])
    with catalog.home as home:
        home.query(f'SELECT k, s FROM "a.tot@{catalog.old}"', save="q1")
        home.query("SELECT k, s FROM a.tot UNION ALL SELECT k + 100, s FROM q1", save="q2")
        for ask in (
            lambda: catalog.pairs("q2", "a.tot"),
            lambda: home.query("FROM backward('q2', 'a.tot')").to_pylist(),
        ):
            with pytest.raises(QuestionError, match="means several datasets here") as refused:
                ask()
            assert str(refused.value).count("a.tot@") == 2  # each version once, by the run that made it
            assert catalog.old in str(refused.value) and catalog.new in str(refused.value)
        assert len(catalog.pairs("q2", f"a.tot@{catalog.old}")) == 2
        assert len(catalog.pairs("q2", f"a.tot@{catalog.new}")) == 3
        assert catalog.pairs("q1", "a.tot") == catalog.pairs("q1", f"a.tot@{catalog.old}") != []


def test_a_version_on_the_way_does_not_hide_one_that_was_read_beside_it(spark, tmp_path):
    catalog = Catalog(tmp_path, [(1, 1), (1, 2), (2, 3)], [(2, 1), (1, 2), (1, 3)])
    catalog.run(BESIDE)
    with catalog.home:
        with pytest.raises(QuestionError, match="means several datasets here"):
            catalog.pairs("e.o", "a.s")
        ahead = sorted((a, b) for a, b in catalog.pairs(f"a.s@{catalog.new}", "e.o", "forward"))
        assert ahead == catalog.pairs("e.o", f"a.s@{catalog.new}") != []
        assert catalog.pairs("e.o", f"a.s@{catalog.old}")


def test_one_version_that_holds_every_row_needs_no_run(spark, tmp_path):
    """A file of a folder was overwritten since: the version that was read holds all rows, the latest one some."""
    folder = tmp_path / "d"
    folder.mkdir()
    for year in (2023, 2024):
        pq.write_table(pa.table({"k": [1, 2], "v": [year, year]}), folder / f"{year}.parquet")
    (tmp_path / "a.yml").write_text(A.replace("path: s.parquet, snapshot: true", "path: d/*.parquet"))
    (tmp_path / "b.yml").write_text(
        A.replace("name: a", "name: b").replace("path: s.parquet, snapshot: true", "path: d")
    )
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "a.yml")
        home.run(tmp_path / "b.yml")
        assert home.backward("b.tot", to="a.s", all=True, count=True).to_pylist() == [{"count": 4}]
        pq.write_table(pa.table({"k": [7], "v": [7]}), folder / "2023.parquet")
        home.run(tmp_path / "a.yml")
        assert home.backward("b.tot", to="a.s", all=True, count=True).to_pylist() == [{"count": 4}]


def test_an_output_leads_to_the_source_that_read_it(tmp_path):
    """Both are the same rows, so backward gives what forward gives the other way round, with and without a run."""
    made, rows = MadeHome(tmp_path / "home"), pa.table({"k": [1, 2]})
    same = [(0, 0), (1, 1)]
    first = made.run("a", {"s": Made(rows, "source"), "o": Made(rows, hops={"s": same})})
    read = Made(made.versions[first, "o"], "source", {"output": "a.o"})
    later = made.run("z", {"r": read, "o": Made(rows, hops={"r": same})})
    with made.home as home:
        for start, end in (("a.o", "z.r"), ("z.r", "a.o"), (f"a.o@{first}", "z.r"), ("a.o", f"z.r@{later}")):
            back = home.backward(start, to=end, all=True, pairs=True).to_pylist()
            assert [(row["out_rid"], row["rid"]) for row in back] == same, (start, end)
            assert home.forward(end, to=start, all=True, pairs=True).to_pylist() == back, (start, end)
        with pytest.raises(QuestionError, match="not linked"):
            home.backward("a.s", to="z.o", all=True, pairs=True)


@pytest.fixture
def smaller(tmp_path):
    """A version of `a.s` was made from another by the removal of a row, and its output was read beside the file: the
    version before holds every row that is behind `b.j`, the latest one does not."""
    made, same = MadeHome(tmp_path / "home"), [(0, 0), (1, 1)]
    first = made.run("a", {"s": Made(pa.table({"k": [1, 2, 3]}), "source", kind="source")})
    read = made.versions[first, "s"]
    less = replace(read, id="less", files=(replace(read.files[0], without=str(tmp_path / "gone.parquet"), left_out=1),))
    pq.write_table(pa.table({AT: pa.array([0], pa.int64())}), tmp_path / "gone.parquet")
    second = made.run(
        "a", {"s": Made(less, "source"), "tot": Made(pa.table({"k": [2, 3]}), hops={"s": [(0, 1), (1, 2)]})}
    )
    tot = Made(made.versions[second, "tot"], "source", {"output": "a.tot"})
    rows = Made(pa.table({"k": [1, 2, 3]}), hops={"s": [(0, 0), (1, 1), (2, 2)], "t": same})
    made.run("b", {"s": Made(read, "source"), "t": tot, "j": rows})
    with made.home as home:
        yield home, first, second


def test_a_version_with_all_rows_is_meant_where_another_was_made_from_it_by_removing_some(smaller):
    home, first, second = smaller
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]

    def asked(question):
        return sorted((row["out_rid"], row["rid"]) for row in question.to_pylist())

    assert asked(home.backward("b.j", to="a.s", all=True, pairs=True)) == pairs
    assert asked(home.backward("b.j", to=f"a.s@{first}", all=True, pairs=True)) == pairs
    assert asked(home.forward(f"a.s@{first}", to="b.j", all=True, pairs=True)) == pairs
    assert asked(home.forward("a.s", to="b.j", all=True, pairs=True)) == pairs[1:]
    assert asked(home.backward("b.j", to=f"a.s@{second}", all=True, pairs=True)) == pairs[1:]
    assert home.backward("b.j", to="a.s", all=True, count=True).to_pylist() == [{"count": 3}]
    assert home.query("SELECT _rid FROM backward('b.j', 'a.s') ORDER BY _rid").to_pylist() == [
        {"_rid": 0}, {"_rid": 1}, {"_rid": 2}
    ]  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """Saved queries read both versions of `a.tot`, and one of them the older version of `a.s`."""
    made, same = MadeHome(tmp_path / "home"), [(0, 0), (1, 1)]
    runs = []
    for number in (1, 5):
        source = Made(pa.table({"k": [number, number + 1]}), "source")
        tot = Made(pa.table({"k": [number, number + 1]}), hops={"s": same})
        runs.append(made.run("a", {"s": source, "tot": tot}))
    old, new = runs
    made.run("b", {"t": Made(made.versions[new, "tot"], "source", {"output": "a.tot"}),
                   "j": Made(pa.table({"k": [5, 6]}), hops={"t": same})})  # fmt: skip
    with made.home as home:
        home.query(f'SELECT j.k FROM b.j JOIN "a.tot@{old}" o ON o.k = j.k - 4', save="q1")
        home.query("SELECT k FROM q1", save="q2")
        home.query(f'SELECT j.k FROM b.j JOIN "a.s@{old}" o ON o.k = j.k - 4', save="q3")
        home.query(f'SELECT n.k FROM a.tot n JOIN "a.tot@{old}" o ON o.k = n.k - 4 JOIN "a.s@{old}" s ON s.k = o.k '
                   "JOIN a.s t ON t.k = n.k", save="q4")  # fmt: skip
        yield home, old, new


def test_versions_have_the_names_of_their_own_runs_behind_saved_queries(saved):
    home, old, new = saved
    for query, versions in (
        ("q1", ["a.tot", "a.s"]),
        ("q2", ["a.tot", "a.s"]),
        ("q3", ["a.s"]),
        ("q4", ["a.tot", "a.s"]),
    ):
        counted = {each["dataset"]: each["rows"] for each in home.backward(query, rid=0).to_pylist()}
        expected = {f"{name}@{run}" for name in versions for run in (old, new)}
        assert {name for name in counted if name.startswith("a.")} - {"a.tot"} == expected, query
        assert set(counted.values()) == {1}, query
        listed = home.backward(query, rid=0, to="all", rids=True).to_pylist()
        assert {each["dataset"] for each in listed} == counted.keys()
        told = home.query(f"SELECT dataset, count(*) AS n FROM backward('{query}', 'all', '_rid = 0') GROUP BY ALL")
        assert {each["dataset"]: each["n"] for each in told.to_pylist()} == counted
        for name in expected:
            assert len(home.rows(name).to_pylist()) == 2
            assert home.backward(query, rid=0, to=name, count=True).to_pylist() == [{"count": 1}]
            assert home.forward(name, rid=0, to=query, count=True).to_pylist() == [{"count": 1}]
        with pytest.raises(QuestionError, match="means several datasets here") as refused:
            home.backward(query, rid=0, to="a.s")
        assert f"a.s@{old}" in str(refused.value) and f"a.s@{new}" in str(refused.value)
