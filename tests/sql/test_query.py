"""Lineage-consuming queries: SQL over datasets and their lineage, checked against the questions that they stand for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, NotFound, QuestionError, SourceError

CITIES = ["Graz", "Oslo", None, "Lyon"]
STEPS = [
    {"name": "theirs", "op": "join", "left": "customers", "right": "orders", "using": ["customer"]},
    {"name": "by_city", "op": "aggregate", "input": "theirs", "by": ["city"],
     "measures": {"n": "count(*)", "total": "sum(amount)"}},
    {"name": "by_day", "op": "aggregate", "input": "orders", "by": ["day"], "measures": {"n": "count(*)"}},
    {"name": "cities", "op": "distinct", "input": "names"},
    {"name": "names", "op": "project", "input": "customers", "columns": ["city"]},
    {"name": "silent", "op": "join", "left": "customers", "right": "orders", "using": ["customer"], "how": "anti"},
    {"name": "ranked", "op": "window", "input": "orders", "partition_by": ["day"], "order_by": ["amount", "order_id"],
     "measures": {"place": "row_number()"}},
]  # fmt: skip
OUTPUTS = ("by_city", "by_day", "cities", "silent", "ranked")


def customers() -> pa.Table:
    return pa.table({"customer": range(12), "city": [CITIES[i % 4] for i in range(12)]})


def orders() -> pa.Table:
    amounts = [float(i % 7) if i % 11 else math.nan for i in range(60)]
    return pa.table({"order_id": range(60), "customer": [i % 9 for i in range(60)], "day": [i % 5 for i in range(60)],
                     "amount": amounts})  # fmt: skip


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("query")
    pq.write_table(customers(), folder / "customers.parquet")
    pq.write_table(orders(), folder / "orders.parquet", row_group_size=10)
    sources = {name: {"path": f"{name}.parquet"} for name in ("customers", "orders")}
    body = {"version": 1, "name": "shop", "sources": sources, "steps": STEPS, "outputs": {name: {} for name in OUTPUTS}}
    (folder / "shop.yml").write_text(json.dumps(body))
    with Home.open(folder / "home") as home:
        home.run(folder / "shop.yml")
    return folder


@pytest.fixture
def home(folder):
    with Home.open(folder / "home") as home:
        yield home


def rows(answer) -> list[tuple]:
    """Rows that can be compared: NaN equals NaN."""
    return [tuple("nan" if value != value else value for value in row.values()) for row in answer.to_pylist()]  # noqa: PLR0124


# --- datasets are tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["by_city", "shop.by_city", '"by_city"', '"shop.by_city"', '"by_city@{run}"',
                                  '"shop.by_city@{prefix}"', "BY_CITY AS x"])  # fmt: skip
def test_a_dataset_by_all_its_names(home, name):
    run = home.runs().to_pylist()[0]["run_id"]
    found = rows(home.query(f"FROM {name.format(run=run, prefix=run[:6])} ORDER BY _rid"))
    assert found == rows(home.rows("by_city"))


def test_columns_are_found_by_name_alias_and_place(home):
    assert rows(home.query("SELECT by_city.n FROM shop.by_city ORDER BY 1")) == rows(
        home.query("SELECT c.n FROM by_city c ORDER BY c.n")
    )


def test_columns_of_the_same_name_are_told_apart(home):
    answer = home.query("SELECT * FROM customers a JOIN orders b USING (customer) LIMIT 1")
    assert answer.parts[0].columns == ["_rid", "customer", "city", "_rid_1", "order_id", "day", "amount"]
    assert answer.arrow().column_names == answer.parts[0].columns


def test_not_a_number_is_found_by_a_filter(home):
    """Statistics of a row group say nothing of it, and DuckDB takes it for the largest number."""
    assert home.query("SELECT count(*) AS n FROM orders WHERE amount > 6").to_pylist() == [
        {"n": sum(1 for value in orders().column("amount").to_pylist() if math.isnan(value))}
    ]


# --- lineage functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("source", ["customers", "orders"])
def test_backward_and_forward_are_what_the_verbs_give(home, output, source):
    try:
        home.backward(output, to=source, all=True)
    except LineageError as error:
        with pytest.raises(type(error)):
            home.query(f"FROM backward('{output}', '{source}')")
        return
    count = home.query(f"SELECT count(*) AS n FROM {output}").to_pylist()[0]["n"]
    for rid in range(count):
        wanted = rows(home.backward(output, to=source, rid=rid))
        for start in (f"'_rid = {rid}'", f"(FROM {output} WHERE _rid = {rid})"):
            found = home.query(f"FROM backward('{output}', '{source}', {start}) ORDER BY _rid")
            assert rows(found) == wanted
    for rid in range(0, 12, 5):
        wanted = rows(home.forward(source, to=output, rid=rid))
        assert rows(home.query(f"FROM downstream('{source}', '{output}', '_rid = {rid}') ORDER BY _rid")) == wanted
    everything = rows(home.backward(output, to=source, all=True))
    assert rows(home.query(f"FROM upstream('{output}', '{source}') ORDER BY _rid")) == everything


def test_linked_brushing_is_one_line(home):
    chosen = [row["_rid"] for row in home.backward("by_city", to="orders", where="city = 'Graz'").to_pylist()]
    wanted = rows(home.forward("orders", to="by_day", rid=chosen))
    line = "FROM forward('orders', 'by_day', (FROM backward('by_city', 'orders', 'city = ''Graz''')))"
    assert rows(home.query(f"{line} ORDER BY _rid")) == wanted
    assert len(wanted) == 5


def test_functions_join_group_and_window_like_tables(home):
    graz = home.backward("by_city", to="orders", where="city = 'Graz'").to_pylist()
    found = home.query(
        """WITH mine AS (SELECT * FROM backward('by_city', 'orders', 'city = ''Graz''')),
                days AS (SELECT day, count(*) AS n, max(order_id) AS last FROM mine GROUP BY day)
           SELECT d.day, d.n, b.n AS everybody, rank() OVER (ORDER BY d.last) AS place
           FROM days d JOIN by_day b USING (day) ORDER BY d.day"""
    ).to_pylist()
    by_day = {day: [row for row in graz if row["day"] == day] for day in range(5)}
    assert [(row["day"], row["n"], row["everybody"]) for row in found] == [
        (day, len(each), 12) for day, each in by_day.items() if each
    ]
    last = sorted(max(row["order_id"] for row in each) for each in by_day.values() if each)
    assert [row["place"] for row in found] == [
        last.index(max(row["order_id"] for row in each)) + 1 for each in by_day.values() if each
    ]


def test_rows_to_start_from_may_read_common_tables_and_nest(home):
    found = home.query(
        """WITH few AS (SELECT _rid, customer FROM customers WHERE city = 'Oslo'),
                fewer AS (SELECT * FROM few WHERE customer > 1)
           SELECT day FROM forward('orders', 'by_day',
             (SELECT o._rid FROM orders o JOIN fewer f ON f.customer = o.customer AND o.order_id < 20)) ORDER BY day"""
    )
    wanted = sorted({i % 5 for i in range(20) if (i % 9) % 4 == 1 and i % 9 > 1})
    assert [row["day"] for row in found.to_pylist()] == wanted
    deep = "(FROM backward('by_day', 'orders', (FROM forward('orders', 'by_day', 'order_id = 3'))))"
    assert home.query(f"SELECT count(*) AS n FROM forward('orders', 'ranked', {deep})").to_pylist() == [{"n": 12}]


def test_several_sources_and_outputs_in_one_call(home):
    found = home.query("FROM backward('by_city', ['customers', 'orders'], 'city = ''Graz''')").to_pylist()
    for name in ("customers", "orders"):
        wanted = {row["_rid"] for row in home.backward("by_city", to=name, where="city = 'Graz'").to_pylist()}
        assert {row["_rid"] for row in found if row["dataset"] == f"shop.{name}"} == wanted
    both = home.query("SELECT count(*) AS n FROM backward(['by_city', 'by_day'], 'orders', 'n > 100')").to_pylist()
    assert both == [{"n": 0}]
    every = home.query("SELECT dataset, count(*) AS n FROM forward('orders', 'all', 'order_id = 0') GROUP BY 1")
    assert {row["dataset"] for row in every.to_pylist()} == {"shop.by_city", "shop.by_day", "shop.ranked"}


def test_what_only_influences_gives_no_rows_and_says_so(home):
    answer = home.query("FROM backward('silent', 'orders')")
    assert answer.to_pylist() == []
    assert "absence" in answer.notes[0]


def test_explain_shows_the_sql_that_runs_and_what_was_chosen(home):
    found = home.query("EXPLAIN SELECT count(*) FROM backward('by_day', 'orders', 'day = 3')").to_pylist()
    assert "read_parquet" in found[0]["text"] and found[0]["part"] == "rewritten"
    assert "12 of 60 rows of shop.orders" in found[1]["text"]


def test_rows_of_a_source_that_changed_are_refused(spark, tmp_path):
    pq.write_table(orders(), tmp_path / "orders.parquet")
    body = {"version": 1, "name": "shop", "sources": {"orders": {"path": "orders.parquet"}}, "steps": [STEPS[2]],
            "outputs": {"by_day": {}}}  # fmt: skip
    (tmp_path / "shop.yml").write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "shop.yml")
        pq.write_table(orders().slice(1), tmp_path / "orders.parquet")
        for sql in ("FROM orders", "FROM backward('by_day', 'orders', 'day = 1')"):
            with pytest.raises(SourceError, match="has changed since"):
                home.query(sql)
        assert home.query("SELECT count(*) AS n FROM by_day").to_pylist() == [{"n": 5}]


@pytest.mark.parametrize("capture", ["lazy", "stage", "defer"])
def test_however_lineage_was_captured(spark, home, folder, tmp_path, capture):
    graz = "backward('by_city', 'orders', 'city = ''Graz''')"
    with Home.open(tmp_path / "home") as other:
        other.run(folder / "shop.yml", capture=capture)
        for sql in (
            f"SELECT sum(order_id) AS s, count(*) AS n FROM {graz}",
            "SELECT * EXCLUDE (_rid) FROM forward('customers', 'by_city', 'customer < 3') ORDER BY city",
            "SELECT day FROM forward('orders', 'by_day', (FROM backward('by_city', 'orders', 'n > 10'))) ORDER BY day",
        ):
            assert rows(other.query(sql)) == rows(home.query(sql)), sql


def count(home: Home, sql: str) -> int:
    return home.query(sql).to_pylist()[0]["n"]


def test_common_tables_cannot_stand_before_what_is_ours(home):
    everything = count(home, "SELECT count(*) AS n FROM backward('ranked', 'orders', '_rid < 40')")
    for name in [f"ids{number}" for number in range(1, 30)]:
        sql = f"WITH {name} AS (SELECT 5 AS b) SELECT count(*) AS n FROM backward('ranked', 'orders', '_rid < 40')"
        assert count(home, sql) == everything


def test_a_recursive_name_is_no_way_to_tables_and_files(home):
    path = home._open.questions.scan(home._open.questions.find("by_day")).paths[0]
    home.query("FROM by_day").arrow()
    for name in ("duckdb_tables", "sqlite_master", f'"{path}"', "ids1"):
        for body in (f"SELECT * FROM {name}", f"SELECT * FROM {name} UNION ALL SELECT * FROM {name}"):
            with pytest.raises((QuestionError, NotFound), match=r"no dataset|no table"):
                home.query(f"WITH RECURSIVE {name} AS ({body}) SELECT * FROM {name}").arrow()
    assert count(home, "WITH RECURSIVE orders AS (SELECT * FROM orders LIMIT 2) SELECT count(*) AS n FROM orders") == 2
    sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT count(*) AS n FROM r"
    assert count(home, sql) == 4


def test_rows_to_start_from_and_what_they_see(home):
    inner = "WITH orders AS (SELECT * FROM shop.orders LIMIT 1) SELECT * FROM forward('shop.orders', 'by_day', (FROM orders))"
    with pytest.raises(QuestionError, match="inner WITH"):
        home.query(f"SELECT count(*) AS n FROM ({inner})")
    assert count(home, inner.replace("SELECT * FROM forward", "SELECT count(*) AS n FROM forward")) == 1
    nested = "(WITH y AS (FROM x) SELECT * FROM y -- one\n)"
    sql = f"WITH x AS (SELECT * FROM orders LIMIT 1) SELECT count(*) AS n FROM forward('orders', 'by_day', {nested}); -- end"
    assert count(home, sql) == 1
    odd = '(SELECT _rid, 1 AS "(" FROM by_day WHERE day = 1)'
    assert count(home, f"SELECT count(*) AS n FROM backward('by_day', 'orders', {odd}) date") == 12
    for value in ("0.6", "'x'", "1e30"):
        with pytest.raises(QuestionError, match=r"no row ids|no row"):
            home.query(f"FROM backward('by_day', 'orders', (SELECT {value} AS _rid))")


@pytest.mark.parametrize("sql", ["SELECT " + "+".join(["1"] * 900), "SELECT timezone(city, now()) FROM customers",
                                 'SELECT * FROM "a\nb"', "SELECT * FROM orders NATURAL JOIN customers", "TABLE orders"])  # fmt: skip
def test_whatever_is_wrong_is_told_in_one_line(home, sql):
    with pytest.raises(LineageError) as caught:
        home.query(sql).arrow()
    assert all("\n" not in problem.message for problem in caught.value.problems)
    assert not any(city and city in str(caught.value) for city in CITIES)


# --- limits ---------------------------------------------------------------------------------------------------------


def test_an_answer_that_is_cut_says_so(home):
    cut = home.query("FROM orders", limit=7)
    assert cut.arrow().num_rows == 7 and cut.parts[0].remaining == 53 and not cut.notes
    most = home.query("FROM orders", max_rows=10)
    assert most.arrow().num_rows == 10
    assert most.notes == ["the answer was cut after 10 rows; there are more"]
    just = home.query("FROM orders", max_rows=60)
    assert just.arrow().num_rows == 60 and not just.notes


ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
HUGE = "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f"


@pytest.mark.parametrize("sql", [ENDLESS, HUGE, f"FROM backward('by_day', 'orders', (SELECT 1 AS _rid FROM ({HUGE})))"])
def test_what_takes_too_long_is_stopped_and_the_next_one_works(home, sql):
    with pytest.raises(QuestionError, match=r"took longer than 0\.5 s"):
        home.query(sql, timeout=0.5).arrow()
    assert home.query("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 60}]


def test_what_needs_too_much_memory_is_stopped_and_the_next_one_works(folder, monkeypatch):
    monkeypatch.setenv("SMOKE_MEMORY", "40MB")
    with Home.open(folder / "home") as home:
        with pytest.raises(QuestionError, match=r"needs more memory|took longer"):
            home.query(
                "SELECT list(a.order_id + b.order_id * c.order_id + d.order_id) FROM orders a, orders b, orders c, orders d",
                timeout=30,
            ).arrow()
        assert home.query("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 60}]


# --- bad input ------------------------------------------------------------------------------------------------------

BAD = [
    ("SELECT * FROM oders", "no dataset 'oders'.*did you mean 'orders'"),
    ("SELECT * FROM shop.oders", "has no dataset 'oders'.*did you mean 'orders'"),
    ("SELECT * FROM shp.orders", "no workflow 'shp'"),
    ('SELECT * FROM "orders@ffff"', "no run 'ffff'"),
    ("SELECT * FROM orders@ffff", "outside quotes"),
    ("SELECT * FROM a.b.c", "no dataset name"),
    ("SELECT * FROM bakward('by_day', 'orders')", "did you mean 'backward'"),
    ("SELECT * FROM backward('by_dya', 'orders')", "did you mean 'by_day'"),
    ("SELECT * FROM backward('by_day', 'oders')", "did you mean 'orders'"),
    ("SELECT * FROM backward('by_day')", "takes a dataset, a dataset to reach"),
    ("SELECT * FROM backward('by_day', 'orders', 'dya = 1')", "unknown column 'dya'.*did you mean 'day'"),
    ("SELECT * FROM backward('by_day', 'orders', 'day = (SELECT 1)')", "may hold columns, values"),
    ("SELECT * FROM backward('by_day', 'orders', 7)", "neither a text nor a subquery"),
    ("SELECT * FROM backward('by_day', 'orders', (FROM customers))", "are not rows of 'by_day'"),
    ("SELECT * FROM backward('by_day', 'orders', (SELECT day FROM by_day))", "have no column _rid"),
    ("SELECT * FROM backward('by_day', 'orders', (SELECT 99 AS _rid))", "has no row 99"),
    ("SELECT backward('by_day', 'orders')", "stands behind FROM"),
    ("SELECT * FROM workload('nothing', 'x = 1')", "no declared question 'nothing'"),
    ("SELECT aount FROM orders", "unknown column 'aount'.*did you mean 'amount'"),
    ("SELECT 1; SELECT 2", "one statement"),
    ("SELECT * FROM orders; DROP TABLE orders", "one statement"),
    ("", "empty"),
    ("SELECT (", "cannot read"),
    ("SELECT 'x", "no end"),
    ("INSERT INTO orders VALUES (1)", "only reads"),
    ("CREATE TABLE x AS SELECT 1", "only reads"),
    ("DELETE FROM orders", "only reads"),
    ("ATTACH 'x.db'", "only reads"),
    ("COPY orders TO 'x.csv'", "only reads"),
    ("PRAGMA database_list", "only reads"),
    ("SET memory_limit = '1TB'", "only reads"),
    ("INSTALL httpfs", "only reads"),
    ("EXPLAIN ANALYZE SELECT 1", "nothing else"),
    ("SELECT * FROM 'orders.parquet'", "FROM 'file' is not allowed"),
    ("SELECT * FROM \"/etc/passwd\"", "no dataset"),
    ("SELECT * FROM read_parquet('orders.parquet')", "not allowed behind FROM"),
    ("SELECT * FROM read_csv('/etc/passwd')", "not allowed behind FROM"),
    ("SELECT * FROM glob('/*')", "not allowed behind FROM"),
    ("SELECT * FROM query('SELECT 1')", "not allowed behind FROM"),
    ("SELECT * FROM duckdb_settings()", "not allowed behind FROM"),
    ("SELECT * FROM (SHOW TABLES)", "no dataset 'show'"),
    ("SELECT getenv('HOME')", "function 'getenv' is not allowed"),
    ("SELECT current_setting('memory_limit')", "function 'current_setting' is not allowed"),
    ("SELECT main.abs(1)", "without a schema"),
    ("SELECT nextval('x')", "not allowed"),
    ("SELECT ?", "parameter"),
    ("SELECT $1", "parameter|not allowed|cannot read"),
    ("WITH x AS (SELECT 1) SELECT * FROM y", "no dataset 'y'"),
    ("SELECT * FROM ids1", "no dataset 'ids1'"),
    ("SELECT day + city FROM orders, customers", "cannot be asked like this|no function|convert"),
    ("SELECT city::INT FROM customers", "cannot be converted"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "told"), BAD)
def test_bad_input_is_told_in_one_line_and_the_next_one_works(home, folder, sql, told):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with pytest.raises((QuestionError, NotFound), match=f"(?s){told}") as caught:
        home.query(sql).arrow()
    assert len(caught.value.problems) == 1 and "\n" not in caught.value.problems[0].message
    assert home.query("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 60}]
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    # The catalog is open: SQLite has files beside it.
    catalog = {folder / "home" / f"catalog.db{end}" for end in ("", "-wal", "-shm")}
    assert {path for path in after if before.get(path) != after[path]} <= catalog


def test_messages_never_quote_data(home):
    for sql in ("SELECT city::INT FROM customers", "SELECT strptime(city, '%Y') FROM customers"):
        with pytest.raises(LineageError) as caught:
            home.query(sql).arrow()
        assert not any(city and city in str(caught.value) for city in CITIES)


def test_nothing_is_reachable_beside_the_home(home, folder, monkeypatch):
    """The second wall: even SQL that passed the first could read the files of its question and nothing else."""
    home.query("FROM orders").arrow()
    secret = folder / "secret.csv"
    secret.write_text("a\n1\n")
    for sql in (f"FROM read_csv('{secret}')", f"COPY (SELECT 1) TO '{folder / 'out.csv'}'", "ATTACH 'x.db'",
                "SET enable_external_access = true", "INSTALL httpfs"):  # fmt: skip
        with pytest.raises(QuestionError, match=r"must not|cannot"):
            home._open.questions.session.run(sql)
    assert not (folder / "out.csv").exists()
