"""A .sql file as a workflow: every verb works on its run like on any other."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_service import Home

PEOPLE = {
    "version": 1,
    "name": "people",
    "sources": {"customer": {"path": "data/customer.parquet", "pii": ["name"]}},
    "steps": [{"name": "known", "op": "filter", "input": "customer", "where": "id < 9"}],
    "outputs": {"known": {}},
}
BEST = """-- customers with a card, by what they spent
WITH big AS (SELECT cust, sum(amount) AS total FROM orders WHERE amount > ${least} GROUP BY cust)
SELECT k.name, b.total
FROM people.known k JOIN big b ON k.id = b.cust
WHERE EXISTS (SELECT 1 FROM parquet.`data/vip.parquet` v WHERE v.id = k.id)
ORDER BY b.total DESC
"""
MASK = "•••"


def written(folder: Path) -> Path:
    (folder / "data").mkdir()
    tables = {
        "customer": {"id": [1, 2, 3, 4], "name": ["ann", "bob", "cy", "dee"]},
        "orders": {"cust": [1, 1, 2, 2, 3, 4], "amount": [5.0, 2.0, 1.0, 9.0, 4.0, 6.0]},
        "vip": {"id": [1, 2, 2, 4, 7]},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"data/{name}.parquet")
    (folder / "people.yml").write_text(json.dumps(PEOPLE), encoding="utf-8")
    (folder / "best.sql").write_text(BEST, encoding="utf-8")
    return folder / "best.sql"


def pairs(home: Home, source: str) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for pair in home.backward("best.best", to=source, all=True, pairs=True).to_pylist():
        found.setdefault(pair["out_rid"], set()).add(pair["rid"])
    return found


def test_every_verb_on_a_query(spark, tmp_path, monkeypatch):
    file = written(tmp_path)
    given = {"vars": {"least": "1"}}
    monkeypatch.chdir(tmp_path)
    with Home.open(tmp_path / "home") as home:
        home.run("people.yml")
        first = home.run(file, sources={"orders": "data/orders.parquet"}, **given)
        assert first.workflow == "best"
        assert {name: facts["rows"] for name, facts in first.sources.items()} == {"known": 4, "orders": 6, "vip": 5}

        # Rows in their order, lineage in both directions, through the other workflow.
        revealed = home.rows("best", reveal=True).to_pylist()
        assert [(row["name"], row["total"]) for row in revealed] == [("bob", 9.0), ("ann", 7.0), ("dee", 6.0)]
        assert pairs(home, "best.orders") == {0: {3}, 1: {0, 1}, 2: {5}}
        assert pairs(home, "best.vip") == {0: {1, 2}, 1: {0}, 2: {3}}
        assert pairs(home, "people.customer") == {0: {1}, 1: {0}, 2: {3}}
        forward = home.forward("best.vip", to="best.best", rid=[2, 4], pairs=True).to_pylist()
        assert forward == [{"out_rid": 0, "rid": 2}]
        text = json.dumps(home.trace("best", rid=0).to_json())
        assert "customer" in text
        assert "bob" not in text

        # Personal data is masked beneath the query too; columns are known through it.
        assert {row["name"] for row in home.rows("best").to_pylist()} == {MASK}
        columns = {row["column"]: row for row in home.columns("best.best").to_pylist()}
        assert "amount" in str(columns["total"])
        assert "cust" in str(columns["total"])

        # What is lost, what would change.
        lost = home.why_not("best.orders", to="best.best", all=True)
        assert (lost.asked, lost.reached) == (6, 4)
        changed = home.what_if(without="best.vip", rid=0, on="best.best", reveal=True).to_pylist()
        assert "ann" in str(changed)
        assert "bob" not in str(changed)

        # The same file is the same version, from wherever it is run; and a refresh of it computes what a run does.
        monkeypatch.chdir(tmp_path / "data")
        home.run(file, sources=[("ORDERS", "orders.parquet")], **given)
        runs = home.runs(workflow="best").to_pylist()
        versions = {home.explained_run(run["run_id"]).to_json()["workflow"] for run in runs}
        assert versions == {"best"}
        with home._open.reader.snapshot():
            assert len({home._open.reader.run(run["run_id"]).workflow_version for run in runs}) == 1
        home.refresh("best.best", removed={"best.orders": [3]})
        after = [(row["name"], row["total"]) for row in home.rows("best.best", reveal=True).to_pylist()]
        assert after == [("ann", 7.0), ("dee", 6.0)]
        assert sorted(pairs(home, "best.orders").values(), key=len) == [{5}, {0, 1}]
