"""Refresh and what-if, case by case: what appears, vanishes and comes back; what is shared; what is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import DamagedFile, LineageError, NotFound, QuestionError, RunError, SourceError

ORDERS = {"id": [1, 2, 3, 4, 5], "c": ["a", "a", "b", "b", "c"], "x": [1, 2, 3, 4, 5]}
PEOPLE = {"who": ["a", "b", "d"], "name": ["Ada", "Bo", "Di"]}

FLOW = """
version: 1
name: flow
sources: {orders: {path: orders.parquet}, people: {path: people.parquet}}
steps:
  - {name: single, op: aggregate, input: orders, by: [c], measures: {n: count(*), x: sum(x)}, having: n = 1}
  - {name: idle, op: join, how: anti, left: people, right: orders, on: who = c}
  - {name: known, op: join, how: left, left: orders, right: people, on: c = who}
  - {name: mean, op: aggregate, input: orders, by: [c], measures: {m: avg(x)}}
  - {name: pairs, op: join, left: orders, right: mean, using: [c]}
  - {name: above, op: filter, input: pairs, where: x >= m}
  - {name: first, op: limit, input: single_all, n: 2, by: [x desc]}
  - {name: single_all, op: aggregate, input: orders, by: [c], measures: {x: sum(x)}}
  - {name: total, op: aggregate, input: orders, by: [], measures: {x: sum(x)}}
  - {name: numbered, op: window, input: orders, partition_by: [c], order_by: [id], measures: {place: row_number()}}
"""
ALL = "outputs: {single: , idle: , known: , above: , first: , total: , numbered: }\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(ORDERS), "orders.parquet")
    pq.write_table(pa.table(PEOPLE), "people.parquet")
    (tmp_path / "flow.yml").write_text(FLOW + "outputs: {single: , first: , total: }\n")
    with Home.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def no_spark(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("lineage_service.refresh.spark_refresh.SparkRefresh._session", refused)


def rows(home: Home, dataset: str, *columns: str) -> list[tuple]:
    names = list(columns)
    return sorted(tuple(row[name] for name in names) for row in home.rows(dataset).to_pylist())


def pairs(home: Home, dataset: str, source: str) -> list[tuple[int, int]]:
    back = home.backward(dataset, to=source, all=True, pairs=True).to_pylist()
    ahead = home.forward(source, to=dataset, all=True, pairs=True).to_pylist()
    found = [(row["out_rid"], row["rid"]) for row in back]
    assert sorted(found) == sorted((row["out_rid"], row["rid"]) for row in ahead)
    return found


def test_what_appears_vanishes_and_comes_back(spark, home):
    Path("flow.yml").write_text(FLOW + ALL)
    home.run("flow.yml")
    report = home.refresh("orders", removed="id IN (1, 5)")
    # A group comes back through `having`, and one goes.
    assert rows(home, "single", "_rid", "c", "x") == [(1, "a", 2)]
    assert pairs(home, "single", "orders") == [(1, 1)]
    assert rows(home, "idle", "_rid", "who") == [(0, "d")]
    assert report.datasets["idle"].way == "touched"
    # Who has no order any more appears.
    home.refresh("orders", removed=[1])
    assert rows(home, "idle", "_rid", "who") == [(0, "d"), (1, "a")]
    assert home.backward("idle", to="orders", rid=1, influence=True, count=True).to_pylist() == [{"count": 2}]
    # And vanishes when one comes; a partner comes too.
    report = home.refresh("orders", added=[{"id": 9, "c": "a", "x": 7}])
    assert rows(home, "idle", "who") == [("d",)]
    assert rows(home, "known", "id", "name") == [(3, "Bo"), (4, "Bo"), (9, "Ada")]
    home.refresh("people", removed="who = 'a'")
    assert rows(home, "known", "id", "name") == [(3, "Bo"), (4, "Bo"), (9, None)]
    assert pairs(home, "known", "people") == [(out, 1) for out, _ in pairs(home, "known", "people")]
    # An average that shifts lets other rows through.
    assert rows(home, "above", "id") == [(4,), (9,)]
    home.refresh("orders", changed=[{"_rid": 3, "x": 1}])
    assert rows(home, "above", "id") == [(3,), (9,)]
    assert [rid for _, rid in pairs(home, "above", "orders") if rid in (2, 3)] == [2, 3]
    assert rows(home, "numbered", "id", "place") == [(3, 1), (4, 2), (9, 1)]
    assert report.datasets["total"].reason == "step 'total' is one row over all rows"


def test_only_the_touched_is_computed_and_without_spark_where_that_is_alike(spark, home, no_spark):
    Path("flow.yml").write_text(f"{FLOW}outputs: {{single: , first: }}\n")
    first = home.run("flow.yml")
    report = home.refresh("people", removed="who = 'd'")
    assert {each.way for each in report.datasets.values()} == {"untouched"}
    report = home.refresh("orders", changed=[{"_rid": 0, "x": 1}])
    assert {each.way for each in report.datasets.values()} == {"untouched"}, "a row that is as it was"
    report = home.refresh("orders", changed=[{"id": 5, "x": 50}], key="id")
    assert (report.datasets["single"].changed, report.datasets["first"].changed) == (1, 1)
    assert rows(home, "first", "c", "x") == [("b", 7), ("c", 50)]
    assert rows(home, f"first@{first.run_id}", "c", "x") == [("b", 7), ("c", 5)], "the run before is what it was"
    # A row that leaves the first ones lets in one that nobody knows: that takes all of them.
    with pytest.raises(AssertionError, match="Spark was started"):
        home.refresh("orders", removed="c = 'b'")


def test_row_ids_are_never_given_twice(spark, home):
    home.run("flow.yml")
    home.refresh("orders", added=[{"id": 6, "c": "f", "x": 6}])
    home.refresh("orders", removed="id = 6")
    home.refresh("orders", added=[{"id": 7, "c": "g", "x": 7}])
    assert rows(home, "orders", "_rid", "id")[-1] == (6, 7)
    assert [rid for rid, c in rows(home, "single", "_rid", "c") if c == "g"] == [2]
    home.refresh("orders", removed="true")
    assert rows(home, "orders", "id") == rows(home, "single", "c") == []
    assert rows(home, "total", "x") == [(None,)]
    home.refresh("orders", added=[{"id": 8, "c": "h", "x": 8}])
    assert rows(home, "orders", "_rid", "id") == [(7, 8)]
    assert rows(home, "single", "c", "x") == [("h", 8)]


def test_what_changed_is_found_out(spark, home, tmp_path):
    (tmp_path / "parts").mkdir()
    for name, part in (("a", {"id": [1, 2], "c": ["a", "b"]}), ("b", {"id": [3], "c": ["a"]})):
        pq.write_table(pa.table(part), f"parts/{name}.parquet")
    (tmp_path / "names.csv").write_text("c,name\na,Ada\nb,Bo\n")
    (tmp_path / "flow.yml").write_text("""
version: 1
name: found
sources: {parts: {path: parts}, names: {path: names.csv, options: {header: true}}}
steps:
  - {name: named, op: join, left: parts, right: names, using: [c]}
  - {name: per, op: aggregate, input: named, by: [name], measures: {n: count(*)}}
outputs: {per: }
""")
    (tmp_path / "above.yml").write_text("""
version: 1
name: above
sources: {per: {output: found.per}}
steps: [{name: many, op: filter, input: per, where: n > 1}]
outputs: {many: }
""")
    before = home.run("flow.yml").run_id
    home.run("above.yml")
    assert home.refresh("found").run_id == before, "nothing has changed, and nothing is made"
    pq.write_table(pa.table({"id": [4], "c": ["b"]}), "parts/c.parquet")
    report = home.refresh("found.parts")
    assert report.sources == {"parts": {"removed": 0, "changed": 0, "added": 1}}
    assert report.datasets["per"].way == "touched"
    assert rows(home, "found.per", "name", "n") == [("Ada", 2), ("Bo", 2)]
    assert home.refresh("many").datasets["many"].added == 1
    assert pairs(home, "many", "found.parts") == [(0, 0), (0, 2), (1, 1), (1, 3)]
    pq.write_table(pa.table({"id": [1, 2], "c": ["a", "a"]}), "parts/a.parquet")
    report = home.refresh("found.per")
    assert (report.datasets["per"].way, report.sources["parts"]["removed"]) == ("touched", 2)
    assert rows(home, "found.per", "name", "n") == [("Ada", 3), ("Bo", 1)]
    assert pairs(home, "found.per", "parts") == [(0, 2), (0, 4), (0, 5), (1, 3)]
    (tmp_path / "names.csv").write_text("c,name\nb,Bob\na,Ada\n")
    report = home.refresh("names")
    assert report.sources == {"names": {"removed": 1, "changed": 0, "added": 1}}
    assert rows(home, "found.per", "_rid", "name", "n") == [(0, "Ada", 3), (2, "Bob", 1)]
    pq.write_table(pa.table({"id": [9], "c": [1.5]}), "parts/d.parquet")
    with pytest.raises(SourceError, match="column 'c' was string and is double"):
        home.refresh("parts")


UNFIT = [
    ({"changed": [{"_rid": 99, "x": 1}]}, NotFound, "1 of the rows are not in 'orders': row 99"),
    ({"changed": [{"id": 99, "x": 1}], "key": "id"}, NotFound, "1 of the rows are not in 'orders'"),
    ({"changed": [{"x": 1}]}, QuestionError, "no column '_rid'"),
    ({"changed": [{"_rid": 1, "y": 1}]}, QuestionError, "unknown column 'y'; columns of 'orders': id, c, x"),
    (
        {"changed": [{"_rid": 1, "x": "many"}]},
        QuestionError,
        "--changed: 1 value of column 'x' of 'orders' is no bigint",
    ),
    ({"changed": [{"_rid": 1, "x": 1}, {"_rid": 1, "x": 2}]}, QuestionError, "row 1 of 'orders' is changed twice"),
    ({"changed": [{"_rid": 1, "x": 7}], "removed": [1]}, QuestionError, "both removed and changed"),
    ({"added": [{"id": 1}]}, QuestionError, "the rows lack column c, x"),
    ({"added": "none.csv"}, QuestionError, "file 'none.csv' is not there"),
    ({"added": "flow.yml"}, QuestionError, "is no file of rows"),
    ({"removed": [17]}, NotFound, "no row 17"),
    ({"removed": "z = 1"}, QuestionError, "unknown column 'z'"),
]


def test_a_change_that_does_not_fit_changes_nothing(spark, home):
    run_id = home.run("flow.yml").run_id
    for said, error, told in UNFIT:
        with pytest.raises(error, match=told):
            home.refresh("orders", **said)
    assert [run["run_id"] for run in home.runs().to_pylist()] == [run_id]
    assert [path.name for path in home.layout.runs.iterdir()] == [run_id]


@pytest.mark.parametrize(
    ("lineage", "capture", "told"),
    [
        ("{workload: [{name: q, backward: single, to: orders}]}", None, "was pruned"),
        ("{}", "off", "made with capture off"),
        ("{}", "lazy", "captured on demand only"),
    ],
)
def test_runs_that_cannot_be_refreshed(spark, home, lineage, capture, told):
    Path("flow.yml").write_text(f"{FLOW}outputs: {{single: , above: , numbered: }}\nlineage: {lineage}\n")
    home.run("flow.yml", capture=capture)
    with pytest.raises(LineageError, match=told):
        home.refresh("orders", removed=[0])


def test_only_sources_of_the_latest_run(spark, home):
    first = home.run("flow.yml").run_id
    home.run("flow.yml")
    with pytest.raises(QuestionError, match="is not the latest"):
        home.refresh(f"orders@{first}", removed=[0])
    with pytest.raises(QuestionError, match="'single' is no source"):
        home.refresh("single", removed=[0])
    with pytest.raises(QuestionError, match="name the source"):
        home.refresh()


def test_checks_and_published_copies(spark, home, tmp_path):
    (tmp_path / "flow.yml").write_text("""
version: 1
name: checked
sources: {orders: {path: orders.parquet}}
steps:
  - {name: per, op: aggregate, input: orders, by: [c], measures: {x: sum(x)}}
  - {name: ranked, op: sort, input: per, by: [x desc]}
outputs:
  ranked: {path: out, checks: [{where: x < 100}, {where: x > 2, severity: warn}, {unique: c}]}
""")
    home.run("flow.yml")
    report = home.refresh("orders", changed=[{"_rid": 0, "x": 60}, {"_rid": 4, "x": 1}])
    assert [text for text in report.warnings if "where(x > 2) of 'ranked' would fail for 1 row" in text]
    assert pq.read_table("out").to_pydict() == {"c": ["a", "b", "c"], "x": [62, 7, 1]}
    with pytest.raises(RunError, match=r"where\(x < 100\) of 'ranked' would fail for 1 row"):
        home.refresh("orders", changed=[{"_rid": 0, "x": 600}])
    assert rows(home, "ranked", "c", "x") == [("a", 62), ("b", 7), ("c", 1)]
    assert pq.read_table("out").num_rows == 3
    assert len(home.runs().to_pylist()) == 2


def test_a_commit_that_fails_leaves_nothing(spark, home, monkeypatch):
    run_id = home.run("flow.yml").run_id

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(home._open, "commit", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        home.refresh("orders", removed=[0])
    monkeypatch.undo()
    home.gc()
    assert [run["run_id"] for run in home.runs().to_pylist()] == [run_id]
    assert rows(home, "orders", "id")[0] == (1,)


def test_questions_over_a_refreshed_run(spark, home):
    home.run("flow.yml")
    home.refresh("orders", changed=[{"_rid": 0, "c": "c"}], added=[{"id": 6, "c": "d", "x": 6}], removed=[4])
    assert home.rows("orders", where="x > 4", columns=["id"]).to_pylist() == [{"_rid": 5, "id": 6}]
    assert home.rows("orders", key={"id": 1}).to_pylist() == [{"_rid": 0, "id": 1, "c": "c", "x": 1}]
    asked = home.query("SELECT c, count(*) AS n FROM backward('single', 'orders', 'n = 1') GROUP BY c ORDER BY c")
    assert asked.to_pylist() == [{"c": "a", "n": 1}, {"c": "c", "n": 1}, {"c": "d", "n": 1}]
    assert home.query("SELECT sum(x) AS x FROM orders").to_pylist() == [{"x": 16}]
    trace = json.dumps(home.trace("single", where="c = 'd'").to_json(), default=str)
    assert '"_rid": 5' in trace or '"rid": 5' in trace
    assert home.diff("single", key="c").to_json()
    assert home.why_not("orders", rid=2, to="single").to_json()
    assert home.explained_run("flow").to_json()
    assert home.datasets().to_pylist()
    assert home.gc() == {"removed": 0, "bytes": 0}
    with pytest.raises(QuestionError, match="kept pairs only"):
        home.backward("single", rid=0, semantics="why")


def flow(tmp_path, sources: dict[str, dict], steps: str, outputs: str) -> None:
    """A workflow `flow.yml` over tables."""
    for name, columns in sources.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    listed = ", ".join(f"{name}: {{path: {name}.parquet}}" for name in sources)
    (tmp_path / "flow.yml").write_text(
        f"version: 1\nname: flow\nsources: {{{listed}}}\nsteps:\n{steps}outputs: {{{outputs}}}\n"
    )


def test_a_join_on_more_than_plain_columns(spark, home, tmp_path):
    left, right = {"id": [0, 1, 2, 3], "k": [1, 2, 2, 3]}, {"k2": [0, 1, 1, 2], "x": [1, 10, 100, 1000]}
    steps = (
        "  - {name: j, op: join, left: l, right: r, on: k = k2 + 1}\n"
        "  - {name: per, op: aggregate, input: j, by: [k], measures: {m: sum(x), c: count(*)}}\n"
    )
    flow(tmp_path, {"l": left, "r": right}, steps, "per: ")
    home.run("flow.yml")
    home.refresh("l", removed=[1])
    assert rows(home, "per", "k", "m", "c") == [(1, 1, 1), (2, 110, 2), (3, 1000, 1)]


def test_old_rows_and_new_ones_are_not_mixed(spark, home):
    home.run("flow.yml")
    home.refresh("orders", changed=[{"id": 1, "x": 7}], key="id")
    pq.write_table(pa.table({**ORDERS, "x": [7, 2, 3, 4, 5]}), "orders.parquet")
    for said in ({"removed": [0]}, {"added": [{"id": 9, "c": "a", "x": 1}]}):
        with pytest.raises(SourceError, match=r"'flow\.orders' has changed since"):
            home.refresh("orders", **said)
    with pytest.raises(SourceError, match=r"'flow\.orders' has changed since"):
        home.refresh("people", removed=[0])
    with pytest.raises(SourceError, match=r"'flow\.orders' has changed since"):
        home.what_if(without="orders", rid=1, on="single")
    # What was corrected by hand, and then in the file, is there once.
    assert home.refresh("orders").datasets["total"].way == "all"
    assert rows(home, "orders", "id", "x") == [(1, 7), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert rows(home, "total", "x") == [(21,)]
    before = home.refresh("orders", removed="true").run_id
    assert home.refresh("orders").run_id == before, "rows that were removed do not come back"
    assert home.backward("first", all=True, to="orders", count=True).to_pylist() == [{"count": 0}]


def test_columns_that_are_called_like_ours(spark, home, tmp_path):
    names = ["_smoke_h0", "rowid", "copy_number", "file_row_number", "_smoke_at", "_smoke_members", "place", "k", "n"]
    table = {"id": [0, 1, 2, 3], **{name: [1, 1, 2, 2] for name in names}}
    listed = ", ".join(names)
    steps = (
        f"  - {{name: per, op: aggregate, input: s, by: [{listed}], measures: {{id: sum(id), change: count(*)}}}}\n"
        f"  - {{name: some, op: filter, input: s, where: rowid > 0}}\n"
        f"  - {{name: twice, op: project, input: s, columns: [{listed}]}}\n"
    )
    flow(tmp_path, {"s": table}, steps, "per: , some: , twice: ")
    home.run("flow.yml")
    asked = home.what_if(without="s", rid=1, on="per").to_pylist()
    assert [(row["change_1"], row["change_before"], row["change_after"]) for row in asked] == [("changes", 2, 1)]
    home.refresh("s", changed=[{"_rid": 0, **dict.fromkeys(names, 5)}])
    assert rows(home, "per", "rowid", "id", "_smoke_h0") == [(1, 1, 1), (2, 5, 2), (5, 0, 5)]
    assert rows(home, "s", "_rid", "file_row_number", "_smoke_at")[0] == (0, 5, 5)
    assert sorted(rid for _, rid in pairs(home, "per", "s")) == [0, 1, 2, 3]
    assert sorted(rid for _, rid in pairs(home, "some", "s")) == [0, 1, 2, 3]
    assert len({rid for rid, _ in rows(home, "twice", "_rid", "k")}) == 4


def test_given_rows_are_taken_as_they_are(spark, home, tmp_path):
    table = {"id": [0, 1], "x": [1, 2], "d": pa.array([1, 2], pa.decimal128(20, 2)), "t": ["a", "b"], "f": [0.0, 1.0]}
    flow(tmp_path, {"s": table}, "  - {name: o, op: filter, input: s, where: id >= 0}\n", "o: ")
    run_id = home.run("flow.yml").run_id
    for said, told in (
        ([{"_rid": 0, "x": 5}, {"_rid": 1, "t": "z"}], "different columns"),
        ([{"_rid": 0, "x": 1.7}], "--changed: 1 value of column 'x' of 's' is no bigint"),
        ([{"_rid": 0, "x": True}], "--changed: 1 value of column 'x' of 's' is no bigint"),
        ([{"_rid": 0, "d": 1.239}], "--changed: 1 value of column 'd' of 's' is no decimal"),
        ([{"_rid": 0.6, "x": 1}], "is no row id"),
        ([{"_rid": 0, "x": 2**70}], "the rows cannot be read"),
    ):
        with pytest.raises(QuestionError, match=told):
            home.refresh("s", changed=said)
    for removed in ([0.5], True):
        with pytest.raises(QuestionError, match="whole numbers"):
            home.refresh("s", removed=removed)
    with pytest.raises(QuestionError, match="new rows are given"):
        home.refresh("s", added=[{"_rid": 7, "id": 1, "x": 1, "d": 1, "t": "", "f": 1.0}])
    assert [run["run_id"] for run in home.runs().to_pylist()] == [run_id]
    (tmp_path / "more.json").write_text(
        '{"id": 7, "x": 7, "d": 123456789012345678.91, "t": "2024-01-01T10:00:00", "f": 1.5}\n'
    )
    (tmp_path / "more.csv").write_text('id,x,d,t,f\n8,8,1.50,"",2\n')
    home.refresh("s", added="more.json")
    home.refresh("s", added=tmp_path / "more.csv", changed={"_rid": 0, "f": -0.0})
    found = {row["id"]: row for row in home.rows("o").to_pylist()}
    assert (str(found[7]["d"]), found[7]["t"], found[8]["t"]) == ("123456789012345678.91", "2024-01-01T10:00:00", "")
    assert str(found[0]["f"]) == "-0.0"


def test_what_if_is_what_a_refresh_would_bring(spark, home):
    Path("flow.yml").write_text(f"{FLOW}outputs: {{single: , first: , idle: }}\n")
    home.run("flow.yml")
    answer = home.what_if(without="orders", where="id IN (1, 5)", on="single")
    assert answer.to_pylist() == [
        {"change": "vanishes", "_rid": 0, "c": "c", "n_before": 1, "n_after": None, "x_before": 5, "x_after": None},
        {"change": "appears", "_rid": None, "c": "a", "n_before": None, "n_after": 1, "x_before": None, "x_after": 2},
    ]
    assert not [note for note in answer.notes if "Spark" in note]
    answer = home.what_if(without="orders", where="c = 'a'", on=["idle", "first"])
    assert [part.arrow().to_pylist() for part in answer.parts] == [
        [{"change": "appears", "_rid": None, "who": "a", "name": "Ada"}],
        [],
    ]
    assert [note for note in answer.notes if "Spark was needed for idle" in note]
    assert len(home.runs().to_pylist()) == 1
    assert home.gc()["removed"] == 0
    with pytest.raises(QuestionError, match="say which rows"):
        home.what_if(without="orders", on="single")
    with pytest.raises(QuestionError, match="is no source"):
        home.what_if(without="single", rid=0, on="single")
    with pytest.raises(QuestionError, match="outputs: "):
        home.what_if(without="orders", rid=0, on="people")


def test_the_callers_session_stays_the_active_one(spark, home):
    from pyspark.sql import SparkSession

    home.run("flow.yml")
    home.refresh("orders", removed=[0])
    assert home.what_if(without="orders", rid=1, on="total").notes
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert SparkSession.active().conf.get("spark.sql.session.timeZone") == "America/New_York"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_rows_that_came_are_in_a_file_of_ours_and_its_damage_is_told(spark, home):
    home.run("flow.yml")
    home.refresh("orders", added=[{"id": 9, "c": "a", "x": 7}])
    assert (9, "a", 7) in rows(home, "orders", "id", "c", "x")
    home.close()
    (came,) = Path("home/runs").glob("*/sources/orders/came-*.parquet")
    written = bytearray(came.read_bytes())
    written[len(written) // 3] ^= 1
    came.write_bytes(written)
    with Home.open("home") as opened, pytest.raises(DamagedFile, match=r"came-00000\.parquet"):
        opened.rows("orders").arrow()
    assert "came-00000.parquet" in str(
        [each for each in examine(Path("home"), deep=True).checks if each.status == "problem"]
    )
