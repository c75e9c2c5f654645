"""A source's row is the same row whatever workflow, run, name, `rename` or `schema` has read it: what users ask over
workflows that share a file. `tests/query/test_catalogs.py` and `tests/query/test_catalogs_spark.py` compare whole catalogs."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError, SourceError
from lineage_service.store.formats.format_registry import record_framing as framing
from lineage_service.store.listing import listing
from tests.support.made_runs import Made, MadeHome

A = """version: 1
name: a
sources: {src: {path: src.parquet, subject: {person: who}}}
steps: [{name: tot, op: aggregate, input: src, by: [k], measures: {n: sum(v)}}]
outputs: {tot: {}}
"""
B = """version: 1
name: b
sources: {raw: {path: src.parquet, rename: {v: value}}, tot: {output: a.tot}}
steps:
  - {name: some, op: filter, input: raw, where: id = 3}
  - {name: j, op: join, left: some, right: tot, using: [k]}
outputs: {j: {}}
"""
C = """version: 1
name: c
sources: {j: {output: b.j}}
steps: [{name: g, op: aggregate, input: j, by: [k], measures: {n: count(*)}}]
outputs: {g: {}}
"""
D = """version: 1
name: d
sources: {tot: {output: a.tot}, j: {output: b.j}}
steps:
  - {name: both, op: join, left: tot, right: j, using: [k], how: left}
  - {name: g, op: project, input: both, columns: [k]}
outputs: {g: {}}
"""
K = [0, 1, 1, 3, 3, 3]


def make(folder):
    """Four workflows over one file, and a saved query; `a` runs again in the end, and nothing has changed."""
    rows = {"id": range(6), "k": K, "v": range(6), "who": [10, 11, 12, 13, 14, 15]}
    pq.write_table(
        pa.table({name: pa.array(list(of), pa.int64()) for name, of in rows.items()}), folder / "src.parquet"
    )
    for name, text in (("a", A), ("b", B), ("c", C), ("d", D)):
        (folder / f"{name}.yml").write_text(text)
    with Home.open(folder / "home") as home:
        for name in "abcad":
            home.run(folder / f"{name}.yml")
        home.query("SELECT s.id AS id, t.n AS n FROM a.src AS s JOIN a.tot AS t ON s.k = t.k", save="q")
    return folder / "home"


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    return make(tmp_path_factory.mktemp("same"))


@pytest.fixture
def home(made):
    with Home.open(made) as opened:
        yield opened


@pytest.fixture
def own(spark, tmp_path):
    """A home of the test's own, since its files are changed."""
    with Home.open(make(tmp_path)) as opened:
        yield opened


def rids(answer):
    return {row["_rid"] for row in answer.to_pylist()}


@pytest.mark.parametrize("source", ["a.src", "b.raw", "src", "raw"])
def test_all_ways_count_in_both_directions(home, source):
    assert rids(home.backward("b.j", rid=0, to=source, rids=True)) == {3, 4, 5}
    assert rids(home.backward("c.g", rid=0, to=source, rids=True)) == {3, 4, 5}
    for rid in range(6):
        expected = {0} if rid in (3, 4, 5) else set()
        assert rids(home.forward(source, rid=rid, to="b.j", rids=True)) == expected
        assert rids(home.forward(source, rid=rid, to="c.g", rids=True)) == expected
    assert home.backward("b.j", rid=0, to=source, count=True).count() == 3


def test_a_run_that_was_made_again_is_not_another_dataset(home):
    """`d` reads the latest run of `a`, and `b`, which has read the one before: both have read the same file."""
    row = next(row["_rid"] for row in home.rows("d.g").to_pylist() if row["k"] == 3)
    assert rids(home.backward("d.g", rid=row, to="a.src", rids=True)) == {3, 4, 5}
    counts = {each["dataset"]: each["rows"] for each in home.backward("d.g", rid=row).to_pylist()}
    assert counts["a.src"] == counts["b.raw"] == 3
    with pytest.raises(QuestionError, match=r"'a\.tot' means several datasets here"):
        home.backward("d.g", rid=row, to="a.tot")  # its rows were made twice


def test_a_saved_query_over_a_source_and_what_is_derived_from_it(home):
    rows = home.rows("q").to_pylist()
    assert rows
    for row in rows:
        behind = rids(home.backward("q", rid=row["_rid"], to="a.src", rids=True))
        assert behind == {rid for rid in range(6) if K[rid] == K[row["id"]]}
        for rid in behind:
            assert row["_rid"] in rids(home.forward("a.src", rid=rid, to="q", rids=True))


@pytest.mark.parametrize("to", [None, "a.src", "b.raw", ["b.raw", "a.src"]])
def test_a_row_is_one_variable_of_polynomials(home, to):
    (row,) = home.backward("b.j", rid=0, to=to, semantics="how").to_pylist()
    name = "raw" if to in ("b.raw", ["b.raw", "a.src"]) else "src" if to == "a.src" else row["how"].partition("[")[0]
    assert row["how"].replace(" ", "") in (
        f"{name}[3]·({name}[3]+{name}[4]+{name}[5])", f"({name}[3]+{name}[4]+{name}[5])·{name}[3]",
        f"{name}[3]²+{name}[3]·{name}[4]+{name}[3]·{name}[5]")  # fmt: skip
    (counted,) = home.backward("b.j", rid=0, to=to, semantics="how", evaluate="count").to_pylist()
    assert counted["count"] == 3


@pytest.mark.parametrize("lost", ["a.src", "b.raw"])
def test_survival_takes_a_row_out_wherever_it_was_read(home, lost):
    for rid, survives in ((3, False), (4, True), (0, True)):
        (row,) = home.backward("b.j", rid=0, semantics="how", evaluate="boolean", without={lost: rid}).to_pylist()
        assert row["survives"] is survives, rid


def test_a_trace_ahead_begins_wherever_the_row_was_read(home):
    for name in ("a.src", "b.raw"):
        told = json.dumps(home.trace(name, rid=4).to_json())
        assert '"b.j"' in told and '"a.tot"' in told


def test_a_diff_blames_rows_by_all_ways(own):
    folder = own.layout.path.parent
    rows = pq.read_table(folder / "src.parquet").to_pylist()
    rows[4]["v"] = 100  # behind b.j by way of a.tot alone
    pq.write_table(pa.Table.from_pylist(rows), folder / "src.parquet")
    before = own._open.questions.find("b.j").run_id
    for name in "ab":
        own.run(folder / f"{name}.yml")
    after = own._open.questions.find("b.j").run_id
    told = json.dumps(own.diff(f"b.j@{before}", f"b.j@{after}", key=["id"]).to_json())
    assert "b.raw" in told and "a.src" in told


def test_a_person_is_found_where_a_source_does_not_declare_them(home):
    document = home.audit.access("person=13").document
    names = {each["dataset"] for each in document["data"]}
    assert {"a.src", "b.raw", "b.j", "c.g"} <= names, names


def test_a_person_is_erased_where_a_source_does_not_declare_them(own):
    plan = own.layout.path.parent / "plan.json"
    own.audit.plan_erasure("person=13", rewrite_sources=True, out=plan)
    own.audit.apply(plan)
    assert {row["id"] for row in own.rows("b.raw").to_pylist()} == {0, 1, 2, 4, 5}
    assert own.rows("b.j").to_pylist() == []
    assert own.rows("c.g").to_pylist() == []
    assert rids(own.backward("a.tot", all=True, to="b.raw", rids=True)) == {0, 1, 2, 4, 5}


def test_what_influences_under_one_name_may_contribute_under_another(tmp_path):
    """A file that an anti join reads as its right side, and its left side under another name."""
    made = MadeHome(tmp_path / "home")
    rows = pa.table({"id": [0, 1, 2]})
    first = made.run("first", {"s": Made(rows, "source", kind="source")})
    same = made.versions[first, "s"]
    left, right = Made(same, "source"), Made(same, "source")
    made.run("flow", {"l": left, "r": right, "o": Made(rows, hops={"l": [(0, 0), (1, 2)], "r": "everything"})})
    with made.home as home:
        for name in ("l", "r", "first.s"):
            answer = home.backward("flow.o", all=True, to=name, pairs=True)
            assert [(row["out_rid"], row["rid"]) for row in answer.to_pylist()] == [(0, 0), (1, 2)], name
            assert answer.absence == [] and answer.notes == [], name
            assert home.backward("flow.o", all=True, to=name, count=True).count() == 2
        counts = home.backward("flow.o", all=True)
        assert {row["dataset"]: row["rows"] for row in counts.to_pylist()} == {"flow.l": 2, "flow.r": 2}
        assert counts.absence == []


CSV_AS_GIVEN = {"format": "csv", "multiline": "true", "sep": ",", "quote": '"', "escape": "\\", "encoding": "UTF-8"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # What begins a comment or ends a line is told from its capital letter.
        ({"format": "csv", "comment": "x"}, {"format": "csv", "comment": "X"}, False),
        ({"format": "csv", "linesep": "x"}, {"format": "csv", "linesep": "X"}, False),
        # An array is one record then, not one for each element.
        ({"format": "json"}, {"format": "json", "singlevariantcolumn": "v"}, False),
        ({"format": "json", "singlevariantcolumn": "v"}, {"format": "json", "singlevariantcolumn": "w"}, True),
        ({"format": "csv"}, {"format": "csv", "singlevariantcolumn": "v"}, True),
        # What Spark does anyway may be said.
        ({"format": "csv", "multiline": "true"}, CSV_AS_GIVEN, True),
        ({"format": "csv", "charset": "utf-8", "header": "FALSE", "mode": "FAILFAST"}, {"format": "csv"}, True),
        ({"format": "csv", "encoding": "utf-16", "charset": "utf-8"}, {"format": "csv"}, False),
        ({"format": "json", "multiline": "true", "encoding": "utf-8"}, {"format": "json", "multiline": "true"}, False),
        ({"format": "csv", "header": "true"}, {"format": "csv"}, False),
        ({"format": "csv", "multiline": "TRUE"}, {"format": "csv"}, False),
        ({"format": "csv", "sep": ";", "nullvalue": "-"}, {"format": "csv", "quote": "'"}, True),
    ],
)
def test_options_that_decide_which_bytes_are_a_record(one, other, same):
    assert (framing(one) == framing(other)) is same


def test_windows_that_were_captured_by_partition_are_told_whatever_the_name(tmp_path):
    made = MadeHome(tmp_path / "home")
    rows = pa.table({"id": [0, 1, 2]})
    first = made.run("first", {"s": Made(rows, "source", kind="source")})
    same = made.versions[first, "s"]
    window = Made(rows, hops={"s": [(0, 0), (1, 1), (2, 2)]}, peers={"s": [(1, 0), (2, 0)]})
    made.run("flow", {"s": Made(same, "source"), "w": window})
    with made.home as home:
        for name in ("flow.s", "first.s"):
            answer = home.backward("flow.w", rid=1, to=name, rids=True)
            assert rids(answer) == {0, 1}
            assert any("captured by partition" in note for note in answer.notes), name


@pytest.mark.parametrize("kind", ["cost", "trust"])
def test_a_row_has_the_cost_that_is_given_under_any_name_that_has_read_it(home, kind):
    into = "min-cost" if kind == "cost" else "trust"

    def value(**given):
        (row,) = home.backward("b.j", rid=0, semantics="how", evaluate=into, **{kind: given}).to_pylist()
        return row[into.replace("-", "_")]

    # The row that `raw` read is behind its group too: so the cheapest way is its square.
    for name in ("a.src", "src", "b.raw", "raw"):
        expression = {"a.src": "v / 10", "src": "v / 10", "b.raw": "value / 10", "raw": "value / 10"}[name]
        assert value(**{name: expression}) == pytest.approx(0.6 if kind == "cost" else 0.3), name
    assert value(**{"a.src": 0.5, "b.raw": 0.5}) == (1.0 if kind == "cost" else 0.5)
    with pytest.raises(QuestionError, match=rf"'a\.src' and 'b\.raw' give the row .* a different {kind}"):
        value(**{"a.src": 0.5, "b.raw": 0.25})
    with pytest.raises(QuestionError, match="is none of the datasets that are reached"):
        value(**{"c.g": 1})


def test_a_source_that_would_read_a_file_twice_is_refused(tmp_path):
    """Its record would be two rows, and by its identity one."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.csv").write_text("1\n")
    (tmp_path / "e").symlink_to("d")
    assert listing("d", tmp_path).files == (str(tmp_path / "d" / "x.csv"),)
    with pytest.raises(SourceError, match="are one file, which the source would read twice"):
        listing("[de]/*.csv", tmp_path)
    (tmp_path / "d" / "y.csv").symlink_to("x.csv")
    with pytest.raises(SourceError, match=r"y.csv' and '.*x.csv' are one file"):
        listing("d", tmp_path)
    os.link(tmp_path / "d" / "x.csv", tmp_path / "z.csv")  # another name is another file
    assert len(listing("*.csv", tmp_path).files) == 1
