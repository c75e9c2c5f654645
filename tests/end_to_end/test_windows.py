"""Windows by their frame, through what works on lineage: both index engines, counts, refresh, what-if, erasure, homes of
earlier versions. What contributes, function by function, is in tests/cases/window and in the oracle."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.capture.window_reads import Interval, Point, window_reads
from lineage_service.errors import LineageError
from lineage_service.plan.expressions import ExpressionError
from lineage_service.plan.window_frames import parse_frame
from lineage_service.runs.workflow_file import explain_workflow, validate_workflow
from tests.support.made_runs import PEER, Made, MadeHome

BASE = 8_250_170_000
# Not in the order of t; in partition 'a' t is 1 … 5, in 'b' 1 … 2.
ROWS = [
    {"id": BASE + n, "g": g, "t": t, "x": x}
    for n, (g, t, x) in enumerate([("a", 3, 30), ("b", 2, 8), ("a", 1, 10), ("a", 5, 50), ("b", 1, 7), ("a", 2, 20), ("a", 4, 40)])
]  # fmt: skip
STEPS = [
    ("two", {"m": "lag(x, 2)"}, None, lambda at, _: [at - 2]),
    ("running", {"m": "sum(x)"}, None, lambda at, _: range(at + 1)),
    ("moving", {"m": "sum(x)"}, "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", lambda at, _: range(at - 1, at + 2)),
    ("behind", {"m": "sum(x)"}, "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING", lambda at, _: range(at - 3, at - 1)),
    ("ahead", {"m": "lead(x)", "n": "row_number()"}, None, lambda at, _: [*range(at), at + 1]),
    ("share", {"m": "ntile(2)"}, None, lambda _, size: range(size)),
]


def flow(folder: Path, name: str = "flow.yml") -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "readings.parquet")
    steps: list[dict[str, object]] = []
    for step, measures, frame, _ in STEPS:
        window = {"name": step, "op": "window", "input": "readings", "partition_by": ["g"], "order_by": ["t"]}
        steps.append({**window, "measures": measures, **({"frame": frame} if frame else {})})
    steps.append({"name": "late", "op": "filter", "input": "running", "where": "t >= 2"})
    steps.append({"name": "sorted", "op": "sort", "input": "moving", "by": ["x desc"]})
    window = {"name": "inner", "op": "window", "input": "readings", "partition_by": ["g"], "order_by": ["t"]}
    steps.append({**window, "measures": {"m": "sum(x)"}})  # no dataset: its rows are staged
    steps.append({"name": "few", "op": "filter", "input": "inner", "where": "x > 10"})
    body = {
        "version": 1,
        "name": "flow",
        "sources": {"readings": {"path": "readings.parquet", "subject": {"person": "id"}}},
        "steps": steps,
        "outputs": {**{step: {} for step, *_ in STEPS}, "late": {}, "sorted": {}, "few": {}},
    }
    path = folder / name
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


@pytest.mark.parametrize("capture", ["defer", "lazy"])
def test_a_window_that_is_staged_instead_is_told(tmp_path, capture):
    path = flow(tmp_path)
    body = json.loads(path.read_text(encoding="utf-8"))
    assert validate_workflow(path) == ()
    path.write_text(json.dumps({**body, "lineage": {"capture": capture}}, indent=1), encoding="utf-8")
    warnings = [str(each) for each in validate_workflow(path)]
    assert len(warnings) == len(STEPS) + 1
    for step, warning in zip([*(name for name, *_ in STEPS), "inner"], warnings, strict=True):
        assert f"warning: step '{step}' is captured by stage, not by {capture}: " in warning
        assert "ties may be in another order" in warning
    explained = explain_workflow(path)
    assert [str(each) for each in explained.warnings] == warnings
    (choice,) = [each["capture"] for each in explained.to_json()["steps"] if each["name"] == "running"]
    assert (choice["strategy"], choice["reason"].startswith(f"not by {capture}: ")) == ("stage", True)


def test_a_run_tells_of_a_window_that_is_staged_instead(spark, tmp_path):
    path = flow(tmp_path)
    body = json.loads(path.read_text(encoding="utf-8"))
    step = {**body["steps"][1], "order_by": ["id"]}  # a total order, which nobody knows before it has run
    path.write_text(json.dumps({**body, "steps": [step], "outputs": {step["name"]: {}}}), encoding="utf-8")
    with Home.open(tmp_path / "home") as home:
        report = home.run(path, capture="defer")
        assert report.capture[step["name"]]["readings"]["strategy"] == "stage"
        (warning,) = report.warnings
        assert "is captured by stage, not by defer" in str(warning)


def expected(reads: Callable[[int, int], object], rows: dict[int, dict]) -> dict[int, set[int]]:
    """Per row (its id of the source) the other rows that are read for it."""
    found = {}
    for own, row in rows.items():
        partition = sorted((each["t"], rid) for rid, each in rows.items() if each["g"] == row["g"])
        order = [rid for _, rid in partition]
        at = order.index(own)
        found[own] = {order[place] for place in reads(at, len(order)) if 0 <= place < len(order)} - {own}
    return found


def peers(home: Home, output: str) -> dict[int, set[int]]:
    """The same from the lineage; forward must be the inverse, and counts the number of rows."""
    back = home.backward(output, to="readings", all=True, pairs=True, roles=True).to_pylist()
    ahead = home.forward("readings", to=output, all=True, pairs=True, roles=True).to_pylist()
    assert sorted(map(str, back)) == sorted(map(str, ahead))
    own = {pair["out_rid"]: pair["rid"] for pair in back if pair["role"] == "own"}
    assert len(own) == sum(pair["role"] == "own" for pair in back) == len(home.rows(output).to_pylist())
    for out in own:
        counted = home.backward(output, to="readings", rid=out, count=True).to_pylist()
        assert counted == [{"count": sum(pair["out_rid"] == out for pair in back)}]
    for rid in {pair["rid"] for pair in back}:
        counted = home.forward("readings", to=output, rid=rid, count=True).to_pylist()
        assert counted == [{"count": sum(pair["rid"] == rid for pair in back)}]
    for starts in (list(own), list(own)[:2]):
        reached = home.backward(output, to="readings", rid=starts, rids=True).to_pylist()
        assert [row["_rid"] for row in reached] == sorted({pair["rid"] for pair in back if pair["out_rid"] in starts})
        counted = home.backward(output, to="readings", rid=starts, count=True).to_pylist()
        assert counted == [{"count": len(reached)}]
    assert home.backward(output, to="readings", all=True, count=True).to_pylist() == [
        {"count": len({pair["rid"] for pair in back})}
    ]
    found: dict[int, set[int]] = {rid: set() for rid in own.values()}
    for pair in back:
        if pair["role"] == "peer":
            found[own[pair["out_rid"]]].add(pair["rid"])
    return found


def assert_exact(home: Home, rows: dict[int, dict]) -> None:
    reads = {step: each for step, _, _, each in STEPS}
    for step, each in reads.items():
        assert peers(home, step) == expected(each, rows), step
    late = {rid: found for rid, found in expected(reads["running"], rows).items() if rows[rid]["t"] >= 2}
    assert peers(home, "late") == late
    few = {rid: found for rid, found in expected(reads["running"], rows).items() if rows[rid]["x"] > 10}
    assert peers(home, "few") == few
    assert peers(home, "sorted") == expected(reads["moving"], rows)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_both_index_engines_keep_intervals(spark, tmp_path, engine):
    with Home.open(tmp_path / "home") as home:
        report = home.run(flow(tmp_path), index_engine=engine)
        assert_exact(home, dict(enumerate(ROWS)))
        reads = {step: each for step, _, _, each in STEPS}
        for step, each in reads.items():
            pairs = sum(len(found) + 1 for found in expected(each, dict(enumerate(ROWS))).values())
            assert report.capture[step]["readings"]["pairs"] == pairs, "counted from the bounds"
        forms = {hop.form for hop in home._open.reader.hops(report.run_id) if hop.role == PEER}
        assert forms <= {"interval", "formula", "column", "pairs"}
        assert "interval" in {hop.form for hop in home._open.reader.hops(report.run_id)}


def test_counts_are_lengths_of_intervals(spark, tmp_path, monkeypatch):
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path))
        listed = "lineage_service.query.hop_sql._positions"
        monkeypatch.setattr(listed, lambda _: pytest.fail("positions are listed"))
        for output in ("running", "moving", "ahead", "few"):
            found = home.backward(output, to="readings", rid=0, count=True).to_pylist()
            assert found[0]["count"] >= 1
            assert home.backward(output, rid=[0, 1]).to_pylist()[0]["rows"] >= 2


def test_rows_that_span_a_change_are_computed_anew(spark, tmp_path, monkeypatch):
    """`lag(x, 2)` with the row in between gone: no row is paired with it, and yet another row is taken."""
    monkeypatch.chdir(tmp_path)
    rows = dict(enumerate(ROWS))
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path))
        told = home.what_if(without="readings", on="two", rid=6).to_pylist()  # t = 4
        shown = [(each["change"], each["t"], each["m"]) for each in told]
        assert shown == [("vanishes", 4, 20), ("vanishes", 5, 30), ("appears", 5, 20)], "t = 5 takes t = 2 now"
        home.refresh("readings", removed=[6])
        del rows[6]
        assert_exact(home, rows)
        values = {row["t"]: row["m"] for row in home.rows("two").to_pylist() if row["g"] == "a"}
        assert values == {1: None, 2: None, 3: 10, 5: 20}
        added = {"id": BASE + 9, "g": "a", "t": 4, "x": 41}
        home.refresh("readings", added=pa.Table.from_pylist([added]))
        assert_exact(home, {**rows, 7: added})


def test_erasure_leaves_windows_exact(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = dict(enumerate(ROWS))
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path))
        home.audit.plan_erasure(f"person={BASE + 5}", out=tmp_path / "plan.json")  # t = 2
        home.audit.apply(tmp_path / "plan.json", out=tmp_path / "certificate.json")
        assert home.audit.verify(tmp_path / "certificate.json", values=[str(BASE + 5)]).holds
        del rows[5]
        assert_exact(home, rows)
        values = {row["t"]: row["m"] for row in home.rows("two").to_pylist() if row["g"] == "a"}
        assert values == {1: None, 3: None, 4: 10, 5: 30}
        (run_id,) = [run["run_id"] for run in home.runs().to_pylist()]
        kept = [hop for hop in home._open.reader.hops(run_id) if hop.form == "interval" and hop.from_space.is_step]
        assert kept, "rows of partition b were left as they are"
        for hop in kept:
            known = {row["_rid"] for row in home.rows(hop.from_space.removeprefix("step:")).to_pylist()}
            read = pq.read_table(home.layout.absolute(hop.backward)).column("a").to_pylist()
            assert known >= set(read), "nothing is told of rows that went"
        home.audit.plan_rectification(f"person={BASE + 6}", {"x": "44"}, out=tmp_path / "correction.json")  # t = 4
        home.audit.apply(tmp_path / "correction.json", out=tmp_path / "corrected.json")
        assert_exact(home, rows)
        values = {row["t"]: row["m"] for row in home.rows("running").to_pylist() if row["g"] == "a"}
        assert values == {1: 10, 3: 40, 4: 84, 5: 134}


def test_all_functions_see_one_order_of_chance(spark, tmp_path):
    """Spark evaluates `rand()` in an order once per function; values and lineage must be of one and the same order."""
    pq.write_table(pa.table({"id": list(range(20))}), tmp_path / "t.parquet")
    far = {"l": "lag(id, 2)", "n": "lead(id)"}
    passing = {"l": "lead(id, 2) IGNORE NULLS", "n": "lead(id)"}
    near = {"c": "collect_list(id)"}
    steps = [
        {"name": "far", "order_by": ["rand()"], "measures": far},
        {"name": "passing", "order_by": ["rand(5) desc"], "measures": passing},
        {"name": "near", "order_by": ["rand()"], "measures": near, "frame": "RANGE BETWEEN 0.3 PRECEDING AND CURRENT ROW"},
    ]  # fmt: skip
    body = {
        "version": 1,
        "name": "f",
        "sources": {"t": {"path": "t.parquet"}},
        "outputs": {"far": {}, "passing": {}, "near": {}},
    }
    steps = [{"op": "window", "input": "t", **step} for step in steps]
    (tmp_path / "f.yml").write_text(json.dumps({**body, "steps": steps}), encoding="utf-8")
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "f.yml")
        for step in ("far", "passing", "near"):
            rows = home.rows(step).to_pylist()
            ahead = {row["id"]: row.get("n") for row in rows}
            assert len(ahead) == 20
            pairs = home.backward(step, to="t", all=True, pairs=True).to_pylist()
            for row in rows:
                read = {row["id"], row.get("l"), row.get("n"), *row.get("c", ())} - {None}
                assert {pair["rid"] for pair in pairs if pair["out_rid"] == row["_rid"]} == read
                if step == "passing":
                    assert row["l"] == ahead.get(row["n"])
                elif step == "far" and row["l"] is not None:
                    assert ahead[ahead[row["l"]]] == row["id"]


def test_windows_of_earlier_versions_say_so(tmp_path):
    made = MadeHome(tmp_path / "home")
    rows = pa.table({"x": [1, 2]})
    window = Made(rows, hops={"t": [(0, 0), (1, 1)]}, peers={"t": [(0, 1), (1, 0)]})
    plain = Made(rows, hops={"t": [(0, 0), (1, 1)]})
    run_id = made.run("w", {"t": Made(rows, "source"), "win": window, "plain": plain})
    with made.home as home:
        answer = home.backward("win", to="t", rid=0, pairs=True, roles=True)
        assert [(row["rid"], row["role"]) for row in answer.to_pylist()] == [(0, "own"), (1, "peer")]
        assert any("captured by partition" in note and run_id in note for note in answer.notes)
        assert any("captured by partition" in note for note in home.trace("win", rid=0).notes)
        assert not home.backward("plain", to="t", rid=0).notes


# --- what is read, without Spark --------------------------------------------------------------------------------

START, END, HERE = Point("start"), Point("end"), Point("row")
LAST = Point("last_peer")


def node_of(tmp_path: Path, measures: dict[str, str], **more: object):
    from lineage_service.runs.validation import checked_workflow

    pq.write_table(
        pa.table({"g": ["a"], "t": [1], "x": [1], "s": ["a"], "v": pa.array([[1.0]], pa.list_(pa.float32()))}),
        tmp_path / "t.parquet",
    )
    step = {"name": "w", "op": "window", "input": "t", "partition_by": ["g"], "order_by": ["t"], "measures": measures}
    step = {key: value for key, value in {**step, **more}.items() if value is not None}
    body = {"version": 1, "name": "f", "sources": {"t": {"path": "t.parquet"}}, "steps": [step]}
    (tmp_path / "f.yml").write_text(json.dumps({**body, "outputs": {"w": {}}}), encoding="utf-8")
    return checked_workflow(tmp_path / "f.yml", None, lambda _: None)[1].steps["w"]


@pytest.mark.parametrize(
    ("measures", "more", "wanted"),
    [
        ({"m": "sum(x)"}, {}, [Interval(START, LAST)]),
        ({"m": "sum(x)"}, {"order_by": []}, [Interval(START, END)]),
        ({"m": "sum(x)", "r": "rank()", "n": "row_number()", "l": "lag(x)"}, {}, [Interval(START, LAST)]),
        ({"n": "row_number()"}, {}, [Interval(START, HERE)]),
        ({"r": "rank()"}, {}, [Interval(START, Point("before_peers"))]),
        ({"l": "lag(x, 2)"}, {}, [Interval(Point("row", -2), Point("row", -2))]),
        ({"l": "lag(x)", "n": "lead(x)"}, {}, [Interval(Point("row", -1), Point("row", 1))]),
        ({"l": "lag(x, 2)", "n": "lead(x, 3)"}, {}, [Interval(Point("row", n), Point("row", n)) for n in (-2, 3)]),
        ({"l": "lag(x, -1)"}, {}, [Interval(HERE, Point("row", 1))]),
        ({"l": "lag(x, 0)"}, {}, []),
        ({"m": "sum(x) - lag(x, 1)", "c": "cume_dist()"}, {}, [Interval(START, END)]),
        ({"m": "sum(x)"}, {"frame": "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"}, [Interval(Point("row", -2), HERE)]),
        ({"m": "sum(x)"}, {"frame": "ROWS 2 PRECEDING"}, [Interval(Point("row", -2), HERE)]),
        ({"m": "sum(x)"}, {"frame": "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"}, [Interval(Point("first_peer"), END)]),
        ({"m": "sum(x)", "n": "row_number()"}, {"frame": "ROWS CURRENT ROW"}, [Interval(START, HERE)]),
    ],
)  # fmt: skip
def test_what_measures_read(tmp_path, measures, more, wanted):
    assert list(window_reads(node_of(tmp_path, measures, **more))) == wanted


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("2 PRECEDING", "no frame"),
        ("GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW", "no frame"),
        ("ROWS BETWEEN 2 PRECEDING", "two bounds"),
        ("ROWS BETWEEN 2 AND CURRENT ROW", "no bound of a frame: '2'"),
        ("ROWS BETWEEN x PRECEDING AND CURRENT ROW", "is a constant"),
        ("ROWS BETWEEN 1.5 PRECEDING AND CURRENT ROW", "no whole number"),
        ("ROWS BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW", "no whole number"),
        ("ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW", "cannot begin"),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING", "cannot end"),
        ("ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING", "ends before it begins"),
    ],
)
def test_frames_that_are_none(frame, told):
    with pytest.raises(ExpressionError) as error:
        parse_frame(frame, None)
    assert told in error.value.message


def test_a_comment_is_no_part_of_a_frame():
    assert parse_frame("ROWS 2 PRECEDING -- two", None).text == "ROWS 2 PRECEDING"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"frame": "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "order_by": ["t", "x"]}, "needs one order"),
        (
            {"frame": "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "order_by": ["s"]},
            "needs a number, date or timestamp",
        ),
        ({"frame": "RANGE CURRENT ROW", "order_by": []}, "needs an order"),
        ({"frame": "ROWS BETWEEN 2"}, "two bounds"),
    ],
)
def test_frames_that_spark_would_refuse(tmp_path, more, told):
    from lineage_service.errors import WorkflowError

    with pytest.raises(WorkflowError) as error:
        node_of(tmp_path, {"m": "sum(x)"}, **more)
    (problem,) = [each for each in error.value.problems if told in each.message]
    assert problem.position is not None


def test_frames_that_are_taken(tmp_path):
    for frame in ("ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING", "RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW",
                  "rows between unbounded preceding and 1 + 1 following", "ROWS BETWEEN CURRENT ROW AND 2 PRECEDING"):  # fmt: skip
        node_of(tmp_path, {"m": "sum(x)"}, frame=frame)
    node_of(tmp_path, {"m": "sum(x)"}, frame="ROWS 1 PRECEDING", order_by=[])
    assert not [each for each in validate_workflow(tmp_path / "f.yml", home=tmp_path / "h") if each.severity == "error"]


@pytest.mark.parametrize(
    ("measure", "more", "told"),
    [
        ("measure(x)", {}, "measure() reads a measure of a metric view"),
        ("grouping(g)", {}, "grouping() refers to grouping sets"),
        ("count(DISTINCT x)", {}, "no DISTINCT over a window"),
        ("counter_diff(DISTINCT x)", {}, "no DISTINCT over a window"),
        ("counter_diff(x)", {"order_by": []}, "counter_diff() needs an order"),
        ("median(x)", {}, "no `order_by` beside median()"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", {"order_by": [], "frame": "ROWS 1 PRECEDING"}, "no `frame`"),
        ("listagg(s) WITHIN GROUP (ORDER BY s)", {}, "no `order_by` beside listagg()"),
        ("sum(max(x))", {}, "max() stands inside of sum()"),
        ("lag(row_number())", {}, "row_number() stands inside of lag()"),
        ("lag(x, t)", {}, "lag() takes a constant as its offset, and 't' is none"),
        ("lead(x, - t) IGNORE NULLS", {}, "lead() takes a constant as its offset, and '- t' is none"),
        ("lag(x, 0.5)", {}, "the offset of lag() is a whole number, and '0.5' is none"),
        ("lead(x, NULL)", {}, "the offset of lead() is a whole number, and 'NULL' is none"),
        ("nth_value(x, t)", {}, "nth_value() takes a constant as its offset, and 't' is none"),
        ("ntile(t)", {}, "ntile() takes a constant as its number of groups, and 't' is none"),
    ],
)
def test_measures_that_spark_would_refuse(tmp_path, measure, more, told):
    from lineage_service.errors import WorkflowError

    with pytest.raises(WorkflowError) as error:
        node_of(tmp_path, {"m": measure}, **more)
    (problem,) = error.value.problems
    assert told in problem.message
    assert problem.position is not None


@pytest.mark.parametrize("measure", ["measure(x)", "grouping(g)", "grouping_id()"])
def test_aggregates_that_no_step_takes(tmp_path, measure):
    from lineage_service.errors import WorkflowError

    with pytest.raises(WorkflowError):
        node_of(tmp_path, {"m": measure}, op="aggregate", by=["g"], partition_by=None, order_by=None)


def test_measures_that_are_taken(tmp_path):
    for measure in ("lag(x, -1)", "lag(x, 1 + 1)", "lag(x, length('ab')) IGNORE NULLS", "any(x > 1)", "mode(x)",
                    "sum(x) FILTER (WHERE t > 1)", "nth_value(x, 2)", "ntile(3)", "listagg(s)", "count(*) - lag(x)"):  # fmt: skip
        node_of(tmp_path, {"m": measure})
    node_of(tmp_path, {"m": "median(x)", "n": "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"}, order_by=[])
    node_of(tmp_path, {"m": "vector_sum(v)"}, op="aggregate", by=["g"], partition_by=None, order_by=None)


@pytest.mark.parametrize(
    "value", ["lag(CASE WHEN rand() < 0.5 THEN id END) IGNORE NULLS", "lead(id + randn(), 2, 0) IGNORE NULLS"]
)
def test_rows_passed_over_by_chance_are_refused(tmp_path, value):
    (tmp_path / "t.csv").write_text("id\n1\n")
    flow = {
        "version": 1, "name": "w",
        "sources": {"t": {"path": "t.csv", "schema": "id BIGINT", "options": {"header": True}}},
        "steps": [{"name": "o", "op": "window", "input": "t", "order_by": ["id"], "measures": {"l": value}}],
        "outputs": {"o": {}},
    }  # fmt: skip
    (tmp_path / "w.yml").write_text(json.dumps(flow))
    with pytest.raises(LineageError, match=r"passes over cannot be traced, since randn?\(\)"):
        validate_workflow(tmp_path / "w.yml", home=tmp_path / "home")
