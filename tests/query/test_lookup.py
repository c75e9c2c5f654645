"""Look-ups in an open home: indexes held in memory, and rows by position or by key."""

import random
import threading
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_service import Home
from lineage_service.query import row_retrieval as rows
from lineage_service.query.index_lookup import Lookups
from tests.capture.test_capture import GROUPED, flow, forms, pairs


def wait_for_loading() -> None:
    for thread in threading.enumerate():
        if thread.name == "smoke-index":
            thread.join()


def test_an_index_that_is_asked_often_is_held_within_its_limit(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [GROUPED], rows=5000)
    with Home.open(tmp_path / "home") as home:
        home.run(path)
        wanted = {out: {rid for o, rid in pairs(home) if o == out} for out in range(7)}
        for limit, held in ((10, False), (10**9, True)):
            home._open.forget_questions()
            home._open.questions.lookups.limit = limit
            for number in range(40):
                found = home.backward("t", to="a", rid=number % 7, rids=True).arrow().column("_rid").to_pylist()
                assert found == sorted(wanted[number % 7])
                if number == 20:
                    wait_for_loading()
            (pairs_held,) = home._open.questions.lookups._files.values()
            assert (pairs_held.loaded is not None) == held


def test_rows_are_the_same_by_fetch_and_by_scan(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [GROUPED], rows=400)
    with Home.open(tmp_path / "home") as home:
        home.run(path)
        answers = []
        for most in (-1.0, 2.0):  # always a scan by key, always a fetch
            monkeypatch.setattr(rows, "MOST_TOUCHED", most)
            monkeypatch.setattr(rows, "FEW_OF_ALL", most)
            answers.append([home.backward("t", to="a", rid=out).to_pylist() for out in range(7)])
        assert answers[0] == answers[1]
        assert sum(map(len, answers[0])) == 400


def test_rows_by_key_whatever_the_key(spark, tmp_path, monkeypatch):
    """Nulls, quotes, decimals, days, truth: the key is spelled out in the scan."""
    keys = {
        "s": ["it's", "", None, 'a "b"', "ä\\n"],
        "d": [Decimal("1.50"), None, Decimal("-0.05"), Decimal(0), Decimal("99999999.99")],
        "t": [date(1969, 12, 31), date(1, 1, 1), None, date(9999, 12, 31), date(2024, 2, 29)],
        "b": [True, False, None, True, False],
        "i": [0, -1, None, 2**62, 7],
    }
    path = flow(tmp_path, [{**GROUPED, "by": list(keys), "measures": {"n": "count(*)"}}])
    table = pa.table({name: values * 30 for name, values in keys.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    with Home.open(tmp_path / "home") as home:
        home.run(path)
        assert forms(home) == {("source:a", "keyed")}
        for most in (-1.0, 2.0):
            monkeypatch.setattr(rows, "MOST_TOUCHED", most)
            monkeypatch.setattr(rows, "FEW_OF_ALL", most)
            for out in range(5):
                found = home.backward("t", to="a", rid=out).to_pylist()
                assert len(found) == 30
                assert [row["_rid"] for row in found] == sorted(row["_rid"] for row in found)
                assert len({tuple(row[name] for name in keys) for row in found}) == 1


def test_an_index_is_read_while_it_is_loaded(tmp_path):
    """Two threads over one open file would read each other's bytes."""
    pairs = pa.table({"a": [n // 4 for n in range(200_000)], "b": list(range(200_000))})
    pq.write_table(pairs, tmp_path / "p.parquet", row_group_size=2_000)
    lookups = Lookups(limit=10**9)
    chance = random.Random(3)
    for _ in range(400):
        rid = chance.randrange(50_000)
        assert lookups.ids([str(tmp_path / "p.parquet")], "a", "b", rid).to_pylist() == list(
            range(4 * rid, 4 * rid + 4)
        )
