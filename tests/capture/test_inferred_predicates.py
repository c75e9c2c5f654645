"""Predicates that a run infers below a group-by: which they are, when they pay; and that rows and pairs are the same."""

from dataclasses import replace
from random import Random

import pytest

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.inferred_predicates import (
    infer_predicates,
    infer_recorded_predicates,
    inferable_predicates,
    with_inferred_predicates,
)
from lineage_service.plan.build import Plan
from lineage_service.plan.column_lineage import column_lineage
from lineage_service.plan.expressions import Expression
from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.nodes import Filter, Join, Source
from lineage_service.plan.plan_rewriting import nodes_below
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.sql_text import whole_file
from tests.oracle.sql_reference import MoreThanOneRow, SqlTable, evaluate_sql
from tests.plan.from_sql.random_queries import judge_query, sources_of

SCHEMAS = {
    "part": {"k": "bigint", "j": "int", "s": "string"},
    "supply": {"k": "bigint", "j": "int", "v": "bigint"},
    "item": {"k": "bigint", "j": "bigint", "q": "bigint", "d": "double"},
}
IN = "k IN (SELECT k FROM part WHERE s = 'a')"
SUM = "v > (SELECT sum(q) FROM item i WHERE i.k = o.k AND i.j = o.j)"
# Conditions over supply o, and the keys of the joins that are inferred.
INFERRED = {
    f"{IN} AND {SUM}": ["i__k"],
    f"{SUM} AND {IN}": ["i__k"],
    f"{SUM} AND EXISTS (SELECT 1 FROM part p WHERE p.k = o.k AND p.s = 'a')": ["i__k"],
    f"o.j IN (SELECT j FROM part WHERE s = 'a') AND {SUM}": ["i__j"],
    f"(k, j) IN (SELECT k, j FROM part WHERE s = 'a') AND {SUM}": ["i__k"],  # of both keys the first
    f"{IN} AND o.j IN (SELECT j FROM part) AND {SUM}": ["i__k", "i__j"],
    f"{IN} AND v > (SELECT sum(q) FROM item i WHERE CAST(i.d AS BIGINT) = o.k)": [],  # its type is not known
    f"{IN} AND v > (SELECT sum(q) FROM (SELECT q, CAST(d AS BIGINT) AS k FROM item) i WHERE i.k = o.k)": ["out__k"],
    f"{IN} AND v = (SELECT count(*) FROM item i WHERE i.k = o.k)": ["i__k"],
    f"{IN} AND v >= (SELECT q FROM item i WHERE i.k = o.k)": ["i__k"],
    f"{IN} AND EXISTS (SELECT 1 FROM item i WHERE i.k = o.k AND i.q < 3)": ["`i__k`"],
    f"{IN} AND NOT EXISTS (SELECT 1 FROM item i WHERE i.k = o.k)": [],  # all of item influences by absence
    f"{IN} AND (v = 1 OR EXISTS (SELECT 1 FROM item i WHERE i.k = o.k))": [],  # likewise
    f"k NOT IN (SELECT k FROM part WHERE s = 'a') AND {SUM}": [],
    f"(v = 1 OR {IN}) AND {SUM}": [],
    f"k + 0 IN (SELECT k FROM part WHERE s = 'a') AND {SUM}": [],  # nothing is known of k
    f"k IN (SELECT k FROM part WHERE rand() < 2) AND {SUM}": [],  # read again, it may be another half
    f"k IN (SELECT max(k) FROM part GROUP BY j) AND {SUM}": [],  # dear to compute twice
    f"o.k < 3 AND o.j IN (1, 2) AND NOT (o.k = 0 OR o.k IS NULL) AND {SUM}": ["i__k", "i__j"],
    f"o.k BETWEEN 1 AND 2 AND o.j IN (SELECT j FROM part WHERE s = 'a') AND {SUM}": ["i__k", "i__j"],
    "o.k > 1 AND EXISTS (SELECT 1 FROM item i WHERE i.k = o.k)": ["`i__k`"],
    "o.k > 1 AND NOT EXISTS (SELECT 1 FROM item i WHERE i.k = o.k)": [],
    f"6 / o.k > 1 AND o.k < o.v AND o.k > '0' AND o.k + 0 > 0 AND {SUM}": [],  # may fail for keys that only item has
    f"(o.k < 3 OR v < 3) AND {SUM}": [],
    f"{IN} AND v > (SELECT sum(q) FROM item i WHERE i.k < o.k)": [],
    f"{IN} AND v > (SELECT sum(q) FROM item i WHERE i.k <=> o.k)": [],  # groups of null too
    f"{IN} AND v > (SELECT sum(q) FROM item i)": [],
}
DERIVED = "SELECT o.v, t.n FROM (SELECT * FROM supply WHERE {}) o {} JOIN (SELECT k, sum(q) AS n FROM item GROUP BY k {}) t ON {}"
FROM_DERIVED = {
    DERIVED.format(IN, "", "", "o.k = t.k"): ["item__k"],
    DERIVED.format(IN, "LEFT", "HAVING sum(q) > 2", "o.k = t.k"): ["item__k"],
    DERIVED.format(IN, "", "", "o.k = t.k").replace("SELECT k, sum", "SELECT CAST(d AS BIGINT) AS k, sum").replace("GROUP BY k", "GROUP BY CAST(d AS BIGINT)"): ["CAST(item__d AS BIGINT)"],
    DERIVED.format(IN, "FULL", "", "o.k = t.k"): [],  # groups that nothing matches are rows
    DERIVED.format(IN, "RIGHT", "", "o.k = t.k"): [],
    DERIVED.format(IN, "", "", "o.k = t.n"): [],
    "WITH t AS (SELECT k, sum(q) AS n FROM item GROUP BY k) SELECT o.v FROM (SELECT * FROM supply WHERE "
    f"{IN}) o JOIN t ON o.k = t.k JOIN t AS u ON o.k > u.k": [],  # others read all groups
}  # fmt: skip


def whole(condition: str) -> str:
    return f"SELECT v, o.k FROM supply o WHERE {condition}"


ALL = {**{whole(condition): keys for condition, keys in INFERRED.items()}, **FROM_DERIVED}


def random_tables(seed: int) -> dict[str, SqlTable]:
    """Keys with nulls and duplicates on every side."""
    random = Random(f"inferred {seed}")
    keys = (None, 0, 1, 2, 3)
    rows = {
        "part": [{"k": random.choice(keys), "j": random.choice(keys), "s": random.choice("ab")} for _ in range(6)],
        "supply": [{"k": random.choice(keys), "j": random.choice(keys), "v": random.randrange(6)} for _ in range(6)],
        "item": [
            {"k": random.choice(keys), "j": random.choice(keys), "q": random.randrange(4), "d": float(random.randrange(4))}
            for _ in range(random.randrange(10))
        ],
    }  # fmt: skip
    return {name: SqlTable(schema, rows[name]) for name, schema in SCHEMAS.items()}


def plan_of(text: str) -> Plan:
    sources = sources_of(random_tables(0))
    node = compile_sql(whole_file(text, "query.sql"), "out", None, sources)
    return Plan("w", sources, {"out": node}, {"out": "out"}, ())


@pytest.mark.parametrize("text", ALL)
def test_what_is_inferred(text):
    assert [str(each.key) for each in inferable_predicates(plan_of(text))] == ALL[text]


@pytest.mark.parametrize("text", [text for text, keys in ALL.items() if keys])
def test_rows_and_pairs_are_the_same(text):
    found = 0
    for seed in range(30):
        tables = random_tables(seed)
        try:
            answer = evaluate_sql(text, tables)
        except MoreThanOneRow:
            continue
        verdict = judge_query(text, tables, answer)
        assert verdict.kind == "equal" and verdict.inferred, (seed, verdict)
        found += bool(answer.rows)
    assert found


@pytest.mark.parametrize("text", [text for text, keys in ALL.items() if keys])
def test_no_column_is_influenced_by_others_than_before(text):
    plan = plan_of(text)
    inferred = with_inferred_predicates(plan, lambda found: found)
    assert inferred is not plan
    before, after = (column_lineage(each.steps["out"]) for each in (plan, inferred))
    for name, column in before.items():
        assert after[name].reads == column.reads and set(after[name].influenced_by) == set(column.influenced_by)
    assert before.keys() == after.keys()


def test_each_part_of_a_plan_stays_one_node():
    plan = with_inferred_predicates(plan_of(whole(f"{IN} AND {SUM}")), lambda found: found)
    nodes = plan.nodes()
    assert len({id(each) for each in nodes}) == len(nodes) == len({id(each) for each in nodes_below(plan.steps["out"])})


def test_rows_of_a_step_are_not_dropped():
    """Everybody may ask how many rows a step has."""
    sources = sources_of(random_tables(0))
    grouped = compile_sql(whole_file("SELECT k, sum(q) AS n FROM item GROUP BY k", "g.sql"), "grouped", None, sources)
    text = f"SELECT o.v, t.n FROM (SELECT * FROM supply WHERE {IN}) o JOIN grouped t ON o.k = t.k"
    node = compile_sql(whole_file(text, "q.sql"), "out", None, {**sources, "grouped": grouped})
    plan = Plan("w", sources, {"grouped": grouped, "out": node}, {"out": "out"}, ())
    assert not list(inferable_predicates(plan))
    assert list(inferable_predicates(replace(plan, steps={"out": node})))


def test_a_column_that_is_called_like_a_keyword():
    """Of a step's filter; columns of queries have names of ours."""
    days = Source("days", "days", None, Schema((Column("date", "date"), Column("v", "bigint"))))
    recent = Filter(
        "recent", "recent", None, days, Expression("date > DATE '2020-01-01' AND `date` < DATE '2021-01-01'")
    )
    text = "SELECT v FROM recent o WHERE v > (SELECT count(*) FROM days d WHERE d.date = o.date)"
    node = compile_sql(whole_file(text, "q.sql"), "out", None, {"recent": recent, "days": days})
    plan = Plan("w", {"days": days}, {"recent": recent, "out": node}, {"out": "out"}, ())
    inferred = with_inferred_predicates(plan, lambda found: found)
    (where,) = (str(each.where) for each in inferred.nodes() if isinstance(each, Filter) and ":where_" in each.id)
    assert "d__date < DATE '2021-01-01'" in where and " date " not in f" {where} "


MANY = Sizes({"part": 200_000, "supply": 800_000, "item": 6_000_000})


@pytest.mark.parametrize(
    ("sizes", "condition", "pays"),
    [
        (MANY, f"{IN} AND {SUM}", True),
        (Sizes(), f"o.k = 3 AND {SUM}", True),
        (MANY, f"k IN (SELECT k FROM part) AND {SUM}", False),  # as far as is known, all that there are
        (Sizes({**MANY.sources, "part": 20_000}), f"k IN (SELECT k FROM part) AND {SUM}", True),
        (Sizes({**MANY.sources, "item": 50_000}), f"{IN} AND {SUM}", False),
        (Sizes({**MANY.sources, "part": 8_000_000}), f"{IN} AND {SUM}", False),
        (Sizes({**MANY.sources, "part": None}), f"{IN} AND {SUM}", False),
        (Sizes({**MANY.sources, "part": 10**8, "item": 10**10}), f"{IN} AND {SUM}", False),  # too many to be broadcast
    ],
)
def test_it_is_inferred_where_few_values_drop_many_rows(sizes, condition, pays):
    plan = plan_of(whole(condition))
    assert (infer_predicates(plan, sizes) is not plan) == pays


def test_a_past_run_has_those_that_it_recorded():
    plan = plan_of(whole(f"{IN} AND {SUM}"))
    ran = {node.id for node in infer_predicates(plan, MANY).nodes()}
    again = infer_recorded_predicates(plan, ran)
    assert {node.id for node in again.nodes()} == ran > {node.id for node in plan.nodes()}
    assert infer_recorded_predicates(plan, {node.id for node in plan.nodes()}) is plan
    (join,) = (node for node in again.nodes() if isinstance(node, Join) and ":in_" in node.id)
    assert str(join.on) == "i__k = inferred_value"
