"""Hundreds of refreshes by DuckDB alone: one workflow of all that it computes, random changes, each against the oracle."""

from random import Random

import pytest

from lineage_service import Home
from tests.refresh.test_refresh_random import Changing, Plan, differences
from tests.support.harness import Flow

TABLES = {"t": {"k": "INT", "v": "BIGINT", "s": "STRING", "d": "DATE"}, "u": {"k": "INT", "w": "BIGINT"}}
STEPS = [
    {"name": "some", "op": "filter", "input": "t", "where": "v >= 1 AND s <> 'b'"},
    {"name": "shown", "op": "project", "input": "some", "columns": {"k": "k", "twice": "v + v", "y": "d"}},
    {"name": "both", "op": "join", "left": "t", "right": "u", "on": "left.k = right.k"},
    {"name": "named", "op": "project", "input": "both", "columns": ["v", "s", "w"]},
    {"name": "per", "op": "aggregate", "input": "named", "by": ["s"],
     "measures": {"n": "count(*)", "x": "sum(v * w)", "low": "min(w)"}, "having": "n > 1"},
    {"name": "kinds", "op": "distinct", "input": "shown"},
    {"name": "keys", "op": "project", "input": "t", "columns": ["k"]},
    {"name": "others", "op": "project", "input": "u", "columns": ["k"]},
    {"name": "all_keys", "op": "union", "inputs": ["keys", "others"]},
    {"name": "counted", "op": "aggregate", "input": "all_keys", "by": ["k"], "measures": {"n": "count(*)"}},
    {"name": "first", "op": "limit", "input": "counted", "n": 9, "by": ["n desc", "k"]},
]  # fmt: skip
OUTPUTS = ["shown", "named", "per", "kinds", "first"]
ROUNDS, EACH = 4, 5  # runs, and refreshes of each


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_change_is_what_the_oracle_says(seed, spark, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("Spark was started")

    random = Random(seed)
    values = Values(random)
    tables = {name: [values.row(schema) for _ in range(8)] for name, schema in TABLES.items()}
    plan = Plan(seed, tables, TABLES, {name: [rows] for name, rows in tables.items()}, STEPS, OUTPUTS)
    with Home.open(tmp_path / "home") as home:
        home.run(Flow(TABLES, plan.files, STEPS, OUTPUTS, name="many").write(tmp_path))
        monkeypatch.setattr("lineage_service.refresh.spark_refresh.SparkRefresh._session", refused)
        now = Changing.of([plan])
        before = {output: home.rows(output).arrow().to_pylist() for output in OUTPUTS}
        for number in range(EACH):
            run_id = home.refresh("t", "u", **now.change(random)).run_id
            assert not differences(home, run_id, plan, now, before), number


class Values:
    def __init__(self, random: Random):
        from tests.random_plans.generate import Generator

        self.made = Generator(random.randrange(1 << 30))

    def row(self, schema: dict[str, str]) -> dict:
        return {name: self.made.value(kind) for name, kind in schema.items()}
