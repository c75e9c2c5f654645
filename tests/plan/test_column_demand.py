"""Queries as plans whose projections give no column that nobody reads."""

import pytest

from lineage_service.plan.nodes import Project
from lineage_service.plan.plan_rewriting import nodes_inputs_first
from tests.plan.from_sql.plan_printing import compiled

READ = {  # the columns of orders (id, cust, amount, day) that are left of it
    "SELECT id FROM orders": ["id"],
    "SELECT count(*) AS n FROM orders": ["id"],
    "SELECT id FROM orders WHERE amount > 1 ORDER BY day": ["amount", "day", "id"],
    "SELECT a FROM (SELECT id AS a, cust AS b, amount + 1 AS c FROM orders)": ["id"],
    "SELECT DISTINCT cust FROM orders": ["cust"],
    "SELECT c.id FROM customer c WHERE EXISTS (SELECT * FROM orders o WHERE o.cust = c.id)": ["cust"],
    "SELECT id FROM orders INTERSECT SELECT cust FROM orders": ["cust", "id"],
    "SELECT 1 AS x FROM (SELECT cust FROM orders) i CROSS JOIN customer": ["cust"],
    "SELECT id, rank() OVER (PARTITION BY cust ORDER BY day) AS r FROM orders": ["cust", "day", "id"],
}


@pytest.mark.parametrize("query", READ)
def test_columns_that_nobody_reads_are_not_projected(query):
    tables = [
        node
        for node in nodes_inputs_first(compiled(query))
        if isinstance(node, Project) and [below.id for below in node.inputs] == ["orders"]
    ]
    assert tables
    assert sorted({each.expression.text.strip("`") for node in tables for each in node.columns}) == READ[query]
