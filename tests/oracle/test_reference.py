"""The oracle itself, on examples worked by hand."""

import datetime
import math
import re
from decimal import Decimal

import pytest

from tests.oracle.reference import Ambiguous, Map, Unsupported, canonical, evaluate
from tests.oracle.reference_expressions import Context, Scope, evaluate_expression
from tests.random_plans.generate import random_plan

NAN = math.nan


def run(tables: dict, *steps: dict):
    schemas = {name: dict.fromkeys(rows[0], "BIGINT") if rows else {} for name, rows in tables.items()}
    return evaluate(tables, schemas, list(steps))


def ids(**rids):
    return {name: frozenset(values) for name, values in rids.items()}


def value(expression: str, **columns):
    return evaluate_expression(expression, Context(Scope(columns)))


def test_the_papers_example():
    """(2, Bob, iPhone): which = {a1, b1, b2}."""
    tables = {
        "a": [{"cid": 1, "cname": "Bob"}, {"cid": 2, "cname": "Alice"}],
        "b": [
            {"oid": 1, "cid": 1, "pname": "iPhone"},
            {"oid": 2, "cid": 1, "pname": "iPhone"},
            {"oid": 3, "cid": 2, "pname": "XBox"},
        ],
    }
    result = run(
        tables,
        {"name": "j", "op": "join", "left": "a", "right": "b", "using": ["cid"]},
        {
            "name": "out",
            "op": "aggregate",
            "input": "j",
            "by": ["cname", "pname"],
            "measures": {"n": "count(*)"},
        },
    )
    bob, alice = result["out"]
    assert bob.values == {"cname": "Bob", "pname": "iPhone", "n": 2}
    assert bob.lineage == ids(a=[0], b=[0, 1])
    assert bob.steps == ids(j=[0, 1])
    assert alice.values == {"cname": "Alice", "pname": "XBox", "n": 1}
    assert alice.lineage == ids(a=[1], b=[2])
    assert not bob.absence
    assert bob.peers == {}


def test_window_roles_survive_an_aggregate():
    tables = {"t": [{"k": 1, "g": 1}, {"k": 1, "g": 2}, {"k": 2, "g": 1}]}
    result = run(
        tables,
        {"name": "w", "op": "window", "input": "t", "partition_by": ["k"], "measures": {"n": "count(*)"}},
        {"name": "out", "op": "aggregate", "input": "w", "by": ["g"], "measures": {"n": "sum(n)"}},
    )
    first, second = result["out"]
    assert (first.values, first.lineage) == ({"g": 1, "n": 3}, ids(t=[0, 1, 2]))
    assert (first.own, first.peers) == (ids(t=[0, 2]), ids(t=[1]))
    assert (second.own, second.peers) == (ids(t=[1]), ids(t=[0]))


def test_own_wins_over_peer():
    """Row 1 is a peer of row 0 in the window, and its own partner in the join."""
    tables = {"t": [{"k": 1, "v": 1}, {"k": 1, "v": 2}]}
    result = run(
        tables,
        {"name": "w", "op": "window", "input": "t", "partition_by": ["k"], "measures": {"n": "count(*)"}},
        {"name": "p", "op": "project", "input": "t", "columns": {"k": "k", "u": "v"}},
        {"name": "out", "op": "join", "left": "w", "right": "p", "on": "left.k = right.k AND v < u"},
    )
    (row,) = result["out"]
    assert row.lineage == row.own == ids(t=[0, 1])
    assert row.steps == ids(w=[0], p=[1])


def test_absence_is_of_all_sources_below_the_right_side_and_travels_up():
    tables = {"a": [{"k": 1}, {"k": 2}], "b": [{"k": 1}], "c": [{"k": 1}, {"k": 3}]}
    result = run(
        tables,
        {"name": "bc", "op": "union", "inputs": ["b", "c"]},
        {"name": "rest", "op": "difference", "left": "a", "right": "bc"},
        {"name": "out", "op": "project", "input": "rest", "columns": ["k"]},
    )
    (row,) = result["out"]
    assert row.lineage == ids(a=[1])
    assert row.absence == {"b", "c"} == result.absence["out"]
    assert result.absence["bc"] == frozenset()


@pytest.mark.parametrize(("distinct", "copies"), [(True, 1), (False, 2)])
def test_intersect_copies_are_alike(distinct, copies):
    tables = {"a": [{"k": 1}] * 3, "b": [{"k": 1}, {"k": 2}, {"k": 1}]}
    step = {"name": "out", "op": "intersect", "left": "a", "right": "b", "distinct": distinct}
    rows = run(tables, step)["out"]
    assert [row.lineage for row in rows] == [ids(a=[0, 1, 2], b=[0, 2])] * copies


def test_difference_copies_are_alike():
    tables = {"a": [{"k": 1}] * 3, "b": [{"k": 1}]}
    step = {"name": "out", "op": "difference", "left": "a", "right": "b", "distinct": False}
    assert [row.lineage for row in run(tables, step)["out"]] == [ids(a=[0, 1, 2])] * 2


def test_a_name_of_both_sides_is_an_error_only_where_it_is_read():
    tables = {"a": [{"k": 1, "v": 1}], "b": [{"k": 1, "v": 2}]}
    join = {"name": "j", "op": "join", "left": "a", "right": "b", "using": ["k"]}
    result = run(tables, join, {"name": "p", "op": "project", "input": "j", "columns": ["k"]})
    assert result["p"][0].values == {"k": 1}
    assert result.ambiguous["j"] == {"v"}
    for reader in (
        {"op": "filter", "where": "V > 1"},
        {"op": "project", "columns": ["v"]},
        {"op": "distinct"},
    ):
        with pytest.raises(Ambiguous):
            run(tables, join, {"name": "out", "input": "j", **reader})


def test_what_spark_may_choose_is_marked():
    tables = {"t": [{"k": 1, "v": 1}, {"k": 1, "v": 2}, {"k": 2, "v": 3}]}

    def chosen(*steps):
        return run(tables, *steps).nondeterministic

    limit = {"name": "l", "op": "limit", "input": "t", "n": 1}
    after = {"name": "f", "op": "filter", "input": "l", "where": "true"}
    assert chosen(limit, after) == {"l", "f"}
    assert chosen({**limit, "by": ["k"]}) == {"l"}
    assert chosen({**limit, "by": ["k", "v"]}) == set()
    assert chosen({**limit, "n": 2, "by": ["k"]}) == set()
    assert chosen({**limit, "n": 3}) == chosen({**limit, "n": 0}) == set()
    window = {"name": "w", "op": "window", "input": "t", "order_by": ["k"]}
    assert chosen({**window, "measures": {"r": "rank()"}}) == set()
    assert chosen({**window, "measures": {"r": "row_number()"}}) == {"w"}
    assert chosen({**window, "measures": {"r": "lag(v)"}, "partition_by": ["v"]}) == set()
    for measure in ("ntile(2)", "first_value(v)", "last_value(v) IGNORE NULLS", "nth_value(v, 2)", "1 + lead(v)"):
        assert chosen({**window, "measures": {"r": measure}}) == {"w"}
        assert chosen({**window, "measures": {"r": measure}, "order_by": ["k", "v"]}) == set()
    for measure in ("percent_rank()", "cume_dist()", "dense_rank()"):
        assert chosen({**window, "measures": {"r": measure}}) == set()
    total = {**window, "measures": {"r": "sum(v)"}}
    assert chosen({**total, "frame": "ROWS UNBOUNDED PRECEDING"}) == {"w"}
    assert chosen({**total, "frame": "RANGE UNBOUNDED PRECEDING"}) == set()
    assert chosen({**total, "frame": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"}) == set()
    assert chosen({**window, "measures": {"r": "rank()"}, "frame": "ROWS UNBOUNDED PRECEDING"}) == set()


def frames(text: str | None, order: str, keys: list, measure: str = "count(*)") -> list[list[int]]:
    """Per key, the places of the rows that a measure read, together with the row's own."""
    tables = {"t": [{"x": key} for key in keys]}
    step = {"name": "w", "op": "window", "input": "t", "order_by": [order], "measures": {"m": measure}, "frame": text}
    rows = {min(row.own["t"]): sorted(row.lineage["t"]) for row in run(tables, step)["w"]}
    return [rows[i] for i in range(len(keys))]


DAYS = [datetime.date(2023, 12, 31), datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), datetime.date(2024, 3, 30)]


@pytest.mark.parametrize(
    ("frame", "order", "keys", "expected"),
    [
        (None, "x", [1, 2, 2, 3], [[0], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]),
        (None, "x desc", [1, 2, 2, 3], [[0, 1, 2, 3], [1, 2, 3], [1, 2, 3], [3]]),
        (None, "x", [1, None], [[0, 1], [1]]),
        (None, "x desc", [1, None], [[0], [0, 1]]),
        (None, "x nulls last", [1, None], [[0], [0, 1]]),
        (None, "x desc nulls first", [1, None], [[0, 1], [1]]),
        ("ROWS CURRENT ROW", "x", [1, 2], [[0], [1]]),
        ("ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "x", [1, 2, 3], [[0, 1], [0, 1, 2], [1, 2]]),
        ("ROWS BETWEEN 2 PRECEDING AND 2 PRECEDING", "x", [1, 2, 3], [[0], [1], [0, 2]]),
        ("ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", "x", [1, 2, 3, 4], [[0, 2, 3], [1, 3], [2], [3]]),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", "x desc", [1, 2, 3], [[0, 1, 2], [1, 2], [2]]),
        ("RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "x", [1, 2, 2], [[0, 1, 2], [1, 2], [1, 2]]),
        ("RANGE CURRENT ROW", "x", [1, 2, 2], [[0], [1, 2], [1, 2]]),
        ("RANGE 2 PRECEDING", "x", [1, 2, 4], [[0], [0, 1], [1, 2]]),
        ("RANGE 2 PRECEDING", "x desc", [1, 2, 4], [[0, 1], [1, 2], [2]]),
        ("RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "x", [1, 2, 4], [[0, 1], [1, 2], [2]]),
        ("RANGE BETWEEN 9 PRECEDING AND 9 FOLLOWING", "x", [1, None, None], [[0], [1, 2], [1, 2]]),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND 9 FOLLOWING", "x", [1, None, None], [[0, 1, 2], [1, 2], [1, 2]]),
        ("RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", "x", [1, 2, None], [[0, 1], [1], [0, 1, 2]]),
        ("RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", "x nulls last", [1, None], [[0, 1], [1]]),
        ("RANGE 0.5D PRECEDING", "x", [0.25, 0.75, NAN], [[0], [0, 1], [2]]),
        ("RANGE 0.5D PRECEDING", "x desc", [0.25, NAN, NAN], [[0], [1, 2], [1, 2]]),
        ("RANGE CURRENT ROW", "x", [-0.0, 0.0], [[0, 1], [0, 1]]),
        ("RANGE 31 PRECEDING", "x", DAYS, [[0], [0, 1], [1, 2], [2, 3]]),
        ("RANGE INTERVAL 30 DAYS PRECEDING", "x", DAYS, [[0], [1], [1, 2], [2, 3]]),
        ("RANGE INTERVAL '1' MONTH PRECEDING", "x", DAYS, [[0], [0, 1], [1, 2], [2, 3]]),
        ("RANGE INTERVAL '1' MONTH PRECEDING", "x desc", DAYS, [[0, 1], [1, 2], [2], [3]]),
    ],
)
def test_frames(frame, order, keys, expected):
    assert frames(frame, order, keys) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("row_number()", [[0, 2], [0, 1, 2, 3], [2], [0, 2, 3]]),
        ("rank()", [[0, 2], [0, 1, 2, 3], [2], [0, 2, 3]]),
        ("ntile(2)", [[0, 1, 2, 3]] * 4),
        ("percent_rank()", [[0, 1, 2, 3]] * 4),
        ("cume_dist()", [[0, 1, 2, 3]] * 4),
        ("lag(x)", [[0, 2], [1, 3], [2], [0, 3]]),
        ("lag(x, 2)", [[0], [0, 1], [2], [2, 3]]),
        ("lag(x, 0)", [[0], [1], [2], [3]]),
        ("lead(x, 1, 7)", [[0, 3], [1], [0, 2], [1, 3]]),
        ("lag(x) IGNORE NULLS", [[0, 2], [1, 3], [2], [0, 3]]),
        ("lag(nullif(x, 2), 1) IGNORE NULLS", [[0, 2], [1, 3], [2], [0, 2, 3]]),
        ("lead(nullif(x, 4)) IGNORE NULLS", [[0, 3], [1], [0, 2], [1, 3]]),
        ("lag(x, 2) IGNORE NULLS", [[0, 2], [0, 1, 3], [2], [0, 2, 3]]),
        ("x + 1", [[0], [1], [2], [3]]),
        ("sum(x) + lead(x, 2)", [[0, 1], [1], [2, 3], [3]]),
        ("first_value(x)", [[0], [1], [2], [3]]),
    ],
)
def test_what_a_measure_reads(measure, expected):
    """In the order: rows 2, 0, 3, 1. The frame is the row alone."""
    assert frames("ROWS CURRENT ROW", "x", [2, 4, 1, 3], measure) == expected


def test_rank_has_not_read_its_ties():
    for measure in ("rank()", "dense_rank()"):
        assert frames(None, "x", [1, 2, 2, 3], measure) == [[0], [0, 1], [0, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("first_value(x)", [None, None, None, 1, 3]),
        ("last_value(x)", [1, None, None, 3, None]),
        ("first_value(x) IGNORE NULLS", [1, 1, 3, 1, 3]),
        ("last(x, true)", [1, 1, 3, 3, 3]),
        ("nth_value(x, 2)", [1, 1, 3, None, None]),
        ("nth_value(x, 2) IGNORE NULLS", [None, None, None, 3, None]),
        ("collect_list(x)", [[1], [1], [3], [1, 3], [3]]),
        ("count(x)", [1, 1, 1, 2, 1]),
        ("lag(x, 1) IGNORE NULLS", [None, None, 1, 1, 3]),
        ("lead(x, 1, -1) IGNORE NULLS", [1, 3, -1, 3, -1]),
        ("ntile(2)", [1, 1, 2, 1, 2]),
        ("ntile(9)", [1, 2, 4, 3, 5]),
        ("percent_rank()", [0, 0.25, 0.75, 0.5, 1]),
        ("cume_dist()", [0.2, 0.4, 0.8, 0.6, 1]),
        ("dense_rank()", [1, 2, 4, 3, 5]),
    ],
)
def test_window_functions(measure, expected):
    """Over the row and its neighbours, where those are: null, 1, null, 3, null."""
    places = [(1, None), (2, 1), (4, 3), (3, None), (5, None)]
    step = {"name": "w", "op": "window", "input": "t", "order_by": ["d"], "measures": {"m": measure}}
    step["frame"] = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    rows = run({"t": [{"d": d, "x": x} for d, x in places]}, step)["w"]
    found = {row.values["d"]: row.values["m"] for row in rows}
    assert [found[d] for d, _ in places] == expected


@pytest.mark.parametrize(
    ("frame", "order", "measure"),
    [
        ("RANGE 1 PRECEDING", [], "sum(x)"),
        ("RANGE 1 PRECEDING", ["x", "y"], "sum(x)"),
        ("ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING", ["x"], "sum(x)"),
        ("ROWS BETWEEN CURRENT ROW AND 1 PRECEDING", ["x"], "sum(x)"),
        ("ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW", ["x"], "sum(x)"),
        (None, [], "row_number()"),
        (None, [], "lag(x)"),
        (None, [], "nth_value(x, 1)"),
        (None, ["x"], "sum(x) IGNORE NULLS"),
    ],
)
def test_windows_that_spark_refuses(frame, order, measure):
    step = {"name": "w", "op": "window", "input": "t", "order_by": order, "measures": {"m": measure}, "frame": frame}
    with pytest.raises(Unsupported):
        run({"t": [{"x": 1, "y": 1}]}, step)


def test_what_a_peer_rests_on_is_read_too():
    tables = {"a": [{"d": 1}, {"d": 3}], "b": [{"d": 3}], "c": [{"d": 2}]}
    result = run(
        tables,
        {"name": "rest", "op": "difference", "left": "a", "right": "b"},
        {"name": "u", "op": "union", "inputs": ["rest", "c"]},
        {"name": "w", "op": "window", "input": "u", "order_by": ["d"], "measures": {"p": "lag(d)"}},
        {"name": "out", "op": "window", "input": "w", "order_by": ["d"], "measures": {"n": "lead(p)"}},
    )
    first, second = result["out"]
    assert first.lineage == ids(a=[0], c=[0])
    assert (first.own, second.own) == (ids(a=[0]), ids(c=[0]))
    assert second.lineage == ids(a=[0], c=[0])
    assert first.absence == second.absence == {"b"}
    assert (first.steps["w"], second.steps["w"]) == ({0, 1}, {1})
    assert (first.how, second.how) == ({(("a", 0),): 1}, {(("c", 0),): 1})


def test_order_is_known_where_there_is_one():
    tables = {"t": [{"k": 2}, {"k": None}, {"k": 1}]}
    result = run(
        tables,
        {"name": "s", "op": "sort", "input": "t", "by": ["k"]},
        {"name": "f", "op": "filter", "input": "s", "where": "coalesce(k, 0) < 2"},
        {"name": "d", "op": "distinct", "input": "s"},
    )
    assert result.ordered == {"s", "f"}
    assert [row.values["k"] for row in result["s"]] == [None, 1, 2]
    assert [row.values["k"] for row in result["f"]] == [None, 1]


def test_using_columns_come_first_and_from_the_side_that_has_them():
    tables = {"a": [{"v": 1, "k": 1}, {"v": 2, "k": None}], "b": [{"w": 3, "k": 9}]}
    step = {"name": "out", "op": "join", "left": "a", "right": "b", "using": ["k"], "how": "full"}
    result = run(tables, step)
    assert result.columns["out"] == ["k", "v", "w"]
    assert [tuple(row.values.values()) for row in result["out"]] == [
        (1, 1, None),
        (None, 2, None),
        (9, None, 3),
    ]
    assert [row.lineage for row in result["out"]] == [ids(a=[0]), ids(a=[1]), ids(b=[0])]


def test_group_keys_are_shown_as_spark_shows_them():
    tables = {"t": [{"x": -0.0}, {"x": 0.0}, {"x": NAN}, {"x": NAN}]}
    rows = run(tables, {"name": "out", "op": "distinct", "input": "t"})["out"]
    assert math.copysign(1, rows[0].values["x"]) == 1
    assert [row.lineage for row in rows] == [ids(t=[0, 1]), ids(t=[2, 3])]


def test_canonical_values():
    assert canonical([None, "a"]) != canonical(["a", None])
    assert canonical({"p": -0.0, "q": NAN}) == canonical({"p": 0, "q": NAN})
    assert canonical(Map(a=1, b=2)) == canonical(Map(b=2, a=1))
    assert canonical(1) == canonical(1.0) == canonical(Decimal("1.00"))
    assert canonical(True) != canonical(1)
    assert canonical([]) != canonical(None) != canonical([None])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 / 2", 3.5),
        ("-7 % 3", -1),
        ("1 + 1.5", Decimal("2.5")),
        ("x + 1", None),
        ("x = x", None),
        ("x <=> null", True),
        ("x IS NULL AND y IS NOT NULL", True),
        ("x > 1 OR true", True),
        ("x > 1 AND false", False),
        ("NOT x > 1", None),
        ("1 IN (2, null)", None),
        ("1 IN (1, null)", True),
        ("1 NOT IN (2)", True),
        ("y BETWEEN 1 AND x", None),
        ("y BETWEEN 10 AND x", False),
        ("nan = nan", True),
        ("nan > 1000", True),
        ("CASE WHEN x > 1 THEN 1 WHEN y = 5 THEN 2 END", 2),
        ("CASE y WHEN 4 THEN 'a' ELSE 'b' END", "b"),
        ("if(x > 1, 'a', 'b')", "b"),
        ("coalesce(x, y)", 5),
        ("nullif(y, 5)", None),
        ("cast(2.75D as int)", 2),
        ("cast(y as string)", "5"),
        ("cast(1D as string)", "1.0"),
        ("cast('2020-03-01' as date)", datetime.date(2020, 3, 1)),
        ("year(DATE '2020-03-01') + month(DATE '2020-03-01')", 2023),
        ("concat(s, '-', y)", "Abc-5"),
        ("concat(s, x)", None),
        ("upper(s) || lower(s)", "ABCabc"),
        ("length(s)", 3),
        ("s LIKE 'A_c'", True),
        ("s LIKE 'b%'", False),
        ("size(array(1, null))", 2),
        ("named_struct('a', 1, 'b', x).a", 1),
        ("st.A", 8),
        ("abs(-y)", 5),
        ("sqrt(16)", 4.0),
        ("struct(y, x) = struct(y, x)", True),
        ("`my col` + Y", 12),
    ],
)
def test_expressions(expression, expected):
    columns = {"x": None, "y": 5, "nan": NAN, "s": "Abc", "st": {"a": 8}, "my col": 7}
    assert value(expression, **columns) == expected


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "1 % 0", "cast('x' as int)", "cast(3000000000 as int)", "9223372036854775807 + 1", "rand()", "z"],
)
def test_what_spark_refuses_or_the_oracle_does_not_know(expression):
    with pytest.raises(Unsupported):
        value(expression, x=1)


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_are_functions_of_their_seed_and_determined(seed):
    plan = random_plan(seed)
    assert repr(plan) == repr(random_plan(seed))
    files = {name: [row for file in parts for row in file] for name, parts in plan.files.items()}
    assert repr(files) == repr(plan.tables)
    result = plan.evaluate()
    assert not result.nondeterministic
    assert not any(result.ambiguous[name] for name in plan.outputs + plan.keep)
    renamed = plan.prefixed("p7_")
    other = renamed.evaluate()
    for name in plan.outputs:
        lineage = [{f"p7_{source}": rids for source, rids in row.lineage.items()} for row in result[name]]
        assert [row.lineage for row in other[f"p7_{name}"]] == lineage


def test_random_plans_have_windows_of_all_kinds():
    steps = [step for seed in range(150) for step in random_plan(seed).steps if step["op"] == "window"]
    assert {step.get("frame", "no frame").split()[0].upper() for step in steps} == {"ROWS", "RANGE", "NO"}
    assert any(re.match(r"RANGE .*\d", step.get("frame", "")) for step in steps)
    measures = [text for step in steps for text in step["measures"].values()]
    for function in ("sum(", "row_number(", "rank(", "dense_rank(", "ntile(", "percent_rank(", "cume_dist("):
        assert any(function in text for text in measures), function
    for function in ("lag(", "lead(", "first_value(", "last_value(", "nth_value(", "IGNORE NULLS"):
        assert any(function in text for text in measures), function
