"""Masks over personal data, over homes made by hand: no value, and nothing that depends on one, leaves unrevealed.

`tests/query/test_masking_runs.py` has what only a run of Spark's leaves behind.
"""

from __future__ import annotations

import json
import threading
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.engine import connect
from lineage_catalog.models import audit_log
from lineage_cli.main import main
from sqlalchemy import select

from lineage_service.errors import QuestionError, StoreError
from lineage_service.query.answer_shape import AnswerShape
from lineage_service.query.selection import Selection
from lineage_service.render.html.trace_page import trace_page
from tests.support.made_runs import Made, MadeHome

MASK = "•••"
SECRETS = ("Ann", "Bob", "Cleo", "@x.org", "Elm", "1970", "1980")  # none of these may be in an unrevealed answer


def customers(second: str = "Bob") -> pa.Table:
    return pa.table(
        {
            "id": [1, 2, 3],
            "name": ["Ann", second, None],
            "EMail": ["ann@x.org", "bob@x.org", "cleo@x.org"],
            "age": [50, 40, None],
            "born": [date(1970, 1, 1), date(1980, 1, 1), date(1970, 1, 1)],
            "address": [{"street": "Elm 1"}, {"street": "Elm 2"}, None],
            "city": ["Oslo", "Oslo", "Bern"],
        }
    )


PII = {"pii": ["Name", "email", "age", "born", "address"]}


def revenue(total: int = 20) -> pa.Table:
    return pa.table({"email": ["ann@x.org", "bob@x.org"], "city": ["Oslo", "Oslo"], "total": [10, total]})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> MadeHome:
    """Customers and what they spent, twice; a second workflow reads that under another name."""
    made = MadeHome(tmp_path_factory.mktemp("masks"))
    for name, total in (("Bob", 20), ("Cleo", 25)):
        run = made.run(
            "shop",
            {
                "customers": Made(customers(name), "source", PII),
                "products": Made(pa.table({"id": [1], "name": ["lamp"]}), "source"),
                "revenue": Made(revenue(total), hops={"customers": [(0, 0), (1, 1), (1, 2)]}, pii=("email",)),
            },
        )
    read = Made(made.versions[run, "revenue"], "source", {"output": "shop.revenue", "rename": {"email": "mail"}})
    made.run("letters", {"spent": read, "cities": Made(pa.table({"city": ["Oslo"]}), hops={"spent": [(0, 0), (0, 1)]})})
    return made


@pytest.fixture
def home(made):
    with made.home as opened:
        yield opened


def entries(made: MadeHome) -> list[tuple[str, list[str]]]:
    engine = connect(made.url)
    with engine.connect() as connection:
        rows = connection.execute(select(audit_log).order_by(audit_log.c.number)).all()
    engine.dispose()
    # A reveal's entry says by which verb.
    return [(json.loads(row.details).get("verb", row.verb), json.loads(row.datasets)) for row in rows]


def harmless(text: object) -> bool:
    return not any(secret in str(text) for secret in SECRETS)


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


# --- which columns --------------------------------------------------------------------------------------------------


def test_declared_whatever_the_case_and_marked_and_renamed(home):
    found = {
        name: home._open.questions.masks.of(home._open.questions.find(name))
        for name in ("customers", "products", "revenue", "spent", "cities")
    }
    assert found["customers"] == {"name", "email", "age", "born", "address"}
    assert found["revenue"] == {"email"}
    assert found["spent"] == {"mail"}
    assert not found["products"] and not found["cities"]


# --- values ---------------------------------------------------------------------------------------------------------


def test_rows_are_masked_by_type(home):
    answer = home.rows("customers")
    assert answer.to_pylist() == [
        {"_rid": 0, "id": 1, "name": MASK, "EMail": MASK, "age": None, "born": None, "address": None, "city": "Oslo"},
        {"_rid": 1, "id": 2, "name": MASK, "EMail": MASK, "age": None, "born": None, "address": None, "city": "Oslo"},
        {"_rid": 2, "id": 3, "name": None, "EMail": MASK, "age": None, "born": None, "address": None, "city": "Bern"},
    ]
    kinds = home.rows("customers", reveal=True).arrow().schema
    assert answer.arrow().schema.types == kinds.types
    assert answer.notes == ["masked: name, EMail, age, born, address (--reveal shows them, and is logged)"]


def test_only_what_is_shown_is_noted(home):
    assert home.rows("customers", columns=["city", "NAME"]).notes == [
        "masked: name (--reveal shows them, and is logged)"
    ]
    assert home.rows("customers", columns=["city"]).notes == []
    assert home.rows("products").to_pylist() == [{"_rid": 0, "id": 1, "name": "lamp"}]


@pytest.mark.long
@pytest.mark.parametrize(
    "ask",
    [
        lambda home: home.rows("customers", rid=[0, 1]).to_pylist(),
        lambda home: home.rows("spent", where="total > 5").to_pylist(),
        lambda home: home.backward("revenue", rid=0, to="customers").to_pylist(),
        lambda home: home.backward("revenue", all=True, to="customers").to_pylist(),
        lambda home: [part.arrow().to_pylist() for part in home.backward("cities", rid=0, to="all").parts],
        lambda home: home.backward("revenue", rid=1, to="customers", top=1, by="id").to_pylist(),
        lambda home: home.forward("customers", key={"id": 1}, to="revenue").to_pylist(),
        lambda home: home.trace("revenue", rid=1).to_json(),
        lambda home: home.trace("customers", key={"id": 2}).to_json(),
        lambda home: trace_page(home.trace("cities", rid=0)),
        lambda home: home.diff("revenue").to_json(),
        lambda home: home.diff("revenue").arrow().to_pylist(),
        lambda home: home.diff("customers", key="id").to_json(),
        lambda home: home.diff("customers", key="id").answer().to_pylist(),
        lambda home: home.query("FROM customers").to_pylist(),
        lambda home: home.query("SELECT * FROM backward('revenue', 'customers', 'total = 10')").to_pylist(),
        lambda home: home.query("FROM backward(['revenue', 'cities'], 'customers')").to_pylist(),
        lambda home: home.query("FROM backward('cities', 'all')").to_pylist(),
        lambda home: home.query("WITH c AS (SELECT id, name AS x FROM customers) SELECT x FROM c WHERE id = 1").to_pylist(),
        lambda home: home.query("SELECT u.mail FROM spent u JOIN customers c ON c.id = u._rid + 1").to_pylist(),
        lambda home: home.query("EXPLAIN FROM backward('revenue', 'customers', '_rid = 0')").to_pylist(),
    ],
)  # fmt: skip
def test_no_answer_has_a_value(made, home, ask):
    before = entries(made)
    found = ask(home)
    assert found
    assert harmless(found)
    assert entries(made) == before
    with made.home as revealing:
        assert not harmless([revealing.rows(name, reveal=True).to_pylist() for name in ("customers", "spent")])


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv", "parquet"])
def test_formats(made, capsys, tmp_path, form):
    out = tmp_path / f"rows.{form}"
    arguments = ["rows", "customers", "--home", str(made.folder), "--format", form, "--out", str(out)]
    code, _, err = call(capsys, *arguments)
    assert code == 0 and "note: masked: name, EMail, age" in err
    text = str(pq.read_table(out).to_pylist()) if form == "parquet" else out.read_text()
    assert MASK in text and harmless(text)
    before = entries(made)
    code, _, err = call(capsys, *arguments, "--reveal")
    assert code == 0 and "masked" not in err
    assert not harmless(pq.read_table(out).to_pylist() if form == "parquet" else out.read_text())
    assert entries(made) == [*before, ("rows", ["shop.customers@0002shop"])]


def test_a_change_is_told_without_its_values(home):
    (change,) = home.diff("customers", key="id").changes()
    assert (change.columns, change.before["name"], change.after["name"]) == (("name",), MASK, MASK)
    (change,) = home.diff("customers", key="id", reveal=True).changes()
    assert (change.before["name"], change.after["name"]) == ("Bob", "Cleo")


def test_a_masked_key_that_was_found_matches_rows_and_does_not_order_them(tmp_path):
    made = MadeHome(tmp_path)
    for n in (1, 2):
        made.run("flow", {"out": Made(pa.table({"who": ["zed", "amy"], "n": [n, n]}), pii=("who",))})
    with made.home as home:
        found = home.diff("out")
        assert found.key == ("who",)
        assert [(each.key, each.rid_after) for each in found.changes()] == [({"who": MASK}, 0), ({"who": MASK}, 1)]
        assert [each.rid_after for each in home.diff("out", reveal=True).changes()] == [1, 0]


# --- predicates -----------------------------------------------------------------------------------------------------

REFUSED = [
    lambda home, **more: home.rows("customers", where="name = 'Ann'", **more),
    lambda home, **more: home.rows("customers", where='"EMAIL" LIKE \'a%\' AND id = 1', **more),
    lambda home, **more: home.rows("customers", where="address.street = 'Elm 1'", **more),
    lambda home, **more: home.rows("customers", where="address['street'] = 'Elm 1'", **more),
    lambda home, **more: home.rows("customers", where="length(name) = 3", **more),
    lambda home, **more: home.rows("customers", where="name IS NULL", **more),
    lambda home, **more: home.rows("customers", key={"Name": "Ann"}, **more),
    lambda home, **more: home.rows("customers", order_by="name desc", **more),
    lambda home, **more: home.rows("customers", order_by=["id", "lower(email)"], **more),
    lambda home, **more: home.backward("revenue", key={"email": "ann@x.org"}, to="customers", **more),
    lambda home, **more: home.backward("revenue", key={"email": "ann@x.org"}, **more),
    lambda home, **more: home.backward("revenue", key={"email": "ann@x.org"}, to="customers", count=True, **more),
    lambda home, **more: home.backward("revenue", all=True, to="customers", order_by="age", **more),
    lambda home, **more: home.backward("revenue", all=True, to="customers", top=1, by="age", **more),
    lambda home, **more: home.backward("revenue", all=True, to="customers", top=1, by="length(name) asc", **more),
    lambda home, **more: home.forward("customers", where="age = 40", to="revenue", **more),
    lambda home, **more: home.forward("spent", where="mail = 'ann@x.org'", to="cities", **more),
    lambda home, **more: home.trace("customers", key={"name": "Ann"}, **more),
    lambda home, **more: home.trace("customers", where="name = 'Ann'", **more),
    lambda home, **more: home.diff("revenue", key="EMAIL", **more),
    lambda home, **more: home.diff("revenue", source_key={"customers": "email"}, **more),
    lambda home, **more: home.query("FROM backward('revenue', 'customers', 'email = ''ann@x.org''')", **more),
    lambda home, **more: home.query("FROM forward('customers', 'revenue', 'age > 45')", **more),
    lambda home, **more: home.query("FROM forward('customers', 'revenue', (SELECT _rid FROM customers WHERE age > 45))", **more),
    lambda home, **more: home.query("WITH c AS (FROM customers WHERE age > 45) FROM forward('customers', 'revenue', (FROM c))", **more),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("ask", REFUSED)
def test_predicates_on_masked_columns_are_refused(made, home, ask):
    before = entries(made)
    with pytest.raises(QuestionError, match="is masked") as refused:
        ask(home)
    assert "--reveal" in str(refused.value)
    assert harmless(refused.value)
    assert entries(made) == before
    answer = ask(home, reveal=True)
    assert len(entries(made)) == len(before) + 1
    assert answer is not None
    with pytest.raises(QuestionError, match="is masked"):  # what was found by revealing is not used without
        ask(home)


def test_a_revealed_predicate_that_finds_nothing_is_logged(made, home):
    before = entries(made)
    with pytest.raises(Exception, match="no row"):
        home.trace("customers", key={"name": "Nobody"}, reveal=True)
    assert entries(made)[len(before) :] == [("trace", ["shop.customers@0002shop"])]


def test_a_column_that_is_called_like_our_own_table_is_no_way_round(tmp_path):
    made = MadeHome(tmp_path)
    rows = pa.table({"name": ["Ann", "Bob"], "rows_asked": ["x", "y"]})
    made.run("flow", {"a": Made(rows, "source", {"pii": ["name"]})})
    with made.home as home:
        for where in ("rows_asked.name = 'Ann'", "concat(rows_asked.*) LIKE 'Ann%'"):
            with pytest.raises(QuestionError, match="is masked"):
                home.rows("a", where=where)
            with pytest.raises(QuestionError, match="is masked"):
                home.rows("a", order_by=where)


def test_questions_of_two_threads_are_told_apart(home):
    masks = home._open.questions.masks
    masks.start()
    home._open.questions.rows("customers", Selection(all=True), AnswerShape(reveal=True))
    other = threading.Thread(target=masks.start)
    other.start()
    other.join()
    assert masks.take_revealed() == ["shop.customers@0002shop"]


# --- SQL ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM customers WHERE name = 'Ann'",
        "SELECT id FROM customers c WHERE c.name = 'Ann'",
        "SELECT name = 'Ann' FROM customers",
        "SELECT upper(name) FROM customers",
        "SELECT name || '' AS name FROM customers",
        "SELECT address.street FROM customers",
        "SELECT c.address.street FROM customers c",
        "SELECT address['street'] FROM customers",
        "SELECT count(DISTINCT email) FROM customers",
        "SELECT count(name) FROM customers",
        "SELECT max(age) FROM customers",
        "SELECT DISTINCT name FROM customers",
        "SELECT DISTINCT * FROM customers",
        "SELECT DISTINCT ON (email) id FROM customers",
        "SELECT email, count(*) FROM customers GROUP BY email",
        "SELECT email, count(*) FROM customers GROUP BY 1",
        "SELECT email, count(*) FROM customers GROUP BY ALL",
        "SELECT count(*) FROM customers GROUP BY email",
        "SELECT count(*) FROM customers GROUP BY city HAVING max(age) > 1",
        "SELECT id FROM customers ORDER BY age",
        "SELECT id, age FROM customers ORDER BY 2",
        "SELECT id, age AS a FROM customers ORDER BY a",
        "SELECT id, age FROM customers ORDER BY ALL",
        "SELECT id FROM customers QUALIFY row_number() OVER (ORDER BY age) = 1",
        "SELECT id, rank() OVER w FROM customers WINDOW w AS (PARTITION BY email)",
        "SELECT a.id FROM customers a JOIN revenue b USING (email)",
        "SELECT a.id FROM customers a JOIN revenue b ON a.email = b.email",
        "SELECT a.id FROM customers a JOIN spent b ON a.email = b.mail",
        "SELECT id FROM customers WHERE email IN (SELECT email FROM revenue)",
        "SELECT id FROM products p WHERE EXISTS (SELECT 1 FROM customers c WHERE c.name = p.name)",
        "SELECT id FROM products p WHERE p.name IN (SELECT name FROM customers)",
        "SELECT (SELECT name FROM customers LIMIT 1) FROM products",
        "SELECT x FROM (SELECT name AS x FROM customers) WHERE x = 'Ann'",
        "WITH c(a, b) AS (SELECT id, name FROM customers) SELECT a FROM c WHERE b = 'Ann'",
        "WITH c AS (FROM customers), d AS (FROM c) SELECT length(name) FROM d",
        "SELECT b FROM customers AS t(r, a, b) WHERE b = 'Ann'",
        "SELECT name AS n, n || 'x' FROM customers",
        "SELECT name FROM customers UNION SELECT name FROM products",
        "SELECT name FROM customers INTERSECT SELECT 'Ann'",
        "SELECT name FROM customers EXCEPT ALL SELECT 'Ann'",
        "SELECT x FROM (SELECT name AS x FROM customers UNION ALL SELECT name FROM products) WHERE x = 'Ann'",
        "SELECT c FROM customers c",
        "SELECT c = c FROM customers c",
        "SELECT to_json(c) FROM customers c",
        "SELECT COLUMNS('n.*') FROM customers",
        "SELECT max(COLUMNS(*)) FROM customers",
        "SELECT #2 || 'x' FROM customers",
        "SELECT * REPLACE (upper(name) AS name) FROM customers",
        "SELECT x FROM customers, unnest([name]) u(x)",
        "SELECT y FROM customers, LATERAL (SELECT upper(name) AS y)",
        "SELECT list_filter(['Ann'], lambda x: x = name) FROM customers",
        "SELECT * FROM customers PIVOT (count(*) FOR name IN ('Ann'))",
        "SELECT dataset, count(DISTINCT email) FROM backward('cities', ['customers', 'revenue']) GROUP BY dataset",
        "EXPLAIN SELECT id FROM customers WHERE name = 'Ann'",
    ],
)  # fmt: skip
def test_sql_does_not_compute_with_masks(home, sql):
    with pytest.raises(QuestionError, match=r"masked|not allowed") as refused:
        home.query(sql)
    assert harmless(str(refused.value).replace("'Ann'", ""))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT name FROM customers ORDER BY id", [(MASK,), (MASK,), (None,)]),
        ("SELECT * EXCLUDE (name) FROM customers WHERE id = 3", [(2, 3, MASK, None, None, None, "Bern")]),
        ("SELECT city, count(*) FROM customers GROUP BY city ORDER BY ALL", [("Bern", 1), ("Oslo", 2)]),
        ("SELECT p.name FROM products p JOIN customers c USING (id) WHERE p.name = 'lamp'", [("lamp",)]),
        ("SELECT DISTINCT city FROM customers ORDER BY city", [("Bern",), ("Oslo",)]),
        ("SELECT DISTINCT city FROM (FROM customers) ORDER BY city", [("Bern",), ("Oslo",)]),
        ("SELECT name FROM customers WHERE id = 1 UNION ALL SELECT name FROM products", [(MASK,), ("lamp",)]),
        ("SELECT x.n FROM (SELECT name AS n, id FROM customers) x WHERE x.id = 1", [(MASK,)]),
        ("SELECT * REPLACE (1 AS name) FROM (SELECT name FROM customers) LIMIT 1", [(1,)]),
        ("SELECT count(*) FROM customers", [(3,)]),
        ("SELECT id FROM customers c WHERE EXISTS (SELECT 1 FROM products p WHERE p.name = 'lamp' AND p.id = c.id)", [(1,)]),
    ],
)  # fmt: skip
def test_sql_that_only_shows_masks(home, sql, rows):
    assert [tuple(row.values()) for row in home.query(sql).to_pylist()] == rows


def test_revealed_and_unrevealed_do_not_meet(made, home):
    sql = "SELECT name, age FROM backward('revenue', 'customers', '_rid = 0')"
    masked, revealed = [{"name": MASK, "age": None}], [{"name": "Ann", "age": 50}]
    for reveal in (False, True, False, True, False):
        before = len(entries(made))
        assert home.query(sql, reveal=reveal).to_pylist() == (revealed if reveal else masked)
        assert home.rows("customers", rid=0, columns=["name", "age"], reveal=reveal).to_pylist()[0]["name"] == (
            "Ann" if reveal else MASK
        )
        assert len(entries(made)) == before + 2 * reveal
    answer = home.query(sql)
    home.query(sql, reveal=True)
    assert answer.to_pylist() == masked  # read only now


def test_a_reveal_of_nothing_masked_is_not_logged(made, home):
    before = entries(made)
    home.rows("products", reveal=True)
    home.query("SELECT * FROM products", reveal=True)
    home.backward("revenue", rid=0, to="customers", rids=True, reveal=True)
    assert entries(made) == before


def test_no_answer_without_its_entry(home, monkeypatch):
    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("lineage_service.audit.log.log_transactions.log_reveal", full)
    for ask in (
        lambda: home.rows("customers", reveal=True),
        lambda: home.query("FROM customers", reveal=True),
        lambda: home.trace("customers", rid=0, reveal=True),
        lambda: home.diff("customers", key="id", reveal=True),
        lambda: home.query("SELECT name FROM customers", save="unlogged", reveal=True),
    ):
        with pytest.raises(StoreError, match="disk is full"):
            ask()
    assert "unlogged" not in home._open.reader.workflows()


# --- saved queries --------------------------------------------------------------------------------------------------


def test_masks_are_not_saved_as_data(made, home):
    for sql in ("SELECT id, name FROM customers", "FROM (SELECT * EXCLUDE (_rid) FROM customers)"):
        with pytest.raises(QuestionError, match=r"cannot be saved: .*name.* would be kept as masks"):
            home.query(sql, save="kept")
    with pytest.raises(QuestionError, match="is masked"):
        home.query("SELECT id FROM customers WHERE name = 'Ann'", save="kept")
    assert home.query("SELECT id, city FROM customers", save="plain").arrow().num_rows == 3
    before = entries(made)
    revealed = home.query("SELECT id, upper(name) AS loud, city FROM customers", save="kept", reveal=True)
    assert [row["loud"] for row in revealed.to_pylist()] == ["ANN", "CLEO", None]
    assert [verb for verb, _ in entries(made)[len(before) :]] == ["query", "rows"]
    assert [row["loud"] for row in home.rows("kept").to_pylist()] == [MASK, MASK, None]
    assert harmless(home.query("SELECT loud FROM kept").to_pylist())
    assert harmless(home.backward("kept", rid=0, to="customers").to_pylist())
    with pytest.raises(QuestionError, match="is masked"):
        home.query("SELECT id FROM kept WHERE loud = 'ANN'")


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["rows", "customers"],
        ["backward", "revenue", "--rid", "0", "--to", "customers"],
        ["forward", "customers", "--rid", "0", "--to", "revenue"],
        ["trace", "revenue", "--rid", "0"],
        ["trace", "revenue", "--rid", "0", "--format", "html"],
        ["diff", "customers", "--key", "id"],
        ["query", "SELECT name, email FROM customers"],
    ],
)
def test_verbs_mask_and_reveal(made, capsys, arguments):
    where = ["--home", str(made.folder)]
    before = entries(made)
    code, out, err = call(capsys, *arguments, *where)
    assert code == 0 and harmless(out) and harmless(err) and entries(made) == before
    assert err.count("masked: ") == 1 and MASK in out
    code, out, err = call(capsys, *arguments, *where, "--reveal")
    assert code == 0 and not harmless(out) and "masked: " not in err
    assert [verb for verb, _ in entries(made)[len(before) :]] == [arguments[0]]


def test_a_refusal_on_the_command_line(made, capsys):
    code, out, err = call(capsys, "rows", "customers", "--where", "name = 'Ann'", "--home", str(made.folder))
    assert (code, out) == (1, "")
    assert err == (
        "error: column 'name' is masked: a predicate over it would disclose its values\n"
        "  hint: --reveal allows it, and is logged\n"
    )


# --- files that tell ------------------------------------------------------------------------------------------------


def test_folders_named_after_values(tmp_path):
    from dataclasses import replace

    made = MadeHome(tmp_path)
    run = made.run("flow", {"a": Made(pa.table({"n": [1]}), "source", {"pii": ["who"]})})
    version = made.versions[run, "a"]
    (file,) = version.files
    (column,) = version.columns
    folders = replace(
        version,
        id="folders",
        files=(replace(file, partitions={"who": "Bob"}),),
        columns=(column, replace(column, name="who", type="string", stored=None, partition="who")),
    )
    made.run("flow", {"a": Made(folders, "source", {"pii": ["who"]})})
    with made.home as home:
        assert home.rows("a").to_pylist() == [{"_rid": 0, "n": 1, "who": MASK}]
        assert home.trace("a", rid=0).root.rows[0].place is None
        assert home.trace("a", rid=0, reveal=True).root.rows[0].place is not None
        with pytest.raises(QuestionError, match="folders"):
            home.query("EXPLAIN SELECT n FROM a")
        assert "Bob" in str(home.query("EXPLAIN SELECT n FROM a", reveal=True).to_pylist())


# --- tables ---------------------------------------------------------------------------------------------------------


def cells(out: str, *names: str) -> list[tuple[str, ...]]:
    """The cells of some columns of a table; none of its values has a space in it."""
    head, _, *rows = [line.split() for line in out.splitlines()]
    return [tuple(row[head.index(name)] for name in names) for row in rows]


@pytest.mark.parametrize(
    "question, columns, rows",
    [
        ("rows customers", ("name", "EMail", "age", "born", "address"), 3),
        ("backward revenue --all --to customers", ("name", "age", "address"), 3),
        ("forward customers --all --to revenue", ("email",), 2),
        ("backward revenue --all --to customers --columns name,age", ("name", "age"), 3),
        ("query FROM#customers", ("name", "EMail", "age", "born", "address"), 3),
        ("query SELECT#age,#born#AS#day,#id#FROM#customers", ("age", "day"), 3),
        ("query SELECT#c.age,#o.total#FROM#customers#c#LEFT#JOIN#revenue#o#ON#c.id#=#o.total#-#9", ("age",), 3),
    ],
)
def test_a_masked_column_is_masks_in_a_table_whatever_its_type_and_where_it_is_null(
    made, capsys, question, columns, rows
):
    arguments = [word.replace("#", " ") for word in question.split()]
    code, out, err = call(capsys, *arguments, "--home", str(made.folder))
    assert code == 0, err
    assert cells(out, *columns) == [(MASK,) * len(columns)] * rows
    assert "note: masked: " in err


def test_in_data_masks_keep_the_type_and_the_answer_names_them(made, capsys, home):
    _, out, _ = call(capsys, "rows", "customers", "--json", "--home", str(made.folder))
    assert [(row["name"], row["age"], row["address"]) for row in json.loads(out)] == [(MASK, None, None)] * 2 + [
        (None, None, None)
    ]
    answer = home.rows("customers")
    assert answer.masked == ("name", "EMail", "age", "born", "address")
    assert answer.arrow().schema.field("age").type == pa.int64()
    assert home.rows("customers", columns=["id"]).masked == ()
    assert home.rows("customers", reveal=True).masked == ()
    assert home.query("SELECT id, age AS years FROM customers").masked == ("years",)
    assert home.query("SELECT city, count(*) FROM customers GROUP BY city").masked == ()
    assert home.diff("customers", key="id").answer().masked == tuple(
        f"{name}_{side}" for name in ("name", "EMail", "age", "born", "address") for side in ("before", "after")
    )


def test_trace_shows_masks_as_text_and_on_its_page(made, capsys, home):
    _, out, _ = call(capsys, "trace", "customers", "--rid", "2", "--home", str(made.folder))
    assert f"id 3 · name {MASK} · EMail {MASK} · age {MASK} · born {MASK} · address {MASK} · city Bern" in out
    trace = home.trace("customers", rid=2)
    assert trace.record.values["age"] is None and trace.record.masked == home.rows("customers").masked
    page = trace_page(trace)
    assert page.count(f"<dd>{MASK}</dd>") == 5 and "null" not in page


def test_diff_shows_masks_before_and_after_and_behind(tmp_path, capsys):
    made = MadeHome(tmp_path / "home")
    for age in (50, 51):
        people = Made(pa.table({"id": [1, 2], "age": [age, None]}), "source", {"pii": ["age"]})
        out = Made(pa.table({"id": [1], "oldest": [age]}), hops={"people": [(0, 0)]}, pii=("oldest",))
        made.run("flow", {"people": people, "out": out})
    _, out, _ = call(capsys, "diff", "out", "--home", str(made.folder))
    assert f"    oldest  {MASK} → {MASK}\n" in out and f"      age  {MASK} → {MASK}\n" in out
    assert "50" not in out and "null" not in out
    _, out, _ = call(capsys, "diff", "out", "--reveal", "--home", str(made.folder))
    assert "    oldest  50 → 51\n" in out
    _, out, _ = call(capsys, "diff", "out", "--format", "csv", "--home", str(made.folder))
    assert out == "change,id,_rid_before,_rid_after,oldest_before,oldest_after\nchanged,1,0,0,,\n"
