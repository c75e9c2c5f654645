"""`explain` shows beside each node of a query what stands there in the query."""

import json
from pathlib import Path

from lineage_service.runs.workflow_file import explain_workflow

QUERY = """WITH big AS (SELECT cust, sum(amount) AS total FROM orders
              GROUP BY cust HAVING sum(amount) > ${least})
SELECT c.id, b.total, rank() OVER (ORDER BY b.total) AS place
FROM customer c LEFT OUTER JOIN big b ON c.id = b.cust, (SELECT 1 AS one, id FROM customer) d
WHERE c.id = d.id AND EXISTS (SELECT 1 FROM orders o WHERE o.cust = c.id) AND c.id > 0
ORDER BY place, c.id LIMIT 3
"""


def constructs(folder: Path, query: str) -> list[str]:
    columns = {"orders": "id BIGINT, cust BIGINT, amount BIGINT", "customer": "id BIGINT"}
    (folder / "q.sql").write_text(query, encoding="utf-8")
    flow = {
        "version": 1,
        "name": "w",
        "vars": {"least": 5},
        "sources": {name: {"path": f"{name}.json", "schema": schema} for name, schema in columns.items()},
        "steps": [{"name": "out", "op": "sql", "file": "q.sql"}],
        "outputs": {"out": {}},
    }
    for name in columns:
        (folder / f"{name}.json").write_text("{}", encoding="utf-8")
    (folder / "w.yml").write_text(json.dumps(flow), encoding="utf-8")
    steps = explain_workflow(folder / "w.yml", home=folder / "home").to_json()["steps"]
    return [f"{step['operator']}: {step['construct']}" for step in steps if step["name"] != "out"]


def test_each_node_has_its_construct(tmp_path):
    found = constructs(tmp_path, QUERY)
    assert "aggregate: GROUP BY cust" in found
    assert "filter: HAVING sum(amount) > 5" in found
    assert "left join: LEFT OUTER JOIN big b ON c.id = b.cust" in found
    assert "semi join: EXISTS (SELECT 1 FROM orders o WHERE o.cust = …" in found
    assert "project: customer c" in found
    assert any(each.startswith("window: rank() OVER (ORDER BY b.total)") for each in found)
    assert any(each.startswith("limit: LIMIT 3") for each in found)
    assert all(not each.endswith(": None") for each in found)
