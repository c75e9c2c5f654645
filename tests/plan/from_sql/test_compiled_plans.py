"""Queries in plans/*.sql against the plans beside them. A new one: write it, run with SMOKE_GOLDEN=1, read it."""

import os
from pathlib import Path

import pytest

from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.nodes import PlanError, Source
from lineage_service.plan.schema import Schema
from lineage_service.spec.sql_text import whole_file
from tests.plan.from_sql.plan_printing import TABLES, compiled, printed, table

PLANS = sorted((Path(__file__).parent / "plans").glob("*.sql"))
REFUSED = sorted((Path(__file__).parent / "refused").glob("*.sql"))


def nodes_below(node):
    yield node
    for below in node.inputs:
        yield from nodes_below(below)


def same_as_golden(path: Path, text: str) -> None:
    golden = path.with_suffix(".txt")
    if os.environ.get("SMOKE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plan(path):
    same_as_golden(path, printed(compiled(path.read_text(encoding="utf-8"))) + "\n")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_nodes_have_ids_and_places_of_their_own(path):
    nodes = {id(node): node for node in nodes_below(compiled(path.read_text(encoding="utf-8")))}.values()
    made = [node for node in nodes if not isinstance(node, Source)]
    assert len({node.id for node in made}) == len(made)
    assert all(node.step == "out" for node in made)
    assert all(node.position is not None for node in made if node.id != "out")


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_refusals(path):
    """Every query of a file, separated by blank lines, is refused with the message and place beside it."""
    found = []
    for query in path.read_text(encoding="utf-8").strip().split("\n\n"):
        with pytest.raises(PlanError) as error:
            compiled(query)
        found.append(f"{query}\n" + "".join(f"  {problem}\n" for problem in error.value.problems))
    same_as_golden(path, "\n".join(found))


def test_names_in_the_plan_are_shared_by_no_columns_of_the_user():
    """A user's columns may be called like ours: they are read under names of our own, and given back at the end."""
    query = "SELECT out__id AS o__id, o.id AS out__id FROM (SELECT id, id + 1 AS out__id FROM orders) o"
    assert compiled(query).schema.names == ("o__id", "out__id")


def test_values_as_the_whole_query_keep_their_alias_order_and_limit():
    node = compiled("VALUES (1), (2), (3) AS v(k) ORDER BY k DESC LIMIT 1 OFFSET 1")
    assert node.schema.names == ("k",)
    assert "limit 1 from 2 on by values__col1 desc" in printed(node)


def test_an_unknown_table_may_be_one_that_the_query_does_not_read():
    with pytest.raises(PlanError, match="sources, steps and CTEs here: orders, customer") as error:
        compile_sql(whole_file("SELECT id FROM orderz", "q.sql"), "out", None, {}, ["orders", "customer"])
    assert error.value.problems[0].hint == "did you mean 'orders'?"


def test_a_column_may_be_called_like_a_word_of_sql():
    words = {"kw": table("kw", null="int", true="int", id="int")}
    query = "SELECT t.null, t.true AS x, `t`.id FROM kw t WHERE t.null > 1"
    assert compile_sql(whole_file(query, "q.sql"), "out", None, words).schema.names == ("null", "x", "id")


def test_tables_of_unknown_columns_leave_the_step_unknown():
    tables = {**TABLES, "raw": Source("raw", "raw", None, Schema(known=False))}
    node = compile_sql(whole_file("SELECT x.y FROM raw x", "q.sql"), "out", None, tables)
    assert not node.schema.known


def test_a_query_of_hundreds_of_conditions_is_compiled():
    conditions = " AND ".join(f"id <> {number}" for number in range(400))
    assert compiled(f"SELECT id FROM orders WHERE {conditions}").schema.names == ("id",)


@pytest.mark.parametrize("terms", [" OR ".join(f"id = {number}" for number in range(1200)), " + ".join(["id"] * 5000)])
def test_a_query_of_thousands_of_terms_is_compiled(terms):
    assert compiled(f"SELECT {terms} AS x FROM orders").schema.names == ("x",)


@pytest.mark.parametrize("expression", [f"{'(' * 2000}id{')' * 2000}", f"{'NOT ' * 9000}id = 1"])
def test_a_query_that_is_nested_without_end_is_refused(expression):
    with pytest.raises(PlanError, match="nested"):
        compiled(f"SELECT {expression} AS x FROM orders")
