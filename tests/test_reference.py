"""The oracle itself, on examples worked by hand."""

import datetime
import math
from decimal import Decimal

import pytest

from tests.generate import random_plan
from tests.reference import Ambiguous, Map, Unsupported, canonical, evaluate
from tests.reference_expressions import Context, Scope, evaluate_expression

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
