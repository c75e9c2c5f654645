"""Queries as steps, `explain --as-steps`: golden text, and the same rows and lineage as the plan that they are made of.

SMOKE_SQL_PLANS=20000 tries as many random queries, from SMOKE_SEED on.
"""

import os
from collections import Counter
from dataclasses import fields
from typing import get_args

import pytest

from lineage_service.errors import NotFound
from lineage_service.plan import nodes
from lineage_service.plan.as_steps import compiled_steps, has_steps, steps_of_query
from lineage_service.plan.build import build_plan
from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.nodes import Node, PlanError, Source, Window, keeps_order
from lineage_service.plan.schema import Column, Schema
from lineage_service.render.yaml_text import yaml_text
from lineage_service.runs.validation import checked_workflow
from lineage_service.runs.workflow_file import workflow_as_steps
from lineage_service.spec.loader import load_workflow
from lineage_service.spec.sql_text import whole_file
from lineage_service.spec.variables import literal_text
from lineage_service.spec.yaml_tree import parse_tree
from tests.end_to_end.test_cases import case_plan
from tests.oracle.plan_reference import evaluate_plan
from tests.oracle.reference import Ambiguous
from tests.oracle.reference_values import Unsupported
from tests.oracle.sql_reference import SqlTable
from tests.oracle.test_reference_cases import load
from tests.plan.from_sql.plan_printing import TABLES, compiled
from tests.plan.from_sql.random_queries import difference, fingerprint, sources_of
from tests.plan.from_sql.test_compiled_plans import PLANS, nodes_below
from tests.random_plans.generate_sql import generate_answered_sql
from tests.support.harness import merged_flow
from tests.support.paths import CASES

CASES_OF_SQL = sorted((CASES / "sql").glob("*.yml"))
TRIED = int(os.environ.get("SMOKE_SQL_PLANS", "100"))
FIRST = int(os.environ.get("SMOKE_SEED", "0"))


def flow_of(node: Node, tables, query: str = "") -> dict:
    steps = compiled_steps([{"name": "out", "op": "sql", "query": query}], {"out": node, **tables}, literal_text)
    read = {name for each in nodes_below(node) if isinstance(each, Source) for name in [each.id]}
    sources = {name: {"path": f"{name}.parquet"} for name in sorted(read)}
    return {"version": 1, "name": "w", "sources": sources, "steps": steps, "outputs": {"out": {}}}


def plan_of(flow: dict, tables, folder) -> Node:
    """The plan of the printed workflow, read as a file."""
    text = yaml_text(flow)
    assert parse_tree(text, "w.yml").value == flow
    path = folder / "w.yml"
    path.write_text(text, encoding="utf-8")
    loaded = load_workflow(path)
    assert not loaded.problems
    return build_plan(loaded, {name: node.schema for name, node in tables.items()}).steps["out"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_golden(path, tmp_path):
    query = path.read_text(encoding="utf-8")
    node = compiled(query)
    flow = flow_of(node, TABLES, query)
    golden, text = path.with_suffix(".steps.yml"), yaml_text({"steps": flow["steps"]})
    if os.environ.get("SMOKE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    again = plan_of(flow, TABLES, tmp_path)
    assert again.schema.names == node.schema.names
    assert keeps_order(again) == keeps_order(node)
    # One operator per node, except that windows over the same rows are one sql step.
    if not has_steps(node):
        return
    made = [each for each in {id(n): n for n in nodes_below(node)}.values() if not isinstance(each, Source)]
    beside = {name for each in made if isinstance(each, Window) for name in each.beside}
    assert len(flow["steps"]) == len(made) - len(beside)


@pytest.mark.timeout(7200)
def test_random_queries_give_the_same_rows_and_lineage(tmp_path):
    counts: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + TRIED):
        text, tables, answer = generate_answered_sql(seed)
        sources = sources_of(tables)
        try:
            node = compile_sql(whole_file(text, "query.sql"), "out", None, sources)
        except PlanError:
            counts["refused"] += 1
            continue
        if not has_steps(node):
            counts["stay whole"] += 1
            continue
        flow = flow_of(node, sources)
        again = plan_of(flow, sources, tmp_path)
        try:
            rows = evaluate_plan(again, tables)
        except (Unsupported, Ambiguous):
            counts["beyond the evaluation of plans"] += 1
            continue
        found = difference(answer, list(again.schema.names), rows, ordered=keeps_order(again))
        assert found is None, f"seed {seed}: {text}\n{yaml_text(flow)}\n{found}"
        counts["equal"] += 1
    print(counts)
    assert counts["equal"] >= TRIED / 10


@pytest.mark.parametrize("path", CASES_OF_SQL, ids=lambda path: path.stem)
def test_cases_give_the_same_rows_and_lineage(path, tmp_path):
    """The printed workflow of each case file, evaluated without Spark, beside the plan of the queries."""
    case = case_plan(load(path))
    file = merged_flow([case], "cases").write(tmp_path)
    content, _ = workflow_as_steps(file)
    (tmp_path / "steps.yml").write_text(yaml_text(content), encoding="utf-8")
    tables = {name: SqlTable(case.schemas[name], case.tables[name]) for name in case.tables}
    queries, steps = (
        {output: Counter(map(fingerprint, evaluate_plan(plan.steps[output], tables))) for output in case.outputs}
        for _, plan, _ in (checked_workflow(each, None, no_output) for each in (file, tmp_path / "steps.yml"))
    )
    assert queries
    assert queries == steps


def no_output(name):
    raise NotFound(f"no dataset '{name}'")


@pytest.mark.parametrize(
    ("query", "expressions"),
    [
        # A name that a lambda, a function or a field has is none for a column beside it.
        ("SELECT transform(spec.tags, qty -> qty || sku) AS tags, qty AS x FROM item",
         ["transform(spec.tags, qty -> qty || sku)"]),
        ("SELECT date(day) AS date, left(name, 2) AS `left`, sum(amount) AS sum FROM orders, customer GROUP BY 1, 2",
         ["date(day)", "left(name, 2)"]),
        ("SELECT a.id, b.id AS id_2 FROM orders a JOIN orders b ON a.id = b.cust", ["on: id = cust", "columns: {id: id, id_2: b_id}"]),
        ("SELECT 1 AS `a__b`, `a__b` + 1 AS c FROM (SELECT id AS a__b FROM orders)", []),
    ],
)  # fmt: skip
def test_names_of_columns(query, expressions, tmp_path):
    node = compiled(query)
    flow = flow_of(node, TABLES)
    texts = yaml_text(flow)
    assert plan_of(flow, TABLES, tmp_path).schema.names == node.schema.names
    for each in expressions:
        assert each.split("->")[0] in texts


def test_offsets_stay_in_sql(tmp_path):
    node = compiled("SELECT id, amount AS a FROM orders ORDER BY a DESC, id LIMIT 2 OFFSET 3")
    flow = flow_of(node, TABLES)
    assert [step["query"] for step in flow["steps"] if step["op"] == "sql"] == [
        "SELECT * FROM out_select ORDER BY a desc, id LIMIT 2 OFFSET 3"
    ]
    again = plan_of(flow, TABLES, tmp_path)
    assert keeps_order(again)
    limits = [each for each in nodes_below(again) if isinstance(each, nodes.Limit)]
    assert [(each.n, each.offset) for each in limits] == [(2, 3)]


def test_names_of_steps_keep_clear_of_others():
    node = compiled("SELECT id FROM orders o")
    names = [step["name"] for step in steps_of_query(node, ["out_o", "out_select"])]
    assert names == ["out_o_2", "out_select_2", "out"]


@pytest.mark.parametrize(
    "value",
    ["plain", "null", "~", "true", "1.0", "on", "a: b", "x #y", "- z", "[a]", "{b}", "", " a", "a ", "'q'", '"', "\\",
     "line\nbreak", "\ttab", "ünïcode", "\u2028", "\x7f", "😀", "@a", "`b`", "%c", "a, b", "0x1f", "1e3", ".5", "1_000", "<<"],
)  # fmt: skip
def test_texts_are_read_as_they_were_written(value):
    for tree in (
        {"a": value},
        {value or "k": [value, {"x": value}]},
        {"steps": [{"name": value, "long": value * 200}]},
    ):
        if value != "<<" or "<<" not in tree:
            assert parse_tree(yaml_text(tree), "f").value == tree


def test_other_steps_stay_as_they_are():
    source = Source("a", "a", None, Schema((Column("id", "bigint"),)))
    node = compile_sql(whole_file("SELECT id FROM a WHERE id > 1", "q.sql"), "two", None, {"a": source})
    steps = [
        {"name": "two_a", "op": "distinct", "input": "a"},
        {"name": "two", "op": "sql", "query": "…", "checks": [{"not_null": ["id"]}]},
        {"name": "last", "op": "distinct", "input": "two"},
    ]
    found = compiled_steps(steps, {"a": source, "two": node}, literal_text)
    assert [step["name"] for step in found] == ["two_a", "two_a_2", "two_filter", "two_select", "two", "last"]
    assert found[4]["checks"] == [{"not_null": ["id"]}]


WRITTEN = {
    "Filter": "where", "Project": "columns hint", "WithColumns": "columns", "Aggregate": "keys measures", "Distinct": "",
    "Join": "how on using absence", "Union": "", "Intersect": "all", "Difference": "all",
    "Window": "partition_by order_by measures frame beside", "Sort": "by", "Limit": "n by offset",
    "Explode": "column alias outer", "OuterValues": "repeats", "GroupLimit": "n by offset per",
}  # fmt: skip


def test_no_field_of_a_node_is_forgotten():
    """A new field of a node has to be written as a key of a step, or has_steps has to say that there is none."""
    # A hint changes neither rows nor lineage: it is left away. So does the way in which fields of structs are matched,
    # unless the branches of a union name them differently.
    own = {"id", "step", "position", "input", "left", "right", "branches", "fields_by_position"}
    kinds = [kind for kind in get_args(nodes.Node) if kind is not Source]
    kinds += [each for kind in kinds for each in kind.__subclasses__()]
    found = {kind.__name__: {each.name for each in fields(kind)} - own for kind in kinds}
    assert found == {name: set(each.split()) for name, each in WRITTEN.items()}
