"""Questions over windows, whatever their form: against the oracle, and without pairs of a window where there may be too
many of them. One home of two runs: windows over windows, behind a join, before a filter and an aggregate."""

import json
from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.audit import affected_rows as reached
from lineage_service.query import hop_sql, moving_rows, presence, walk_sql
from lineage_service.query.diff import source_rows as diff_behind
from lineage_service.query.diff import window_rows as diff_moving
from tests.oracle.reference import evaluate
from tests.support.harness import arrow_schema, traced_rows
from tests.support.judging import same_as_oracle, same_ways

SCHEMAS = {
    "r": {"id": "BIGINT", "p": "BIGINT", "g": "STRING", "t": "BIGINT", "x": "BIGINT"},
    "d": {"g": "STRING", "k": "BIGINT"},
}
ROWS = [
    {"id": n, "p": 70 + n % 5, "g": g, "t": t, "x": x}
    for n, (g, t, x) in enumerate([("a", 3, 3), ("b", 2, 8), ("a", 1, None), ("a", 5, 5), ("b", 1, 7), ("a", 2, 2), ("a", 4, 4), ("b", 2, None), (None, 1, 1)])
]  # fmt: skip
DIM = [{"g": "a", "k": 1}, {"g": "a", "k": 1}, {"g": "b", "k": 2}]  # no key: a row is its content, and there are copies
STEPS = [
    {"name": "running", "op": "window", "input": "r", "partition_by": ["g"], "order_by": ["t"], "measures": {"s": "sum(x)"}},
    {"name": "again", "op": "window", "input": "running", "order_by": ["id desc"], "frame": "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
     "measures": {"m": "max(s)", "l": "lead(s, 3)", "n": "lag(x) IGNORE NULLS"}},
    {"name": "odd", "op": "filter", "input": "running", "where": "x % 2 = 1"},
    {"name": "joined", "op": "join", "left": "r", "right": "d", "using": ["g"]},
    {"name": "near", "op": "window", "input": "joined", "partition_by": ["k"], "order_by": ["id"], "frame": "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
     "measures": {"c": "count(x)"}},
    {"name": "each", "op": "aggregate", "input": "near", "by": ["id"], "measures": {"c": "max(c)", "x": "max(x)"}},
    {"name": "sums", "op": "aggregate", "input": "again", "by": ["g"], "measures": {"m": "max(m)", "n": "count(*)"}},
]  # fmt: skip
KEYS = {"running": "id", "again": "id", "odd": "id", "sums": "g", "each": "id"}
OUTPUTS = (*KEYS, "near")


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """A home of two runs (earlier, later), the later of a table with other rows."""
    folder = tmp_path_factory.mktemp("windows")
    sources = {
        "r": {"path": "r.parquet", "snapshot": True, "subject": {"person": "p"}},
        "d": {"path": "d.parquet", "snapshot": True},
    }
    body = {"version": 1, "name": "f", "sources": sources, "steps": STEPS, "outputs": {name: {} for name in OUTPUTS}}
    (folder / "f.yml").write_text(json.dumps(body), encoding="utf-8")
    with Home.open(folder / "home") as home:
        found = []
        for rows, dim in (
            (ROWS, DIM),
            ([{**row, "x": 6} if row["id"] in (0, 4) else row for row in ROWS[:7]], DIM[1:]),
        ):
            for name, table in (("r", rows), ("d", dim)):
                pq.write_table(pa.Table.from_pylist(table, arrow_schema(SCHEMAS[name])), folder / f"{name}.parquet")
            found.append((home.run(folder / "f.yml").run_id, {"r": rows, "d": dim}))
        yield home, found


@pytest.fixture
def no_pairs(monkeypatch):
    """Fails where pairs are multiplied out of a window's intervals."""
    real = hop_sql.interval_part

    def checked(*given, pairs):
        assert not pairs, "pairs of a window"
        return real(*given, pairs=pairs)

    monkeypatch.setattr(walk_sql, "interval_part", checked)


def pairs_of(home, output):
    return home.backward(output, to="r", all=True, pairs=True, roles=True).to_pylist()


def test_lineage_and_ways_are_the_oracle_s(runs):
    home, ((run_id, tables), _) = runs
    relations = evaluate(tables, SCHEMAS, STEPS)
    for output in OUTPUTS:
        rows = traced_rows(home, output, ["r", "d"], run_id)
        assert same_as_oracle(rows, relations[output], ordered=False) == ""
        name = f"{output}@{run_id}"
        assert same_ways(home, name, home.rows(name).arrow(), relations[output]) == ""


@pytest.mark.parametrize("output", OUTPUTS)
def test_counts_rids_and_the_largest_are_those_of_the_pairs(runs, output):
    home, _ = runs
    pairs = pairs_of(home, output)
    rows = {row["_rid"]: row for row in home.rows("r").to_pylist()}
    outs = [row["_rid"] for row in home.rows(output).to_pylist()]
    for starts in (*([out] for out in outs), outs[:2], outs):
        behind = {pair["rid"] for pair in pairs if pair["out_rid"] in starts}
        assert home.backward(output, to="r", rid=starts, count=True).to_pylist() == [{"count": len(behind)}]
        assert [row["_rid"] for row in home.backward(output, to="r", rid=starts, rids=True)] == sorted(behind)
        best = sorted(behind, key=lambda rid: (rows[rid]["x"] is None, -(rows[rid]["x"] or 0), rid))[:2]
        shown = home.backward(output, to="r", rid=starts, top=2, by="x").to_pylist()
        assert {row["_rid"] for row in shown if not row.get("decides")} <= behind
        assert [row["measure"] for row in shown[:2]] == [rows[rid]["x"] for rid in best]
    for rid in rows:
        ahead = {pair["out_rid"] for pair in pairs if pair["rid"] == rid}
        assert home.forward("r", to=output, rid=rid, count=True).to_pylist() == [{"count": len(ahead)}]
        assert [row["_rid"] for row in home.forward("r", to=output, rid=rid, rids=True)] == sorted(ahead)


def test_counts_do_not_list_pairs(runs, no_pairs, monkeypatch):
    """Neither backward nor forward; one row's count does not even go through the intervals' own walk."""
    home, (_, (run_id, _)) = runs
    pairs = pairs_of_run(home, f"running@{run_id}")
    outs, rids = ({pair[name] for pair in pairs} for name in ("out_rid", "rid"))
    assert home.backward("running", to="r", all=True, count=True).to_pylist() == [{"count": len(rids)}]
    assert home.forward("r", to="running", all=True, count=True).to_pylist() == [{"count": len(outs)}]
    wanted = {rid: len({pair["out_rid"] for pair in pairs if pair["rid"] == rid}) for rid in rids}
    monkeypatch.setattr(walk_sql, "interval_part", None)
    found = {rid: home.forward("r", to="running", rid=rid, count=True).to_pylist()[0]["count"] for rid in rids}
    assert found == wanted
    for rid in outs:
        behind = len({pair["rid"] for pair in pairs if pair["out_rid"] == rid})
        assert home.backward("running", to="r", rid=rid, count=True).to_pylist() == [{"count": behind}]


def test_functions_of_sql_nest_over_windows(runs):
    home, _ = runs
    pairs = pairs_of(home, "again")
    behind = {pair["rid"] for pair in pairs if pair["out_rid"] == 0}
    ahead = {pair["out_rid"] for pair in pairs if pair["rid"] in behind}
    inner = "(FROM backward('again', 'r', (SELECT 0 AS _rid)))"
    found = home.query(f"SELECT _rid FROM forward('r', 'again', {inner}) ORDER BY _rid").to_pylist()
    assert [row["_rid"] for row in found] == sorted(ahead)
    (row,) = home.query("SELECT count(*) AS n, sum(x) AS s FROM backward('sums', 'r', 'g = ''a''')").to_pylist()
    rows = home.backward("sums", to="r", where="g = 'a'").to_pylist()
    assert row["n"] == len(rows)
    assert row["s"] == sum(each["x"] or 0 for each in rows)


def test_what_is_lost_and_what_is_only_read(runs, no_pairs):
    home, (_, (run_id, _)) = runs
    answer = home.why_not("r", to="odd", all=True)
    best = dict[int, str]()
    for pair in pairs_of_run(home, f"odd@{run_id}"):
        best[pair["rid"]] = min(best.get(pair["rid"], "peer"), pair["role"])
    roles = Counter(best.values())
    assert (answer.reached, answer.peers, answer.lost) == (roles["own"], roles["peer"], 7 - len(best))
    assert answer.peers, "rows that are dropped and were read"
    assert [arrival.rid for arrival in answer.arrivals] == sorted(rid for rid, role in best.items() if role == "own")


def pairs_of_run(home, output):
    walked = walk_sql.interval_part
    walk_sql.interval_part = hop_sql.interval_part
    try:
        return pairs_of(home, output)
    finally:
        walk_sql.interval_part = walked


@pytest.mark.parametrize("person", [70, 71, 73])
def test_persons_behind_rows_are_counted_without_pairs(runs, no_pairs, person):
    home, found = runs
    document = home.audit.access(f"person={person}", min_group=2).document
    told = {(each["dataset"], each["run"]): each for each in document["data"]}
    assert len(found) == 2
    for run_id, tables in found:
        of = {rid: row["p"] for rid, row in enumerate(tables["r"])}
        for output in OUTPUTS:
            persons: dict[int, dict[int, str]] = {}
            for pair in pairs_of_run(home, f"{output}@{run_id}"):
                known = persons.setdefault(pair["out_rid"], {})
                known[of[pair["rid"]]] = min(known.get(of[pair["rid"]], "peer"), pair["role"])
            wanted = {rid: (known[person], len(known)) for rid, known in persons.items() if person in known}
            rows = told[f"f.{output}", run_id]["rows"] if wanted else []
            assert {row["rid"]: (row["role"], row["persons"]) for row in rows} == wanted
            for row in rows:
                others = [role for each, role in persons[row["rid"]].items() if each != person]
                assert (row["values"] is not None) == (not others or row["role"] == "own")


@pytest.mark.parametrize("output", KEYS)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_what_is_behind_changes_is_the_same_without_pairs(runs, no_pairs, monkeypatch, output, rows):
    home, ((earlier, _), (later, _)) = runs
    key, sides = KEYS[output], (f"{output}@{earlier}", f"{output}@{later}")
    found = home.diff(*sides, key=key, rows=rows).to_json()
    monkeypatch.setattr(diff_behind, "has_intervals", lambda _: False)
    monkeypatch.setattr(walk_sql, "interval_part", hop_sql.interval_part)
    assert found == home.diff(*sides, key=key, rows=rows).to_json()
    assert any(each["behind"] for each in found["changes"])


def test_persons_are_the_same_by_pairs(runs, monkeypatch):
    home, _ = runs
    document = home.audit.access("person=70").document
    monkeypatch.setattr(reached, "has_intervals", lambda _: False)
    assert home.audit.access("person=70").document["data"] == document["data"]


@pytest.fixture
def few_at_once(monkeypatch):
    """Moves in many small parts: over several steps, cut where much comes and goes."""
    monkeypatch.setattr(moving_rows, "STEPS", 5)
    monkeypatch.setattr(moving_rows, "MOST", 6)
    monkeypatch.setattr(presence, "LONG", 1)
    monkeypatch.setattr(presence, "BLOCK", 2)


@pytest.mark.parametrize("output", KEYS)
def test_moves_in_small_parts_are_the_same(runs, few_at_once, monkeypatch, output):
    home, ((earlier, _), (later, _)) = runs
    sides = f"{output}@{earlier}", f"{output}@{later}"
    found = home.diff(*sides, key=KEYS[output]).to_json(), home.audit.access("person=71").document["data"]
    monkeypatch.undo()
    assert found == (home.diff(*sides, key=KEYS[output]).to_json(), home.audit.access("person=71").document["data"])


def test_rows_come_and_go_by_ranges_and_points(monkeypatch):
    monkeypatch.setattr(presence, "BLOCK", 4)
    random = Random(3)
    compared = 0
    for turn in range(120):
        monkeypatch.setattr(presence, "LONG", (0, 2, 1000)[turn % 3])  # by blocks, either, by points
        has_ranges = turn % 6 > 0
        size = random.randint(1, 30)
        counts = presence.RangeCounts(size) if has_ranges else presence.PathCounts(size)
        known: list[tuple[int, int]] = []
        reached, step = [0] * size, 0
        while step < 25:
            changes: list[tuple[int, int, int, int]] = []
            wanted: list[tuple[int, int, int]] = []
            for at in range(step, step := step + random.randint(1, 6)):
                for _ in range(random.randint(0, 4)):
                    if known and random.random() < 0.5:
                        (low, past), weight = known.pop(random.randrange(len(known))), -1
                    else:
                        low = random.randrange(size)
                        past, weight = random.randint(low + 1, size) if has_ranges else low + 1, 1
                        known.append((low, past))
                    changes.append((at, low, past, weight))
                after = [sum(low <= number < past for low, past in known) for number in range(size)]
                wanted += [
                    (at, number, 1 if after[number] else -1)
                    for number in range(size)
                    if bool(after[number]) != bool(reached[number])
                ]
                reached = after
            steps, low_, past_, weights = (np.array([each[n] for each in changes], np.int64) for n in range(4))
            if isinstance(counts, presence.RangeCounts):
                events = counts.add_ranges(presence.Ranges.sum_overlaps([presence.Ranges(steps, low_, past_, weights)]))
            else:
                events = counts.add(presence.Events(steps, low_, weights))
            found = zip(events.steps.tolist(), events.numbers.tolist(), events.weights.tolist(), strict=True)
            assert sorted(found) == sorted(wanted)
            compared += len(wanted)
    assert compared > 1000


def test_moves_of_several_are_cut_at_the_same_steps():
    def moves(*cuts):
        for first, past in pairwise(cuts):
            steps = np.arange(first, past)
            yield moving_rows.Moves(first, past, presence.Events(steps, steps * 10, np.ones_like(steps)))

    found = list(moving_rows.align_moves([moves(0, 4, 6), moves(0, 1, 5, 6)]))
    assert [(each[0].first, each[0].past) for each in found] == [(0, 1), (1, 4), (4, 5), (5, 6)]
    for both in found:
        for each in both:
            assert each.events.steps.tolist() == list(range(each.first, each.past))


def test_the_nth_mark_is_found():
    random = Random(5)
    for size in (1, 2, 3, 8, 29):
        marks, there = diff_moving.FenwickTree(size), set[int]()
        for _ in range(60):
            place = random.randrange(size)
            marks.add(place, -1 if place in there else 1)
            there ^= {place}
            assert [marks.place_of(number) for number in range(len(there))] == sorted(there)
            assert marks.before(place) == sum(each < place for each in there)


def test_equal_rows_are_not_looked_at_one_by_one(monkeypatch):
    """A source of equal rows, of which one more is behind each change: few of them are looked at each time."""
    looked: list[int] = []
    real = diff_moving.FenwickTree.place_of
    monkeypatch.setattr(diff_moving.FenwickTree, "place_of", lambda *given: looked.append(1) or real(*given))
    rows = 500

    class Growing:
        rids = np.arange(rows)

        def ranks(self, rids):
            return rids

        def each_move(self, rids):
            for rid in rids:
                yield [int(rid)], []

    sides = tuple(
        diff_moving.SourceVersionRows(each, np.arange(rows), np.zeros(rows, np.int64)) for each in (None, Growing())
    )
    difference = diff_moving.MovingDifference(sides, 1, np.array([], np.int64), "looked up", named=False)
    for n, tally, behind in difference.count_changes([(n, None, n) for n in range(rows)], 3):
        assert (tally.counts, behind) == ([n + 1, 0, 0, 0, 0, 0], (0, n + 1))
        assert [each.after for each in tally.shown] == list(range(min(n + 1, 3)))
    assert len(looked) <= 3 * rows
