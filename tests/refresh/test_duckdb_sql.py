"""The SQL by which DuckDB computes rows anew: what is translated, to which text and rows, and what is left to Spark."""

from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import yaml

from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.plan.build import build_plan
from lineage_service.plan.nodes import Node
from lineage_service.plan.schema import Column, Schema
from lineage_service.refresh.duckdb_refresh import (
    MEMBERS,
    DuckDbPlan,
    Leaves,
    apply_above_groups,
    group_by_shape,
    group_rows,
    order_terms,
    select_as_spark_types,
)
from lineage_service.spec.loader import load_workflow

TYPES = {
    "a": {"k": "bigint", "v": "int", "p": "decimal(10,2)", "x": "double", "s": "string"},
    "b": {"k": "bigint", "w": "int", "name": "string"},
}
ROWS = {
    "a": "SELECT * FROM (VALUES (0, 1::BIGINT, 2::INT, 1.50::DECIMAL(10,2), 0.5::DOUBLE, 'x'), (1, 1, 3, 2.25, 1.5, 'y'), "
    "(2, 2, 5, NULL, 2.5, 'x')) t(_rid, k, v, p, x, s)",
    "b": "SELECT * FROM (VALUES (0, 1::BIGINT, 7::INT, 'one'), (1, 3, 8, 'three')) t(_rid, k, w, name)",
}


@pytest.fixture
def node_of(tmp_path: Path):
    """The plan of some steps over a and b: its last step."""

    def node(steps: str) -> Node:
        last = yaml.safe_load(steps)[-1]["name"]
        sources = "\n".join(f"  {name}: {{path: {name}.parquet}}" for name in TYPES)
        text = f"version: 1\nname: f\nsources:\n{sources}\nsteps:\n{steps}\noutputs: {{{last}: }}\n"
        (tmp_path / "f.yml").write_text(text, encoding="utf-8")
        schemas = {n: Schema(tuple(Column(c, type=k) for c, k in types.items())) for n, types in TYPES.items()}
        return build_plan(load_workflow(tmp_path / "f.yml"), schemas).steps[last]

    return node


def leaves_of(node: Node) -> Leaves:
    """The sources below a node; each column is read alike by Spark and DuckDB."""
    found = {}
    pending = [node]
    while pending:
        at = pending.pop()
        pending += at.inputs
        if not at.inputs:
            found[at.id] = at.step
    columns = {each: [(name, kind, True) for name, kind in TYPES[step].items()] for each, step in found.items()}
    return Leaves(columns, lambda _, each, names: f"SELECT {', '.join(['_rid', *names])} FROM ({ROWS[found[each]]})")


def rows_of(node: Node) -> list[dict]:
    relation = DuckDbPlan(leaves_of(node)).rows(node)
    return ask(relation.text)


def ask(sql: str) -> list[dict]:
    with duckdb.connect() as connection:
        return connection.sql(sql).to_arrow_table().to_pylist()


def values(rows: list[dict], *names: str) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in rows]


def test_the_text_of_a_filter(node_of):
    node = node_of("- {name: o, op: filter, input: b, where: w > 7 AND name = 'three'}")
    relation = DuckDbPlan(
        Leaves({node.input.id: [("w", "int", True), ("name", "string", True)]}, lambda *_: "ROWS")
    ).rows(node)
    handle = relation.text.partition("_rid AS ")[2].partition(" ")[0]
    leaf = f'SELECT t."w", t."name", t._rid AS {handle} FROM (ROWS) t'
    assert relation.text == f'SELECT t.* FROM ({leaf}) t WHERE ((t."w" > 7) AND (t."name" = \'three\'))'
    assert [each.name for each in relation.columns] == ["w", "name"] and relation.handles == (0,)


TREES = {
    "a filter": ("- {name: o, op: filter, input: a, where: v >= 3}", ("k", "v"), [(1, 3), (2, 5)]),
    "new columns beside the old": (
        "- {name: o, op: with_columns, input: a, columns: {v: v + 1, twice: v * 2}}",
        ("k", "v", "twice"),
        [(1, 3, 4), (1, 4, 6), (2, 6, 10)],
    ),
    "a choice": (
        "- {name: o, op: project, input: a, columns: {big: CASE WHEN v > 2 THEN 1 ELSE 0 END}}",
        ("big",),
        [(0,), (1,), (1,)],
    ),
    "a join by name": ("- {name: o, op: join, left: a, right: b, using: [k]}", ("k", "v", "w"), [(1, 2, 7), (1, 3, 7)]),
    "a join by condition": (
        "- {name: r, op: project, input: b, columns: {id: k, w: w}}\n"
        "- {name: o, op: join, left: a, right: r, on: k = id AND v > 2}",
        ("k", "id", "v", "w"),
        [(1, 1, 3, 7)],
    ),
    "a union": (
        "- {name: one, op: project, input: a, columns: {n: k}}\n- {name: two, op: project, input: b, columns: {n: k}}\n"
        "- {name: o, op: union, inputs: [one, two]}",
        ("n",),
        [(1,), (1,), (1,), (2,), (3,)],
    ),
    "a sort changes no row": ("- {name: o, op: sort, input: b, by: [w desc]}", ("w",), [(7,), (8,)]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "names", "expected"), TREES.values(), ids=TREES)
def test_rows_of_a_tree_without_groups(node_of, steps, names, expected):
    assert sorted(values(rows_of(node_of(steps)), *names)) == expected


def test_each_occurrence_of_a_leaf_has_a_handle(node_of):
    """A row of a union has the row id of its own branch, and none of the other."""
    node = node_of("- {name: o, op: union, inputs: [b, b]}")
    leaves = leaves_of(node)
    relation = DuckDbPlan(leaves).rows(node)
    assert len(leaves.occurrences) == 2 and relation.handles == (0, 1)
    handles = [name for name in ask(relation.text)[0] if name not in TYPES["b"]]
    assert sorted(values(ask(relation.text), *handles), key=str) == [(0, None), (1, None), (None, 0), (None, 1)]


LEFT_TO_SPARK = {
    "a function": "- {name: o, op: filter, input: a, where: length(s) = 1}",
    "chance": "- {name: o, op: filter, input: a, where: v > rand()}",
    "floating-point keys": "- {name: o, op: filter, input: a, where: x = v}",
    "an outer join": "- {name: o, op: join, left: a, right: b, using: [k], how: left}",
    "an explosion": "- {name: o, op: project, input: a, columns: {e: 'explode(array(v))'}}",
    "a union of other types": "- {name: one, op: project, input: a, columns: {n: v}}\n"
    "- {name: two, op: project, input: b, columns: {n: k}}\n- {name: o, op: union, inputs: [one, two]}",
    "a group-by within": "- {name: g, op: aggregate, input: a, by: [k], measures: {n: count(*)}}\n"
    "- {name: o, op: join, left: g, right: b, using: [k]}",
}


@pytest.mark.parametrize("steps", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_what_may_differ_is_left_to_spark(node_of, steps):
    with pytest.raises(NotTranslatable):
        rows_of(node_of(steps))


def test_a_column_that_is_read_differently_is_left_out(node_of):
    node = node_of("- {name: o, op: filter, input: a, where: s = 'x'}")
    leaves = leaves_of(node)
    leaves.columns = {
        key: [(name, kind, name != "s") for name, kind, _ in each] for key, each in leaves.columns.items()
    }
    with pytest.raises(NotTranslatable):
        DuckDbPlan(leaves).rows(node)


def test_a_product_of_too_many_digits_is_left_out(node_of):
    """Spark would round it; nobody can ask for the column then, and other columns stay."""
    node = node_of("- {name: o, op: project, input: a, columns: {k: k, p: p * p, q: p * p * p * p}}")
    relation = DuckDbPlan(leaves_of(node)).rows(node)
    assert [each.name for each in relation.columns] == ["k", "p"]
    assert (relation.find("p").kind.whole, relation.find("p").kind.scale) == (17, 4)


def grouped(node: Node) -> list[dict]:
    leaves = leaves_of(node)
    shape = group_by_shape(node, leaves.columns)
    groups = group_rows(shape.breaker, DuckDbPlan(leaves).rows(shape.tree))
    return ask(apply_above_groups(shape.above, groups).text)


MEASURES = {
    "count(*)": [2, 1],
    "count(p)": [2, 0],
    "count(DISTINCT s)": [2, 1],
    "sum(v)": [5, 5],
    "sum(p)": [Decimal("3.75"), None],
    "min(s)": ["x", "x"],
    "max(v)": [3, 5],
    "avg(v)": [2.5, 5.0],
    "avg(p)": [Decimal("1.875000"), None],
    "sum(x)": [2.0, 2.5],
    "round(sum(p), 1)": [Decimal("3.8"), None],
}


@pytest.mark.parametrize(("measure", "expected"), MEASURES.items())
def test_measures_of_groups(node_of, measure, expected):
    rows = grouped(node_of(f'- {{name: o, op: aggregate, input: a, by: [k], measures: {{m: "{measure}"}}}}'))
    assert [row["m"] for row in sorted(rows, key=lambda row: row["k"])] == expected


@pytest.mark.parametrize(
    "measure", ["stddev(v)", "collect_list(v)", "count(DISTINCT x)", "sum(length(s))", "round(sum(v), k)"]
)
def test_measures_that_are_left_to_spark(node_of, measure):
    node = node_of(f'- {{name: o, op: aggregate, input: a, by: [k], measures: {{m: "{measure}"}}}}')
    with pytest.raises(NotTranslatable):
        grouped(node)


def test_groups_have_their_members_and_what_is_done_above_them(node_of):
    node = node_of("- {name: o, op: aggregate, input: a, by: [k], measures: {n: count(*)}, having: n > 1}")
    (row,) = grouped(node)
    assert (row["k"], row["n"]) == (1, 2)
    assert sorted(rid for member in row[MEMBERS.strip('"')] for rid in member.values()) == [0, 1]


def test_distinct_rows_are_groups_by_all_columns(node_of):
    steps = "- {name: c, op: project, input: a, columns: [s]}\n- {name: o, op: distinct, input: c}"
    assert sorted(values(grouped(node_of(steps)), "s")) == [("x",), ("y",)]


@pytest.mark.parametrize("by", ["[x]", "[]"], ids=["floating-point keys", "one group of all rows"])
def test_groups_that_are_left_to_spark(node_of, by):
    node = node_of(f"- {{name: o, op: aggregate, input: a, by: {by}, measures: {{n: count(*)}}}}")
    with pytest.raises(NotTranslatable):
        grouped(node)


def test_a_dataset_without_groups_has_no_shape_above_a_tree(node_of):
    node = node_of("- {name: o, op: filter, input: a, where: v > 1}")
    shape = group_by_shape(node, {})
    assert shape.above == () and shape.breaker is None and shape.tree is node


def test_the_first_groups_of_an_order(node_of):
    steps = "- {name: g, op: aggregate, input: a, by: [k], measures: {n: count(*)}}\n"
    node = node_of(f"{steps}- {{name: o, op: limit, input: g, n: 1, by: [n desc, k]}}")
    leaves = leaves_of(node)
    shape = group_by_shape(node, leaves.columns)
    assert shape.limit is node
    terms = order_terms(node, group_rows(shape.breaker, DuckDbPlan(leaves).rows(shape.tree)))
    assert terms == [('t."n"', "DESC NULLS LAST"), ('t."k"', "ASC NULLS FIRST")]


def test_columns_get_the_types_that_spark_gave_them(node_of):
    node = node_of("- {name: o, op: filter, input: b, where: w > 0}")
    rows = DuckDbPlan(leaves_of(node)).rows(node)
    text = select_as_spark_types(rows, [("w", "bigint"), ("name", "string")], ", 1 AS more")
    assert text.startswith('SELECT CAST(t."w" AS BIGINT) AS "w", CAST(t."name" AS VARCHAR) AS "name", 1 AS more FROM (')
    with pytest.raises(NotTranslatable):
        select_as_spark_types(rows, [("w", "interval day to second")], "")
