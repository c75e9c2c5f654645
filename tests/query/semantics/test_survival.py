"""The loss of a row, judged by the ways in which rows were made: against the oracle, evaluated anew without that row."""

import json
from collections import Counter

import pytest

from lineage_service.capture.survival import Survival, survival
from lineage_service.plan.build import build_plan
from lineage_service.plan.nodes import Source
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.loader import load_workflow
from tests.oracle.reference import evaluate, inputs_of
from tests.oracle.reference_polynomials import without
from tests.random_plans.generate import random_plan


def judged(folder, schemas, steps, outputs) -> dict[str, Survival]:
    """What survival says of every step."""
    body = {"version": 1, "name": "flow", "sources": {name: {"path": f"{name}.parquet"} for name in schemas},
            "steps": steps, "outputs": {name: {} for name in outputs}}  # fmt: skip
    path = folder / "flow.yml"
    path.write_text(json.dumps(body, default=str), encoding="utf-8")
    columns = {
        name: Schema(tuple(Column(c, kind.lower()) for c, kind in each.items())) for name, each in schemas.items()
    }
    states: dict[str, Survival] = {}
    for node in build_plan(load_workflow(path), columns).nodes():
        if isinstance(node, Source):
            states[node.id] = Survival(frozenset([node.step]))
        else:
            states[node.id] = survival(node, [states[below.id] for below in node.inputs])
    return states


def left_over(rows, gone) -> Counter | None:
    """The polynomials of rows that are left where a row is 0; None where one is not known."""
    found = [without(row.how, gone) for row in rows]
    return None if None in found else Counter(repr(sorted(each.items())) for each in found if each)


def global_aggregates(steps) -> set[str]:
    """Steps with an aggregate without keys below them, or that are one: their row is there without any way."""
    found = {step["name"] for step in steps if step["op"] == "aggregate" and not step.get("by")}
    while True:
        more = {step["name"] for step in steps if found & set(inputs_of(step))} - found
        if not more:
            return found
        found |= more


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_the_loss_of_any_row_of_random_plans(first, tmp_path):
    told = 0
    for seed in range(first, first + 100):
        plan = random_plan(seed, size=3 + seed % 4)
        before = plan.evaluate()
        states = judged(tmp_path, plan.schemas, plan.steps, plan.outputs)
        outputs = set(plan.outputs) - global_aggregates(plan.steps)
        for gone in [(name, rid) for name, rows in plan.tables.items() for rid in range(len(rows))]:
            asked = [name for name in outputs if gone[0] not in states[name].unsure]
            if not asked:
                continue
            after = evaluate(plan.tables, plan.schemas, plan.steps, frozenset([gone]))
            for output in asked:
                wanted, found = left_over(before[output], gone), left_over(after[output], ("", 0))
                if wanted is None or found is None:
                    continue
                told += 1
                lost = wanted - found
                more = Counter() if gone[0] in states[output].appears else found - wanted
                assert not lost and not more, f"seed {seed}, {output} without {gone}: {lost}, {more}\n{plan.steps}"
    assert told > 300


SMALL = {name: {"k": "BIGINT", "v": "BIGINT"} for name in ("a", "b", "c")}
ANTI = {"name": "x", "op": "join", "how": "anti", "left": "b", "right": "c", "using": ["k"]}


@pytest.mark.parametrize(
    ("steps", "unsure"),
    [
        ([ANTI], set()),
        ([ANTI, {"name": "out", "op": "aggregate", "input": "x", "by": ["v"], "measures": {"n": "count(*)"}}], {"c"}),
        ([ANTI, {"name": "out", "op": "difference", "left": "a", "right": "x"}], {"c"}),
        ([ANTI, {"name": "y", "op": "project", "input": "x", "columns": ["k"]},
          {"name": "out", "op": "join", "how": "left", "left": "a", "right": "y", "using": ["k"]}], {"c"}),
        ([ANTI, {"name": "out", "op": "join", "how": "semi", "left": "a", "right": "x", "using": ["k"]}], {"c"}),
        ([ANTI, {"name": "out", "op": "union", "inputs": ["a", "x"]}], set()),
        ([ANTI, {"name": "out", "op": "union", "inputs": ["a", "x"], "distinct": True}], {"c"}),
        ([{"name": "x", "op": "join", "how": "full", "left": "a", "right": "b", "using": ["k"]},
          {"name": "out", "op": "aggregate", "input": "x", "by": ["k"], "measures": {}}], {"a", "b"}),
        ([{"name": "out", "op": "aggregate", "input": "a", "by": [], "measures": {"n": "count(*)"},
           "having": "n > 1"}], {"a"}),
    ],
)  # fmt: skip
def test_where_the_loss_of_rows_is_not_told(steps, unsure, tmp_path):
    name = steps[-1]["name"]
    assert set(judged(tmp_path, SMALL, steps, [name])[name].unsure) == unsure
