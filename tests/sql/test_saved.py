"""Saved queries: datasets made by SQL, with the lineage that a step of a workflow would have."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError

ROWS = 360
BAR = "l_returnflag = ''N'' AND l_linestatus = ''O''"


def lineitem() -> pa.Table:
    return pa.table(
        {
            "l_returnflag": [("A", "N", "N", "R")[i % 4] for i in range(ROWS)],
            "l_linestatus": [("F", "F", "O", "F")[i % 4] for i in range(ROWS)],
            "l_shipdate": [date(1995 + i % 3, i % 12 + 1, i % 28 + 1) for i in range(ROWS)],
            "l_shipmode": [("AIR", "RAIL")[i // 4 % 2] for i in range(ROWS)],
            "l_shipinstruct": [("NONE", "COD", None)[i // 8 % 3] for i in range(ROWS)],
            "l_tax": pa.array([i // 24 % 5 for i in range(ROWS)], pa.int32()),
            "l_quantity": pa.array([i * 7 % 50 for i in range(ROWS)], pa.decimal128(15, 2)),
        }
    )


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    pq.write_table(lineitem(), folder / "lineitem.parquet", row_group_size=100)
    steps = [{"name": "q1", "op": "aggregate", "input": "lineitem", "by": ["l_returnflag", "l_linestatus"],
              "measures": {"n": "count(*)", "qty": "sum(l_quantity)"}}]  # fmt: skip
    body = {"version": 1, "name": "tpch", "sources": {"lineitem": {"path": "lineitem.parquet"}}, "steps": steps,
            "outputs": {"q1": {}}}  # fmt: skip
    (folder / "tpch.yml").write_text(json.dumps(body))
    with Home.open(folder / "home") as home:
        home.run(folder / "tpch.yml")
    return folder


@pytest.fixture
def home(folder):
    with Home.open(folder / "home") as home:
        yield home


def behind(home: Home, dataset: str, rid: int, to: str = "lineitem") -> set[int]:
    return set(home.backward(dataset, to=to, rid=rid, rids=True).arrow().column("_rid").to_pylist())


def test_each_query_of_the_paper_consumes_the_one_before(home):
    """Q1, drilled down by month (Q1a), by two parameters (Q1b), by tax (Q1c): each from a row of the one before."""
    items = lineitem().to_pylist()
    home.query(
        f"""SELECT year(l_shipdate) AS y, month(l_shipdate) AS m, sum(l_quantity) AS qty, count(*) AS n
            FROM backward('q1', 'lineitem', '{BAR}') GROUP BY ALL ORDER BY y, m""",
        save="q1a",
    )
    bar = {i for i, row in enumerate(items) if (row["l_returnflag"], row["l_linestatus"]) == ("N", "O")}
    for row in home.rows("q1a").to_pylist():
        wanted = {i for i in bar if (items[i]["l_shipdate"].year, items[i]["l_shipdate"].month) == (row["y"], row["m"])}
        assert behind(home, "q1a", row["_rid"]) == wanted
        assert row["n"] == len(wanted) and row["qty"] == sum(items[i]["l_quantity"] for i in wanted)
    first = home.rows("q1a").to_pylist()[0]
    home.query(
        """SELECT l_shipmode, l_shipinstruct, count(*) AS n FROM backward('q1a', 'lineitem', '_rid = 0')
           GROUP BY ALL ORDER BY ALL""",
        save="q1b",
    )
    month = behind(home, "q1a", first["_rid"])
    for row in home.rows("q1b").to_pylist():
        key = (row["l_shipmode"], row["l_shipinstruct"])
        assert behind(home, "q1b", row["_rid"]) == {
            i for i in month if (items[i]["l_shipmode"], items[i]["l_shipinstruct"]) == key
        }
    home.query(
        "SELECT l_tax, count(*) AS n FROM backward('q1b', 'lineitem', '_rid = 1') GROUP BY l_tax ORDER BY 1", save="q1c"
    )
    some = behind(home, "q1b", 1)
    for row in home.rows("q1c").to_pylist():
        assert behind(home, "q1c", row["_rid"]) == {i for i in some if items[i]["l_tax"] == row["l_tax"]}
    # Forward is the inverse, over all of them, and a trace goes down to the file.
    rid = min(behind(home, "q1c", 0))
    reached = {row["dataset"]: row["rows"] for row in home.forward("lineitem", rid=rid).to_pylist()}
    assert {name: reached[name] for name in ("q1a.q1a", "q1b.q1b", "q1c.q1c", "tpch.q1")} == dict.fromkeys(
        ("q1a.q1a", "q1b.q1b", "q1c.q1c", "tpch.q1"), 1
    )
    assert "a saved query" in str(home.trace("q1c", rid=0).to_json())
    assert home.query("SELECT count(*) AS n FROM lineitem").to_pylist() == [{"n": ROWS}]  # still one dataset's name


# Each with the rows that a row of it was made of, as a predicate on the source; `r` is the row.
QUERIES = {
    "SELECT l_tax AS t, count(*) AS n FROM lineitem GROUP BY l_tax": lambda r, i: i["l_tax"] == r["t"],
    "SELECT DISTINCT l_shipmode AS m, l_shipinstruct AS s FROM lineitem ORDER BY m": lambda r, i: (
        i["l_shipmode"], i["l_shipinstruct"]) == (r["m"], r["s"]),
    "SELECT l_tax AS t FROM lineitem WHERE l_tax < 2 UNION SELECT 7": lambda r, i: i["l_tax"] == r["t"],
    "SELECT l_tax AS t FROM lineitem WHERE l_tax < 1 UNION SELECT l_tax FROM lineitem WHERE l_tax > 2": lambda r, i: (
        i["l_tax"] == r["t"]),
    "SELECT count(*) AS n, sum(l_quantity) FILTER (WHERE l_tax = 1) AS q FROM lineitem": lambda r, i: True,
    "SELECT max(l_quantity) AS q FROM lineitem WHERE l_shipmode = 'AIR' HAVING count(*) > 3": lambda r, i: (
        i["l_shipmode"] == "AIR"),
    "WITH a AS (SELECT l_tax AS t, l_shipmode AS m, count(*) AS n FROM lineitem GROUP BY ALL) "
    "SELECT t, sum(n) AS n, list(m ORDER BY m) AS l FROM a GROUP BY t": lambda r, i: i["l_tax"] == r["t"],
    "SELECT a.l_tax AS t, count(*) AS n FROM lineitem a JOIN lineitem b ON a._rid = b._rid GROUP BY 1": lambda r, i: (
        i["l_tax"] == r["t"]),
    "SELECT x.t, q1.n FROM (SELECT l_tax AS t, l_returnflag AS f FROM lineitem WHERE l_returnflag = 'A' GROUP BY ALL) x "
    # By way of q1, which is made from the same rows, all rows of the group.
    "JOIN q1 ON q1.l_returnflag = x.f": lambda r, i: i["l_returnflag"] == "A",
}  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_lineage_is_that_of_a_step(home, sql):
    home.query(sql, save="one")
    items = lineitem().to_pylist()
    rows = home.rows("one").to_pylist()
    assert rows
    for row in rows:
        rid = row.pop("_rid")
        wanted = {i for i, item in enumerate(items) if QUERIES[sql](row, item)}
        near = home.backward("one", to="tpch.lineitem", rid=rid, pairs=True).arrow()
        assert set(near.column("rid").to_pylist()) == wanted, row
        for source in list(wanted)[:2]:
            assert rid in home.forward("lineitem", to="one", rid=source, rids=True).arrow().column("_rid").to_pylist()


def test_rows_and_types_are_those_of_the_query(home):
    sql = "SELECT q1.l_returnflag, sum(l_tax) AS h, list(DISTINCT n) AS l, count(*) / 3 AS d FROM q1 JOIN lineitem l USING (l_linestatus) GROUP BY ALL ORDER BY ALL"
    plain = home.query(sql).to_pylist()
    saved = home.query(sql, save="typed").to_pylist()
    assert [{name: value for name, value in row.items() if name != "_rid"} for row in saved] == plain
    assert isinstance(plain[0]["h"], int)


def test_a_saved_query_is_read_by_a_workflow(home, folder):
    home.query("SELECT l_tax AS t, count(*) AS n FROM lineitem GROUP BY l_tax", save="by_tax")
    steps = [{"name": "odd", "op": "filter", "input": "taxes", "where": "t % 2 = 1"}]
    body = {"version": 1, "name": "next", "sources": {"taxes": {"output": "by_tax.by_tax"}}, "steps": steps,
            "outputs": {"odd": {}}}  # fmt: skip
    (folder / "next.yml").write_text(json.dumps(body))
    home.run(folder / "next.yml")
    row = home.rows("odd").to_pylist()[0]
    wanted = {i for i, item in enumerate(lineitem().to_pylist()) if item["l_tax"] == row["t"]}
    assert behind(home, "odd", row["_rid"], "tpch.lineitem") == wanted


REFUSED = [
    ("SELECT l_tax, rank() OVER (ORDER BY l_tax) FROM lineitem", "a window function"),
    ("SELECT * FROM lineitem WHERE l_tax IN (SELECT 1)", "a subquery inside an expression"),
    ("SELECT (SELECT max(n) FROM q1) AS n, l_tax FROM lineitem", "a subquery inside an expression"),
    ("SELECT l_tax FROM lineitem EXCEPT SELECT 1", "EXCEPT"),
    ("SELECT l_tax FROM lineitem SEMI JOIN q1 USING (l_returnflag)", "SEMI JOIN"),
    ("SELECT l_tax, count(*) FROM lineitem GROUP BY CUBE (l_tax)", "CUBE"),
    ("SELECT DISTINCT ON (l_tax) l_tax, l_quantity FROM lineitem", "DISTINCT ON"),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", "recursive"),
    ("SELECT l_tax FROM lineitem TABLESAMPLE 10%", "sample"),
    ("SELECT _rid, l_tax FROM lineitem", "column _rid"),
    ("SELECT * FROM q1", "column _rid"),
    ("SELECT dataset FROM backward('q1', ['lineitem', 'lineitem'])", "one dataset|several|reaches"),
    ("EXPLAIN SELECT 1 AS x", "EXPLAIN"),
    ("SELECT x FROM unnest((SELECT list(l_tax) FROM lineitem)) t(x)", "a subquery inside a function"),
    ("SELECT * FROM (VALUES ((SELECT count(*) FROM lineitem))) t(n)", "a subquery inside a function"),
    ("(SELECT l_tax FROM lineitem) LIMIT (SELECT 2)", "a subquery inside an expression"),
    ("SELECT l AS j FROM lineitem l LIMIT 2", "a whole row"),
    ("SELECT to_json(lineitem) AS j FROM lineitem LIMIT 2", "a whole row"),
    ("WITH x AS (SELECT l_tax FROM lineitem LIMIT 3) SELECT a.l_tax FROM x a JOIN x b USING (l_tax)", "read twice"),
    ("WITH x AS (SELECT random() AS r FROM lineitem) SELECT a.r FROM x a, x b", "read twice"),
    ("SELECT DISTINCT lower(l_shipmode) AS l FROM lineitem ORDER BY lower(l_shipmode)", "DISTINCT ordered by"),
    ("SELECT union_value(a := 1) AS v", "cannot be kept"),
    ("SELECT [INTERVAL 1 DAY] AS v", "cannot be kept"),
]


@pytest.mark.parametrize(("sql", "told"), REFUSED)
def test_what_cannot_be_traced_is_refused_and_leaves_nothing(home, sql, told):
    before = [run["run_id"] for run in home.runs().to_pylist()], sorted(home.layout.runs.iterdir())
    with pytest.raises(QuestionError, match=f"(?i){told}"):
        home.query(sql, save="refused")
    assert ([run["run_id"] for run in home.runs().to_pylist()], sorted(home.layout.runs.iterdir())) == before


@pytest.mark.parametrize(
    ("name", "told"), [("Big", "no name"), ("a b", "no name"), ("tpch", "a workflow's name"), ("", "no name")]
)
def test_names_that_a_saved_query_cannot_have(home, name, told):
    with pytest.raises(QuestionError, match=told):
        home.query("SELECT 1 AS x", save=name)


def test_columns_that_look_like_ours(home):
    home.query("SELECT l_tax AS ids_1, _rid AS ids_2 FROM lineitem WHERE _rid > 300", save="looks")
    home.query("SELECT ids_1, ids_2 FROM looks WHERE ids_2 > 350 -- the last ones", save="alike")
    rows = home.rows("alike").to_pylist()
    assert rows
    for row in rows:
        assert behind(home, "alike", row["_rid"], "looks") == {row["ids_2"] - 301}


def test_saved_again_it_is_another_run(home):
    home.query("SELECT 1 AS x", save="again")
    home.query("SELECT 2 AS x UNION ALL SELECT 3", save="again")
    assert [row["x"] for row in home.rows("again").to_pylist()] == [2, 3]
    runs = home.runs(workflow="again").to_pylist()
    assert len(runs) == 2
    assert home.rows(f"again@{runs[1]['run_id']}").to_pylist() == [{"_rid": 0, "x": 1}]
    assert home.gc() == {"removed": 0, "bytes": 0}
