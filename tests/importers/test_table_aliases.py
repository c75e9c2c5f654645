"""Qualifiers of columns in imported queries: each means the table that it means in the project.

Each query is computed by DuckDB twice: as it is written in the project, and as it is imported.
"""

from pathlib import Path

import duckdb
import pytest

from lineage_service.importers.assembly import ImportedWorkflow, imported_workflow
from lineage_service.importers.foreign_project import ForeignProject, ForeignQuery, ForeignTable, Parts, name_suffixes

# Rows by the names of tables in the project, and the name that each gets in the workflow.
TABLES = {
    ("lake", "raw", "orders"): ("raw_orders", "(1, 'x', 10), (2, 'y', 20), (3, 'z', 30), (4, 'w', 20)"),
    ("lake", "prod", "orders"): ("orders", "(1, 'x', 10), (3, 'q', 20), (9, 'w', 40)"),
    ("lake", "raw", "people"): ("people", "(2, 'x', 10), (3, 'y', 90), (4, 'w', 20)"),
}
COLUMNS = "(oid, note, amount)"


def imported(query: str) -> ImportedWorkflow:
    keys = {parts: ".".join(parts) for parts in TABLES}

    def resolve(_: str, parts: Parts) -> str | None:
        wanted = ".".join(parts).lower()
        found = [key for each, key in keys.items() if wanted in name_suffixes(each)]
        return found[0] if len(found) == 1 else None

    def unknown(_: str, parts: Parts) -> ForeignTable:
        raise AssertionError(parts)

    tables = [
        ForeignTable(key, TABLES[parts][0], "_".join(parts), name_suffixes(parts), "table")
        for parts, key in keys.items()
    ]
    written = ForeignQuery("q", "model 'q'", "q", "q_q", "view", "q.sql", query)
    project = ForeignProject("a test", "test", None, None, (written,), tuple(tables), (), (), resolve, unknown)
    return imported_workflow(project, (), Path())


def rows_of(project_query: str, made: ImportedWorkflow) -> tuple[list[tuple], list[tuple]]:
    """The rows of a query in the project, and in the workflow."""
    with duckdb.connect() as project, duckdb.connect() as workflow:
        project.execute("ATTACH ':memory:' AS lake")
        for (catalog, schema, table), (name, values) in TABLES.items():
            rows = f"SELECT * FROM (VALUES {values}) AS v{COLUMNS}"
            project.execute(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}")
            project.execute(f"CREATE TABLE {catalog}.{schema}.{table} AS {rows}")
            workflow.execute(f"CREATE TABLE {name} AS {rows}")
        project.execute("USE lake")
        for step in made.steps[:-1]:
            workflow.execute(f"CREATE VIEW {step.name} AS {step.query}")
        before = project.execute(project_query.replace("`", '"')).fetchall()
        behind = workflow.execute(made.steps[-1].query.replace("`", '"')).fetchall()
    return sorted(before, key=repr), sorted(behind, key=repr)


CORRELATED = "select oid from lake.raw.orders where not exists (select 1 from lake.prod.orders where {})"


@pytest.mark.parametrize(
    "query",
    [
        CORRELATED.format("lake.prod.orders.oid = lake.raw.orders.oid"),
        CORRELATED.format("prod.orders.oid = raw.orders.oid"),
        CORRELATED.format("lake.PROD.orders.OID = `lake`.`raw`.`orders`.oid and amount < raw.orders.amount"),
        "select oid from raw.orders where exists (select 1 from prod.orders o where o.oid = raw.orders.oid)",
        "select o.oid from raw.orders o where exists (select 1 from prod.orders where prod.orders.oid = o.oid)",
        "select raw.orders.oid, prod.orders.note from raw.orders join prod.orders on raw.orders.oid = prod.orders.oid",
        # The new name of a table is the alias of another one.
        "select raw_orders.oid from prod.orders raw_orders where exists (select 1 from raw.orders where raw_orders.oid = 3)",
        "select Raw_Orders.oid from prod.orders raw_orders where exists (select 1 from raw.orders r "
        "where raw_orders.oid = r.oid)",
        "select `raw_orders` . oid from prod.orders raw_orders, raw.orders where orders.oid = 2",
        # The last word of the name is that of a CTE or of a query in FROM.
        "with orders as (select * from raw.orders where raw.orders.oid > 1) select orders.oid, orders.amount from orders",
        "with orders as (select * from raw.orders where orders.oid > 1) select orders.oid from orders",
        "with orders as (select oid + 1 as oid from raw.orders where raw.orders.oid > 1) "
        "select raw.orders.oid, p.oid from raw.orders join orders p on raw.orders.oid = p.oid",
        "with orders as (select oid + 1 as oid from raw.orders) "
        "select orders.oid from orders where exists (select 1 from raw.people where raw.people.oid = orders.oid)",
        "with x as (select orders.oid from raw.orders where lake.raw.orders.amount > 10) "
        "select orders.oid from prod.orders join x on x.oid = orders.oid",
        "select orders.oid from (select raw.orders.oid from raw.orders where raw.orders.amount > 10) orders",
        "select oid from raw.people where oid in (select orders.oid from raw.orders where raw.orders.amount = "
        "raw.people.amount and exists (select 1 from raw.people p where p.oid = raw.orders.oid))",
        # A CTE has the name of a step.
        "with raw_orders as (select 7 as oid) select raw.orders.oid, raw_orders.oid from raw.orders, raw_orders",
        # The same table twice: the inner one is meant.
        "select oid from raw.orders where exists (select 1 from raw.orders where raw.orders.oid = 2 and amount = 20)",
        "select raw.orders.oid from raw.orders union all select prod.orders.oid from prod.orders",
    ],
)
def test_the_rows_are_those_of_the_project(query):
    made = imported(query)
    before, behind = rows_of(query, made)
    assert before == behind
    assert made.warnings == ()


def test_the_last_word_stays_the_alias():
    made = imported("select orders.oid, raw.orders.note from raw.orders")
    assert made.steps[-1].query == "select orders.oid, orders.note from raw_orders AS orders\n"
    assert imported("select oid from raw.orders").steps[-1].query == "select oid from raw_orders\n"


def test_stars_are_qualified_as_columns_are():
    query = "select prod.orders.*, raw.orders.amount.a.b from raw.orders left join prod.orders using (oid)"
    assert imported(query).steps[-1].query == (
        "select orders_2.*, orders_3.amount.a.b from raw_orders AS orders_3 left join orders AS orders_2 using (oid)\n"
    )


@pytest.mark.parametrize("word", ["lake.raw.orders", "raw.orders"])
def test_what_cannot_be_told_apart_stays_and_is_told(word):
    query = CORRELATED.format(f"orders.oid = {word}.oid")
    made = imported(query)
    assert f"orders.oid = {word}.oid" in made.steps[-1].query
    (warning,) = made.warnings
    assert warning == (
        f"model 'q': '{word}' qualifies a column, and the query has another 'orders': give the tables aliases in the "
        "project, qualify the columns by them, and import again"
    )
