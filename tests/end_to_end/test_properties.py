"""Random workflows against the oracle: rows and pairs must be the same, whatever the plan.

Many plans are merged into one workflow, so that a run is shared. SMOKE_PLANS=5000 runs as many; SMOKE_SEED shifts.
"""

import os

import pytest

from lineage_service import Home
from tests.random_plans.generate import Plan, random_plan
from tests.support.harness import merged_flow, traced_rows
from tests.support.judging import same_as_oracle, same_ways
from tests.support.strategies import both_layouts, captures, lay_out

PLANS = int(os.environ.get("SMOKE_PLANS", "80"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))
BATCH = 16


BATCHES = [(first, capture) for first in range(SEED, SEED + PLANS, BATCH) for capture in captures(first // BATCH, 1)]


@pytest.mark.parametrize(("first", "capture"), BATCHES)
def test_random_plans(first, capture, spark, request, tmp_path):
    # One batch in five runs as Spark is shipped, with code generation and adaptive execution; the others run fast.
    if first // BATCH % 5 == 4:
        request.getfixturevalue("spark_as_shipped")
    plans = [random_plan(seed, size=3 + seed % 3).prefixed(f"p{seed}_") for seed in range(first, first + BATCH)]
    oracles = {plan.seed: plan.evaluate() for plan in plans}
    with both_layouts() as hops:
        home = Home.open(tmp_path / "home")
        run_id = home.run(merged_flow(plans, "random").write(tmp_path), capture=capture).run_id
    failures = [text for plan in plans for text in differences(home, run_id, plan, oracles[plan.seed])]
    failures += [text for plan in plans[::2] for text in semantic_differences(home, run_id, plan, oracles[plan.seed])]
    home = lay_out(home, run_id, hops[run_id])
    failures += [
        "hop by hop, " + text for plan in plans for text in differences(home, run_id, plan, oracles[plan.seed])
    ]
    home.close()
    assert not failures, "\n".join(failures)


def differences(home: Home, run_id: str, plan: Plan, oracle) -> list[str]:
    found = []
    for output in plan.outputs:
        rows = traced_rows(home, output, list(plan.tables), run_id)
        problem = same_as_oracle(rows, oracle[output], ordered=output in oracle.ordered)
        if problem:
            found.append(f"seed {plan.seed}, output {output}: {problem}\n  steps: {plan.steps}")
        found += kept_differences(home, run_id, plan, oracle, output)
    return found


def kept_differences(home: Home, run_id: str, plan: Plan, oracle, output: str) -> list[str]:
    """Pairs between an output and each step that is a dataset too: their number must be the oracle's."""
    found = []
    for step in {*plan.keep, *plan.outputs} - {output}:
        wanted = sorted(len(row.steps.get(step, ())) for row in oracle[output])
        if not any(wanted):
            continue
        pairs = home.backward(f"{output}@{run_id}", to=step, all=True, pairs=True).arrow()
        counted: dict[int, int] = dict.fromkeys(range(len(oracle[output])), 0)
        for out in pairs.column("out_rid").to_pylist():
            counted[out] += 1
        if sorted(counted.values()) != wanted:
            found.append(f"seed {plan.seed}: {output} to {step}: {sorted(counted.values())}, not {wanted}")
    return found


def semantic_differences(home: Home, run_id: str, plan: Plan, oracle) -> list[str]:
    """Witnesses and polynomials of every row must be the oracle's; the count is the number of ways."""
    found = []
    for output in plan.outputs:
        name, to = f"{output}@{run_id}", list(plan.tables)
        rows = home.rows(name).arrow()
        problem = same_ways(home, name, rows, oracle[output])
        if problem:
            found.append(f"seed {plan.seed}, ways of {output} to {to}: {problem}\n  steps: {plan.steps}")
    return found
