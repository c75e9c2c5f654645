"""Runs as a whole: chance below a breaker, fan-out, several outputs, publishing, capture off, questions."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError, WorkflowError
from tests.support.harness import Flow

ROWS = [{"k": number % 3, "v": number, "s": f"s{number % 5}"} for number in range(60)]
SCHEMA = {"k": "INT", "v": "BIGINT", "s": "STRING"}


def flow(steps: list[dict], outputs: list[str], keep: list[str] | None = None) -> Flow:
    files = [ROWS[:7], [], ROWS[7:50], ROWS[50:]]
    return Flow({"t": SCHEMA, "u": SCHEMA}, {"t": files, "u": [ROWS[:4]]}, steps, outputs, keep or [])


def pairs(home: Home, dataset: str, to: str) -> list[tuple[int, int]]:
    table = home.backward(dataset, to=to, all=True, pairs=True).arrow()
    return list(zip(table.column("out_rid").to_pylist(), table.column("rid").to_pylist(), strict=True))


def test_chance_and_fan_out(spark, tmp_path):
    """What is not deterministic is computed once: counts and values always fit the pairs."""
    steps = [
        {"name": "drawn", "op": "with_columns", "input": "t", "columns": {"r": "floor(rand() * 4)", "x": "rand()"}},
        {"name": "some", "op": "filter", "input": "drawn", "where": "x < 0.7"},
        {"name": "by_chance", "op": "aggregate", "input": "some", "by": ["r"], "measures": {"n": "count(*)", "total": "sum(v)"}},
        {"name": "any_ten", "op": "limit", "input": "t", "n": 10},
        {"name": "of_any", "op": "aggregate", "input": "any_ten", "by": ["k"], "measures": {"n": "count(*)", "total": "sum(v)"}},
        # The same drawn rows on both sides: each row must meet itself, and nothing else.
        {"name": "left_x", "op": "project", "input": "some", "columns": {"v": "v", "x": "x"}},
        {"name": "right_x", "op": "project", "input": "some", "columns": {"v2": "v", "x2": "x"}},
        {"name": "met", "op": "join", "left": "left_x", "right": "right_x", "on": "x = x2"},
        {"name": "keyed", "op": "aggregate", "input": "t", "by": {"g": "floor(rand() * 3)"}, "measures": {"n": "count(*)", "total": "sum(v)"}},
        {"name": "windowed", "op": "window", "input": "some", "partition_by": ["r"], "measures": {"n": "count(*)"}},
        {"name": "lucky", "op": "join", "how": "semi", "left": "some", "right": "some", "on": "left.r = right.r and left.x > right.x"},
        {"name": "rest", "op": "difference", "left": "some", "right": "of_chance"},
        {"name": "of_chance", "op": "filter", "input": "some", "where": "r > 1"},
    ]  # fmt: skip
    outputs = ["by_chance", "of_any", "met", "keyed", "windowed", "lucky", "rest"]
    with Home.open(tmp_path / "home") as home:
        home.run(flow(steps, outputs).write(tmp_path))
        for dataset in ("by_chance", "of_any", "keyed"):
            behind: dict[int, list[int]] = {}
            for out, rid in pairs(home, dataset, "t"):
                behind.setdefault(out, []).append(rid)
            for row in home.rows(dataset).to_pylist():
                assert row["n"] == len(behind[row["_rid"]])
                assert row["total"] == sum(ROWS[rid]["v"] for rid in behind[row["_rid"]])
        met = home.rows("met").to_pylist()
        assert met
        assert all(row["v"] == row["v2"] for row in met)
        assert sorted(pairs(home, "met", "t")) == sorted((row["_rid"], row["v"]) for row in met)
        windowed = home.rows("windowed").to_pylist()
        for row in windowed:
            partition = {other["v"] for other in windowed if other["r"] == row["r"]}
            assert row["n"] == len(partition)
            assert {rid for out, rid in pairs(home, "windowed", "t") if out == row["_rid"]} == partition
        for row in home.rows("lucky").to_pylist():
            found = home.backward("lucky", to="t", rid=row["_rid"], rids=True).arrow().column("_rid").to_pylist()
            smaller = {o["v"] for o in windowed if o["r"] == row["r"] and o["x"] < row["x"]}
            assert set(found) == smaller | {row["v"]}
        assert {row["v"] for row in home.rows("rest").to_pylist()} == {o["v"] for o in windowed if o["r"] <= 1}


def test_outputs_keep_publish_order(spark, tmp_path):
    steps = [
        {"name": "sorted_t", "op": "sort", "input": "t", "by": ["s", "v desc"]},
        {"name": "top", "op": "limit", "input": "sorted_t", "n": 5},
        {"name": "even", "op": "filter", "input": "sorted_t", "where": "v % 2 = 0"},
        {"name": "sums", "op": "aggregate", "input": "even", "by": ["k"], "measures": {"total": "sum(v)"}},
    ]
    file = flow(steps, ["sorted_t", "top", "even"], keep=["sums"]).write(tmp_path)
    body = json.loads(file.read_text())
    body["outputs"]["copy"] = {"step": "even", "path": "out/even"}
    file.write_text(json.dumps(body))
    order = sorted(ROWS, key=lambda row: (row["s"], -row["v"]))
    with Home.open(tmp_path / "home") as home:
        report = home.run(file).to_json()
        assert report["outputs"].keys() == {"sorted_t", "top", "even", "copy"}
        assert report["capture"]["even"]["t"]["pairs"] >= 30
        plain = [{name: row[name] for name in SCHEMA} for row in home.rows("sorted_t").to_pylist()]
        assert plain == order
        assert [row["v"] for row in home.rows("top").to_pylist()] == [row["v"] for row in order[:5]]
        even = [row["v"] for row in order if row["v"] % 2 == 0]
        assert [row["v"] for row in home.rows("even").to_pylist()] == even
        published = pq.read_table(tmp_path / "out" / "even")
        assert published.column_names == ["k", "v", "s"]
        assert published.column("v").to_pylist() == even
        # Outputs that read each other are linked, and so are kept steps.
        assert home.backward("top", to="sorted_t", all=True, pairs=True).arrow().to_pydict() == {
            "out_rid": [0, 1, 2, 3, 4], "rid": [0, 1, 2, 3, 4]}  # fmt: skip
        assert home.forward("t", to="sums", key={"v": 4}).to_pylist()[0]["k"] == 1
        counts = {row["dataset"]: row["rows"] for row in home.backward("copy", rid=0).to_pylist()}
        assert counts == {"flow.t": 1, "flow.sorted_t": 1}
        again = home.run(file).to_json()  # publishing replaces what an earlier run published
        assert again["outputs"] == {**again["outputs"], "copy": {**again["outputs"]["copy"], "rows": 30}}
        assert len(home.runs().to_pylist()) == 2
        old = report["run_id"]
        assert home.rows(f"flow.top@{old[:6]}", rid=0).to_pylist()[0]["v"] == order[0]["v"]


def test_publishing_never_overwrites_what_is_not_ours(spark, tmp_path):
    file = flow([{"name": "out", "op": "distinct", "input": "t"}], ["out"]).write(tmp_path)
    body = json.loads(file.read_text())
    for target, reason in (("data/t", "source 't' is read from there"), ("mine", "did not write")):
        body["outputs"]["out"] = {"path": target}
        file.write_text(json.dumps(body))
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / "letter.txt").write_text("dear")
        with pytest.raises(WorkflowError, match=reason):
            Home.open(tmp_path / "home").run(file)
    assert not list((tmp_path / "home" / "runs").iterdir())


def test_capture_off_gives_the_same_rows_and_no_lineage(spark, tmp_path):
    steps = [
        {"name": "sums", "op": "aggregate", "input": "t", "by": ["k"], "measures": {"n": "count(*)"}, "having": "n > 1"},
        {"name": "ks", "op": "project", "input": "t", "columns": ["k"], "distinct": True},
        {"name": "common", "op": "intersect", "left": "t", "right": "u", "distinct": False},
        {"name": "rest", "op": "difference", "left": "t", "right": "u"},
        {"name": "semi", "op": "join", "how": "semi", "left": "t", "right": "u", "using": ["v"]},
        {"name": "anti", "op": "join", "how": "anti", "left": "t", "right": "u", "using": ["v"]},
        {"name": "ranked", "op": "window", "input": "t", "partition_by": ["k"], "order_by": ["v"], "measures": {"r": "rank()"}},
    ]  # fmt: skip
    outputs = [step["name"] for step in steps]
    file = flow(steps, outputs).write(tmp_path)
    with Home.open(tmp_path / "home") as home:
        captured = home.run(file).run_id
        plain = home.run(file, capture="off").run_id
        for output in outputs:
            rows = [sorted(map(repr, (dict(list(r.items())[1:]) for r in home.rows(f"{output}@{run}").to_pylist())))
                    for run in (captured, plain)]  # fmt: skip
            assert rows[0] == rows[1]
        with pytest.raises(QuestionError, match="capture off"):
            home.backward(f"sums@{plain}", to="t", all=True)
        assert home.backward(f"sums@{captured}", to="t", all=True, count=True).count() == 60


def test_a_strategy_that_does_not_exist_is_refused(spark, tmp_path):
    file = flow([{"name": "out", "op": "distinct", "input": "t"}], ["out"]).write(tmp_path)
    with pytest.raises(WorkflowError, match="unknown capture 'eager'; captures: auto, inject"):
        Home.open(tmp_path / "home").run(file, capture="eager")


def test_questions(spark, tmp_path):
    steps = [
        {"name": "sums", "op": "aggregate", "input": "t", "by": ["k"], "measures": {"n": "count(*)", "total": "sum(v)"}},
        {"name": "gone", "op": "join", "how": "anti", "left": "t", "right": "u", "using": ["v"]},
        {"name": "gone_sums", "op": "aggregate", "input": "gone", "by": ["k"], "measures": {"n": "count(*)"}},
    ]  # fmt: skip
    with Home.open(tmp_path / "home") as home:
        home.run(flow(steps, ["sums", "gone_sums"]).write(tmp_path))
        k1 = home.rows("sums", key={"k": 1}).to_pylist()[0]
        assert home.backward("sums", to="t", key={"k": 1}, count=True).count() == 20
        assert home.backward("sums", to="t", where="k = 1 and n > 3", rids=True).arrow().column(
            "_rid"
        ).to_pylist() == list(range(1, 60, 3))
        limited = home.backward("sums", to="t", rid=k1["_rid"], limit=4, columns=["V"], order_by="v desc")
        assert limited.parts[0].remaining == 16
        assert limited.to_pylist() == [{"_rid": v, "v": v} for v in (58, 55, 52, 49)]
        assert home.forward("t", to="sums", where="v in (1, 2)", rids=True).arrow().num_rows == 2
        both = home.forward("t", to=["sums", "gone_sums"], rid=[5], count=True).to_pylist()
        assert both == [{"dataset": "flow.sums", "count": 1}, {"dataset": "flow.gone_sums", "count": 1}]
        # Absence: never pairs, always said, and shown when asked for.
        absent = home.backward("gone_sums", to="u", all=True, pairs=True)
        assert absent.arrow().num_rows == 0
        assert absent.absence == ["u"]
        assert "absence" in absent.notes[0]
        influence = home.backward("gone_sums", to="u", rid=0, rids=True, influence=True)
        assert influence.arrow().column("_rid").to_pylist() == [0, 1, 2, 3]
        assert home.forward("u", to="gone_sums", rid=2, influence=True, count=True).count() == 3
        with pytest.raises(QuestionError, match="say which rows"):
            home.backward("sums", to="t")
        with pytest.raises(QuestionError, match="not linked"):
            home.backward("sums", to="u", all=True)
        with pytest.raises(QuestionError, match="unknown semantics 'where'; semantics: which, why, how"):
            home.backward("sums", to="t", all=True, semantics="where")


def test_predicates_find_nan(spark, tmp_path):
    """Statistics of Parquet files say nothing of NaN: a scan that trusts them would lose the start of a question."""
    import pyarrow as pa

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"f": [0.0, -0.0, float("nan"), 1.0] * 6}), tmp_path / "data" / "t.parquet")
    body = {"version": 1, "name": "flow", "sources": {"t": {"path": "data/t.parquet"}},
            "steps": [{"name": "out", "op": "distinct", "input": "t"}], "outputs": {"out": {}}}  # fmt: skip
    (tmp_path / "flow.yml").write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "flow.yml")
        for predicate in ("isnan(f)", "f = 'nan'::double", "f > 1", "not (f <= 1)"):
            assert home.forward("t", to="out", where=predicate, count=True).count() == 1, predicate
            assert home.rows("t", where=predicate).arrow().num_rows == 6
        assert home.rows("t", key={"f": "nan"}).arrow().num_rows == 6


def test_what_parquet_cannot_hold_is_refused_before_the_run(spark, tmp_path):
    steps = [
        {"name": "n", "op": "with_columns", "input": "t", "columns": {"z": "make_interval(0, 0, 0, k)"}},
        {"name": "out", "op": "distinct", "input": "n"},
    ]
    with pytest.raises(WorkflowError, match="calendar interval"), Home.open(tmp_path / "home") as home:
        home.run(flow(steps, ["out"]).write(tmp_path))


def test_declarations_are_kept_in_the_catalog(spark, tmp_path):
    file = flow([{"name": "out", "op": "distinct", "input": "t"}], ["out"]).write(tmp_path)
    body = json.loads(file.read_text())
    body["sources"]["t"] |= {"subject": {"person": "k"}, "pii": ["s"], "legal_hold": {"ground": "tax law"}}
    body["privacy"] = {"purpose": "test", "recipients": ["me"]}
    body["lineage"]["workload"] = [{"name": "q", "backward": "out", "to": "t"}]
    file.write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        run = home.run(file).run_id
        declared = {each.name: json.loads(each.declared) for each in home._open.reader.datasets(run)}
        assert declared["t"]["subject"] == {"person": "k"}
        assert declared["t"]["pii"] == ["s"]
        assert declared["t"]["legal_hold"]["ground"] == "tax law"
        (record,) = home._open.reader.runs()
        content = json.loads(home._open.reader.content(record.id))
        assert content["privacy"]["purpose"] == "test"
        assert content["lineage"]["workload"][0]["name"] == "q"


def test_re_execution_on_the_traced_rows(spark, tmp_path):
    """For monotone plans: the workflow over just the rows behind an output row gives that row again."""
    from tests.random_plans.generate import random_plan

    monotone = {"filter", "project", "with_columns", "aggregate", "distinct", "union", "intersect", "explode", "sort"}
    plans = []
    for seed in range(5000, 5400):
        plan = random_plan(seed, size=4)
        fine = all(
            step["op"] in monotone or (step.get("how", "inner") in ("inner", "semi", "cross") and step["op"] == "join")
            for step in plan.steps
        )
        if fine and plan.evaluate()[plan.outputs[0]]:
            plans.append(plan.prefixed(f"p{seed}_"))
        if len(plans) == 5:
            break
    assert len(plans) == 5
    from tests.support.harness import merged_flow, traced_rows

    with Home.open(tmp_path / "home") as home:
        run = home.run(merged_flow(plans, "full").write(_folder(tmp_path, "full"))).run_id
        chosen = {}
        for plan in plans:
            rows = traced_rows(home, plan.outputs[0], list(plan.tables), run)
            chosen[plan.seed] = rows[plan.seed % len(rows)]
            row = chosen[plan.seed]
            for table, files in plan.files.items():
                kept = [r for rid, r in enumerate(r for f in files for r in f) if rid in row.lineage.get(table, ())]
                plan.files[table] = [kept]
        again = home.run(merged_flow(plans, "again").write(_folder(tmp_path, "again"))).run_id
        from tests.support.harness import comparable

        for plan in plans:
            rows = home.rows(f"again.{plan.outputs[0]}@{again}").to_pylist()
            values = [comparable({name: value for name, value in row.items() if name != "_rid"}) for row in rows]
            assert comparable(chosen[plan.seed].values) in values, plan.steps


def _folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name
