"""Masks over what a run of Spark's leaves: carried marks, prepared questions, keyed lineage, refresh, what-if, why-not."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError

MASK = "•••"
ROWS = 120
WHO = [f"person{number % 4}@x.org" for number in range(ROWS)]
FLOW = {
    "version": 1,
    "name": "flow",
    "sources": {"orders": {"path": "orders.parquet", "pii": ["who", "phone"]}},
    "steps": [
        {"name": "by_who", "op": "aggregate", "input": "orders", "by": ["who"],
         "measures": {"total": "sum(amount)", "people": "count(distinct phone)", "last": "max(phone)"}},
        {"name": "rich", "op": "aggregate", "input": "orders", "by": ["who"], "measures": {"total": "sum(amount)"},
         "having": "total > 70"},
    ],
    "outputs": {"by_who": {"checks": [{"where": "total > 1000", "severity": "warn"}]}, "rich": {}},
}  # fmt: skip
PREPARED = {
    "version": 1,
    "name": "prepared",
    "sources": {"lines": {"path": "orders.parquet", "pii": ["who", "phone"]}},
    "steps": [{"name": "by_city", "op": "aggregate", "input": "lines", "by": ["city"], "measures": {"n": "count(*)"}}],
    "outputs": {"by_city": {}},
    "lineage": {
        "workload": [
            {"name": "of_city", "backward": "by_city", "to": "lines", "by": {"who": "who"},
             "measures": {"n": "count(*)"}},
            {"name": "of_phones", "backward": "by_city", "to": "lines", "by": {"amount": "amount"},
             "measures": {"n": "count(*)", "last": "max(phone)"}},
            {"name": "of_amounts", "backward": "by_city", "to": "lines", "by": {"amount": "amount"},
             "measures": {"n": "count(*)"}},
            {"name": "sorted", "backward": "by_city", "to": "lines", "parameters": ["who"]},
        ]
    },
}  # fmt: skip
CHAIN = {
    "version": 1,
    "name": "chain",
    "sources": {"spent": {"output": "flow.by_who", "rename": {"who": "email"}}},
    "steps": [
        {"name": "shown", "op": "project", "input": "spent", "columns": {"hash": "md5(email)", "total": "total"}}
    ],
    "outputs": {"shown": {}},
}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    orders = pa.table(
        {
            "who": WHO,
            "phone": [f"555-{number}" for number in range(ROWS)],
            "amount": [number % 6 for number in range(ROWS)],
            "city": [("Oslo", "Bern")[number % 2] for number in range(ROWS)],
        }
    )
    pq.write_table(orders, folder / "orders.parquet")
    with Home.open(folder / "home") as opened:
        for body in (FLOW, CHAIN, PREPARED):
            path = folder / f"{body['name']}.yml"
            path.write_text(json.dumps(body))
            opened.run(path)
        yield opened


def harmless(found: object) -> bool:
    return "person" not in str(found) and "555-" not in str(found)


def logged(home: Home) -> int:
    from lineage_catalog.models import audit_log
    from sqlalchemy import func, select

    with home._open.erasing() as engine, engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(audit_log)).scalar_one()


def test_marks_that_were_carried(home):
    masks = home._open.questions.masks
    failing = next(each for each in home.datasets().to_pylist() if each["kind"] == "failing")
    found = {
        name: masks.of(home._open.questions.find(name)) for name in ("by_who", "rich", "by_city", "spent", "shown")
    }
    assert found == {
        "by_who": {"who", "last"}, "rich": {"who"}, "by_city": set(), "spent": {"email", "last"}, "shown": {"hash"},
    }  # fmt: skip
    for name in ("by_who", "spent", "shown", failing["dataset"]):
        assert harmless(home.rows(name).to_pylist())
    assert home.rows(failing["dataset"], columns=["who"]).to_pylist()[0]["who"] == MASK


def test_lineage_by_key_goes_on(home):
    """Keys are looked up by their real values: who gets how many rows does not depend on the mask."""
    for rid in range(4):
        found = home.backward("by_who", rid=rid, to="orders")
        revealed = home.backward("by_who", rid=rid, to="orders", reveal=True)
        assert [row["_rid"] for row in found.to_pylist()] == [row["_rid"] for row in revealed.to_pylist()]
        assert len({row["who"] for row in revealed.to_pylist()}) == 1
        assert harmless(found.to_pylist())


def test_explain_does_not_spell_keys(home):
    for name in ("by_who", "rich"):
        sql = f"EXPLAIN SELECT amount FROM backward('{name}', 'orders', '_rid = 0')"
        assert harmless(home.query(sql).to_pylist())
        told = str(home.query(sql, reveal=True).to_pylist())
        assert "scan by key" in told and not harmless(told)  # else nothing was hidden above


def test_groups_that_were_prepared(home):
    before = logged(home)
    for name, column in (("of_city", "who"), ("of_phones", "phone")):
        with pytest.raises(QuestionError, match=rf"column '{column}' of 'prepared.lines' is masked: workload"):
            home.query(f"FROM workload('{name}', '_rid = 0')")
    assert logged(home) == before
    assert not harmless(home.query("FROM workload('of_city', '_rid = 0')", reveal=True).to_pylist())
    assert logged(home) == before + 1
    assert home.query("FROM workload('of_amounts', '_rid = 0')").arrow().num_rows == 3
    with pytest.raises(QuestionError, match=r"is masked"):
        home.query("SELECT who, count(*) FROM backward('by_city', 'lines', '_rid = 0') GROUP BY who")
    sql = "SELECT amount, count(*) AS n FROM backward('by_city', 'lines', '_rid = 0') GROUP BY amount"
    assert "prepared groups of 'of_amounts'" in str(home.query(f"EXPLAIN {sql}").to_pylist())
    assert home.query(sql).arrow().num_rows == 3


def test_rows_that_were_prepared(home):
    for sql in (
        "FROM workload('sorted', '_rid = 0')",
        "SELECT who, phone FROM backward('by_city', 'lines', '_rid = 0')",
    ):
        found = home.query(sql)
        assert harmless(found.to_pylist()) and MASK in str(found.to_pylist())
        assert not harmless(home.query(sql, reveal=True).to_pylist())
        assert harmless(home.query(sql).to_pylist())
    rids = [row["_rid"] for row in home.query("FROM workload('sorted', '_rid = 0')").to_pylist()]
    assert rids == sorted(rids)  # not in the order of the file, which is by what is masked


def test_semantics(home):
    before = logged(home)
    for given in ({"cost": {"orders": "length(who)"}, "evaluate": "min-cost"},
                  {"trust": {"orders": "CASE WHEN phone = '555-1' THEN 0 ELSE 1 END"}, "evaluate": "trust"},
                  {"without": {"orders": "who = 'person1@x.org'"}, "evaluate": "boolean"}):  # fmt: skip
        with pytest.raises(QuestionError, match=r"is masked"):
            home.backward("by_who", rid=0, to="orders", semantics="how", **given)
        assert logged(home) == before
        home.backward("by_who", rid=0, to="orders", semantics="how", reveal=True, **given)
        before += 1
        assert logged(home) == before


def test_deciding_rows_of_a_masked_column_are_not_marked(home):
    found = home.backward("by_who", rid=0, to="orders", top=2, by="amount")
    assert "decides" not in found.parts[0].columns and harmless(found.to_pylist())
    assert any("which rows decide last is not marked: it is masked" in note for note in found.notes)
    assert "decides" in home.backward("by_who", rid=0, to="orders", top=2, by="amount", reveal=True).parts[0].columns


def test_what_if(home):
    with pytest.raises(QuestionError, match=r"'who' is masked"):
        home.what_if(without="orders", on="by_who", where="who = 'person0@x.org'")
    found = home.what_if(without="orders", on="by_who", rid=list(range(0, ROWS, 4)))
    assert found.to_pylist() and harmless(found.to_pylist())
    assert any(note.startswith("masked: who, last") for note in found.notes)
    assert found.masked == ("who", "last_before", "last_after")
    before = logged(home)
    assert not harmless(home.what_if(without="orders", on="by_who", rid=0, reveal=True).to_pylist())
    assert logged(home) == before + 1


def test_why_not(home):
    with pytest.raises(QuestionError, match=r"'who' of 'flow.orders' is masked"):
        home.why_not("orders", to="rich", key={"who": "person0@x.org"})
    before = logged(home)
    found = home.why_not("orders", to="rich", all=True)
    (example, *_) = [each for step in found.steps for reason in step.reasons for each in reason.examples]
    assert example["group"] == {"who": MASK} and example["values"]["total"] is not None
    assert example["masked"] == ["who"]
    assert harmless(found.to_json()) and "masked: who" in " ".join(found.notes)
    assert logged(home) == before
    assert not harmless(home.why_not("orders", to="rich", all=True, reveal=True).to_json())
    assert logged(home) == before + 1


def test_refresh(home):
    with pytest.raises(QuestionError, match=r"'who' is masked"):
        home.refresh("orders", removed="who = 'person0@x.org'")
    with pytest.raises(QuestionError, match=r"'phone' of 'flow.orders' is masked"):
        home.refresh("orders", changed=[{"phone": "555-3", "amount": 9}], key="phone")
    before = logged(home)
    report = home.refresh("orders", removed="phone = '555-11'", reveal=True)
    assert report.sources["orders"]["removed"] == 1
    assert logged(home) == before + 1
    assert harmless(home.rows("by_who").to_pylist()) and harmless(home.rows("orders").to_pylist())
