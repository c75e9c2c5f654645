"""Witnesses, polynomials and their evaluations: over workflows that others will ask for, each row against the oracle."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, QuestionError
from tests.oracle.reference import evaluate
from tests.support.harness import Flow
from tests.support.judging import same_ways
from tests.support.strategies import where_sound

SCHEMAS = {
    "customers": {"cid": "BIGINT", "cname": "STRING"},
    "orders": {"oid": "BIGINT", "cid": "BIGINT", "pname": "STRING", "tags": "ARRAY<STRING>"},
}
ROWS = {
    "customers": [{"cid": 1, "cname": "Bob"}, {"cid": 2, "cname": "Alice"}, {"cid": 3, "cname": "Bob"}],
    "orders": [
        {"oid": 1, "cid": 1, "pname": "iPhone", "tags": ["x", "x"]},
        {"oid": 2, "cid": 1, "pname": "iPhone", "tags": ["x", "y"]},
        {"oid": 3, "cid": 2, "pname": "XBox", "tags": []},
        {"oid": 4, "cid": 9, "pname": "XBox", "tags": ["y"]},
    ],
}
STEPS = [
    # The paper's example.
    {"name": "sold", "op": "join", "left": "customers", "right": "orders", "using": ["cid"]},
    {"name": "counted", "op": "aggregate", "input": "sold", "by": ["cname", "pname"], "measures": {"n": "count(*)"}},
    # A table with itself; overlapping branches; distinct over a join.
    {"name": "other", "op": "project", "input": "orders", "columns": {"oid2": "oid", "cid": "cid"}},
    {"name": "twice", "op": "join", "left": "orders", "right": "other", "using": ["cid"]},
    {"name": "pairs", "op": "aggregate", "input": "twice", "by": ["cid"], "measures": {"n": "count(*)"}},
    {"name": "early", "op": "filter", "input": "orders", "where": "oid <= 3"},
    {"name": "late", "op": "filter", "input": "orders", "where": "oid >= 2"},
    {"name": "both", "op": "union", "inputs": ["early", "late"]},
    {"name": "products", "op": "aggregate", "input": "both", "by": ["pname"], "measures": {"n": "count(*)"}},
    {"name": "names", "op": "project", "input": "sold", "columns": ["pname"], "distinct": True},
    # Nested aggregates, and an aggregate over a join of aggregates.
    {"name": "per_name", "op": "aggregate", "input": "counted", "by": ["cname"], "measures": {"n": "sum(n)"}},
    {"name": "per_product", "op": "aggregate", "input": "orders", "by": ["pname"], "measures": {"m": "count(*)"}},
    {"name": "compared", "op": "join", "left": "counted", "right": "per_product", "using": ["pname"]},
    {"name": "summed", "op": "aggregate", "input": "compared", "by": ["cname"], "measures": {"n": "sum(n * m)"}},
    {"name": "total", "op": "aggregate", "input": "summed", "by": [], "measures": {"n": "sum(n)"}},
    # Explode; semi; intersect, also of a table with itself; outer joins.
    {"name": "tagged", "op": "explode", "input": "orders", "column": "tags", "as": "tag"},
    {"name": "tags", "op": "aggregate", "input": "tagged", "by": ["tag"], "measures": {"n": "count(*)"}},
    {"name": "buyers", "op": "join", "how": "semi", "left": "customers", "right": "orders", "using": ["cid"]},
    {"name": "buyer_names", "op": "project", "input": "buyers", "columns": ["cname"], "distinct": True},
    {"name": "known", "op": "project", "input": "customers", "columns": ["cid"]},
    {"name": "seen", "op": "project", "input": "orders", "columns": ["cid"]},
    {"name": "common", "op": "intersect", "left": "known", "right": "seen"},
    {"name": "early_ids", "op": "project", "input": "early", "columns": ["cid"]},
    {"name": "late_ids", "op": "project", "input": "late", "columns": ["cid"]},
    {"name": "same", "op": "intersect", "left": "early_ids", "right": "late_ids"},
    {"name": "maybe", "op": "join", "how": "left", "left": "customers", "right": "orders", "using": ["cid"]},
    # What is told in part only, and what decides by measures.
    {"name": "gone", "op": "difference", "left": "known", "right": "seen"},
    {"name": "ranked", "op": "window", "input": "orders", "partition_by": ["cid"], "measures": {"n": "count(*)"}},
    {"name": "often", "op": "filter", "input": "pairs", "where": "n > 1"},
    {"name": "maybes", "op": "aggregate", "input": "maybe", "by": ["cname"], "measures": {"n": "count(*)"}},
]  # fmt: skip
OUTPUTS = ["counted", "pairs", "products", "names", "per_name", "summed", "total", "tags", "buyers", "buyer_names",
           "common", "same", "maybe", "gone", "ranked", "often", "maybes"]  # fmt: skip
SURE = {  # what tells a row of an output, where the ways tell what it survives
    "counted": ["cname", "pname"], "pairs": ["cid"], "products": ["pname"], "names": ["pname"], "per_name": ["cname"],
    "summed": ["cname"], "total": [], "tags": ["tag"], "buyers": ["cid", "cname"], "buyer_names": ["cname"],
    "common": ["cid"], "same": ["cid"],
}  # fmt: skip


def flow(outputs=OUTPUTS, keep=("sold",)) -> Flow:
    return Flow(SCHEMAS, {name: [rows[:2], rows[2:]] for name, rows in ROWS.items()}, STEPS, list(outputs), list(keep))


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("semantics")
    with Home.open(folder / "home") as opened:
        opened.run(flow().write(folder))
        yield opened


def how(home: Home, dataset: str, **start) -> list[str]:
    start = start or {"all": True}
    return [row["how"] for row in home.backward(dataset, semantics="how", **start).to_pylist()]


def test_the_example_of_the_paper(home):
    bob = {"cname": "Bob", "pname": "iPhone"}
    assert home.backward("counted", key=bob, to="customers", rids=True).to_pylist() == [{"_rid": 0}]
    assert home.backward("counted", key=bob, to="orders", rids=True).to_pylist() == [{"_rid": 0}, {"_rid": 1}]
    (row,) = home.rows("counted", key=bob).to_pylist()
    assert home.backward("counted", key=bob, semantics="why").to_pylist() == [
        {"out_rid": row["_rid"], "witness": "(customers[0], orders[0])", "customers": [0], "orders": [0]},
        {"out_rid": row["_rid"], "witness": "(customers[0], orders[1])", "customers": [0], "orders": [1]},
    ]
    (found,) = home.backward("counted", key=bob, semantics="how").to_pylist()
    assert found["how"] == "customers[0]·(orders[0] + orders[1])"
    assert json.loads(found["polynomial"]) == {
        "product": [{"row": ["customers", 0]}, {"sum": [{"row": ["orders", 0]}, {"row": ["orders", 1]}]}]
    }


def test_texts_are_short(home):
    assert sorted(how(home, "pairs")) == [
        "orders[0]·(orders[0] + 2·orders[1]) + orders[1]²",
        "orders[2]²",
        "orders[3]²",
    ]
    assert sorted(how(home, "products")) == ["2·orders[2] + orders[3]", "orders[0] + 2·orders[1]"]
    assert sorted(how(home, "tags")) == ["2·orders[0] + orders[1]", "orders[1] + orders[3]"]
    assert sorted(how(home, "common")) == ["customers[0]·(orders[0] + orders[1])", "customers[1]·orders[2]"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_row_has_the_ways_of_the_oracle(home, output):
    oracle = evaluate(ROWS, SCHEMAS, STEPS)
    assert same_ways(home, output, home.rows(output).arrow(), oracle[output]) == ""


@pytest.mark.parametrize("output", SURE)
def test_the_loss_of_each_row(home, output):
    """Predicted for every single row of the sources; the oracle evaluates all steps anew without it."""
    keys = SURE[output]
    rows = {row["_rid"]: tuple(row[name] for name in keys) for row in home.rows(output).to_pylist()}
    behind = home.backward(output, all=True).arrow().column("dataset").to_pylist()
    linked = {source: inputs for source, inputs in ROWS.items() if f"flow.{source}" in behind}
    assert rows and linked
    for source, inputs in linked.items():
        for rid in range(len(inputs)):
            after = evaluate(ROWS, SCHEMAS, STEPS, frozenset([(source, rid)]))[output]
            left = {tuple(row.values[name] for name in keys) for row in after}
            told = home.backward(output, all=True, semantics="how", evaluate="boolean", without={source: rid})
            assert {row["out_rid"]: row["survives"] for row in told.to_pylist()} == {
                out: key in left for out, key in rows.items()
            }, f"{output} without {source}[{rid}]"


def test_the_loss_of_rows_by_running_again(home, spark, tmp_path):
    """The same for a few rows, with files that really lack them."""
    lacking = {name: list(rows) for name, rows in ROWS.items()}
    lacking["orders"] = [row for row in lacking["orders"] if row["oid"] not in (1, 3)]
    again = Flow(SCHEMAS, {name: [rows] for name, rows in lacking.items()}, STEPS, list(SURE))
    with Home.open(tmp_path / "home") as other:
        other.run(again.write(tmp_path), capture="off")
        for output, keys in SURE.items():
            left = {tuple(row[name] for name in keys) for row in other.rows(output).to_pylist()}
            told = home.backward(
                output, all=True, semantics="how", evaluate="boolean", without={"orders": "oid IN (1, 3)"}
            )
            survivors = {row["out_rid"] for row in told.to_pylist() if row["survives"]}
            rows = home.rows(output).to_pylist()
            assert {row["_rid"] for row in rows if tuple(row[name] for name in keys) in left} == survivors, output


@pytest.mark.parametrize(
    ("output", "reason"),
    [("often", "decides by 'n'"), ("maybes", "returns rows that have no match, which may appear when others are lost")],
)
def test_what_ways_do_not_tell_is_refused(home, output, reason):
    with pytest.raises(QuestionError, match=reason):
        home.backward(output, all=True, semantics="how", evaluate="boolean", without={"orders": 0})


def test_rows_that_only_influence_can_be_gone(home):
    told = home.backward("gone", all=True, semantics="how", evaluate="boolean", without={"orders": [0]})
    assert [row["survives"] for row in told.to_pylist()] == [True]
    assert "only its left side is included" in told.notes[0]
    told = home.backward("gone", all=True, semantics="how", to="orders")
    assert told.absence == ["orders"]


def test_windows_tell_the_row_itself(home):
    answer = home.backward("ranked", all=True, semantics="how")
    assert sorted(row["how"] for row in answer.to_pylist()) == [f"orders[{rid}]" for rid in range(4)]
    assert "is a window" in answer.notes[0]


def test_costs_and_trust(home):
    bob = {"cname": "Bob", "pname": "iPhone"}

    def value(**options):
        (row,) = home.backward("counted", key=bob, semantics="how", **options).to_pylist()
        return row

    assert value(evaluate="count")["count"] == 2
    assert value(evaluate="min-cost")["min_cost"] == 2  # the fewest rows
    assert value(evaluate="min-cost", cost={"orders": "oid * 10", "customers": 1})["min_cost"] == 11
    assert value(evaluate="trust", trust={"orders": "1.0 / (oid + 1)"})["trust"] == 0.5
    assert value(evaluate="trust", trust={"orders": "1", "customers": 0.25})["trust"] == 0.25
    with pytest.raises(QuestionError, match="not between 0 and 1"):
        value(evaluate="trust", trust={"orders": "oid"})
    with pytest.raises(QuestionError, match="null or NaN"):
        value(evaluate="min-cost", cost={"orders": "NULLIF(oid, 1)"})
    with pytest.raises(QuestionError, match="unknown column 'oidd'"):
        value(evaluate="min-cost", cost={"orders": "oidd"})


def test_down_to_what_is_asked_for(home):
    bob = {"cname": "Bob", "pname": "iPhone"}
    assert how(home, "counted", key=bob, to="orders") == ["orders[0] + orders[1]"]
    assert how(home, "counted", key=bob, to="customers") == ["2·customers[0]"]
    (kept,) = how(home, "counted", key=bob, to="sold")
    assert kept.count("sold[") == 2
    why = home.backward("counted", key=bob, to="customers", semantics="why").to_pylist()
    assert [row["customers"] for row in why] == [[0]]


def test_bad_questions(home):
    for options, message in [
        ({"semantics": "how", "pairs": True}, "'pairs' goes with semantics which"),
        ({"semantics": "why", "evaluate": "count"}, "goes with semantics how"),
        ({"semantics": "how", "evaluate": "counts"}, "unknown evaluation 'counts'.*\n.*did you mean 'count'"),
        ({"semantics": "how", "evaluate": "boolean"}, "say which rows are gone"),
        ({"semantics": "how", "without": {"orders": 1}}, "goes with the evaluation boolean"),
        ({"semantics": "how", "evaluate": "boolean", "without": {"orders": 99}}, "no row 99"),
        ({"semantics": "how", "evaluate": "boolean", "without": {"order": 1}}, "none of the datasets .*\n.*'orders'"),
        ({"semantics": "how", "to": "nothing"}, "no dataset 'nothing'"),
        ({"semantics": "how", "to": "tags"}, "not linked"),
        ({"semantics": "how", "columns": ["hwo"]}, "unknown column 'hwo'"),
    ]:
        with pytest.raises(LineageError, match=message):
            home.backward("counted", all=True, **options)


def test_limits(home, monkeypatch):
    answer = home.backward("counted", all=True, semantics="why", limit=1)
    assert (answer.arrow().num_rows, answer.parts[0].remaining) == (1, 2)
    answer = home.backward("counted", all=True, semantics="how", limit=1)
    assert (answer.arrow().num_rows, answer.parts[0].remaining) == (1, 1)
    monkeypatch.setattr("lineage_service.query.semantics.explanations.MOST_WITNESSES", 2)
    with pytest.raises(QuestionError, match="more than 2 witnesses"):
        home.backward("total", all=True, semantics="why")
    monkeypatch.setattr("lineage_service.query.semantics.derivations.MOST_MEMBERS", 3)
    with pytest.raises(QuestionError, match="more than 3 rows are behind"):
        home.backward("total", all=True, semantics="how")


def test_what_is_only_captured_when_asked_for(spark, tmp_path):
    outputs = ["per_name", "summed", "total", "buyers", "same"]
    oracle = evaluate(ROWS, SCHEMAS, STEPS)
    with Home.open(tmp_path / "home") as home, where_sound():
        home.run(flow(outputs, ()).write(tmp_path), capture="lazy")
        for output in outputs:
            assert same_ways(home, output, home.rows(output).arrow(), oracle[output]) == ""


def test_over_workflows_and_workloads(spark, tmp_path):
    """Polynomials go on through another workflow's output; what a workload prunes is refused with the line to add."""
    pq.write_table(pa.table({"cid": [1, 2], "cname": ["Bob", "Alice"]}), tmp_path / "customers.parquet")
    bought = {"oid": [1, 2, 3], "cid": [1, 1, 2], "pname": ["iPhone", "iPhone", "XBox"]}
    pq.write_table(pa.table(bought), tmp_path / "orders.parquet")

    def write(name: str, sources: dict, steps: list, outputs: list, workload=()) -> None:
        body = {"version": 1, "name": name, "sources": sources, "steps": steps,
                "outputs": {each: {} for each in outputs}, "lineage": {"workload": list(workload)}}  # fmt: skip
        (tmp_path / f"{name}.yml").write_text(json.dumps(body))

    files = {name: {"path": f"{name}.parquet"} for name in ("customers", "orders")}
    steps = [STEPS[0], STEPS[1]]
    write("first", files, steps, ["counted"])
    per_name = {"name": "per_name", "op": "aggregate", "input": "sales", "by": ["who"], "measures": {"m": "sum(n)"}}
    big = {"name": "big", "op": "filter", "input": "sales", "where": "n > 1"}
    sales = {"sales": {"output": "first.counted", "rename": {"cname": "who"}}}
    write("second", sales, [per_name, big], ["per_name", "big"])
    plain = {"name": "rows", "backward": "counted", "to": "orders"}
    write("third", files, steps, ["counted"], [plain])
    why = {"name": "ways", "backward": "counted", "to": ["customers", "orders"], "semantics": "how"}
    write("fourth", files, steps, ["counted"], [plain, why])
    with Home.open(tmp_path / "home") as home:
        for name in ("first", "second", "third", "fourth"):
            home.run(tmp_path / f"{name}.yml")
        bob = {"who": "Bob"}
        assert how(home, "per_name", key=bob) == ["customers[0]·(orders[0] + orders[1])"]
        assert how(home, "per_name", key=bob, to="sales")[0].startswith("sales[")
        told = home.backward("per_name", all=True, semantics="how", evaluate="boolean", without={"orders": [0, 2]})
        assert sorted(row["survives"] for row in told.to_pylist()) == [False, True]
        with pytest.raises(QuestionError, match="step 'big' decides by 'n'"):
            home.backward("big", all=True, semantics="how", evaluate="boolean", without={"orders": 0})
        with pytest.raises(QuestionError, match=r"pruned in run .*\n.*semantics: how\}"):
            home.backward("third.counted", all=True, semantics="how")
        assert how(home, "fourth.counted", key={"cname": "Bob"}) == ["customers[0]·(orders[0] + orders[1])"]
        home.query("SELECT cname, n FROM first.counted", save="kept")
        with pytest.raises(QuestionError, match="saved query 'kept'"):
            home.backward("kept", all=True, semantics="why")


def test_costs_of_a_version_that_was_made_by_removing_rows(spark, tmp_path):
    """Its rids are not positions: the last rows have larger ones than it has rows."""
    pq.write_table(pa.table({"n": [10, 11, 12]}), tmp_path / "x.parquet")
    for name in "ab":
        step = {"name": "o", "op": "filter", "input": "s", "where": "n > 0"}
        content = {"version": 1, "name": name, "sources": {"s": {"path": "x.parquet"}}, "steps": [step]}
        (tmp_path / f"{name}.yml").write_text(json.dumps({**content, "outputs": {"o": {}}}))
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "a.yml")
        home.run(tmp_path / "b.yml")
        less = f"a.s@{home.refresh('a.s', removed=[0]).run_id}"
        costs = home.backward("b.o", all=True, semantics="how", to=less, evaluate="min-cost", cost={less: "n"})
        assert sorted(row["min_cost"] for row in costs.to_pylist()) == [0, 11, 12]
