"""Random workflows against the oracle: rows and pairs must be the same, whatever the plan.

Many plans are merged into one workflow, so that a run is shared. SMOKE_PLANS=5000 runs as many; SMOKE_SEED shifts.
"""

import os

import pytest

from lineage_service import Home
from tests.generate import random_plan
from tests.harness import traced_rows
from tests.judging import same_as_oracle
from tests.strategies import every_way
from tests.test_cases import merged_flow

PLANS = int(os.environ.get("SMOKE_PLANS", "120"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))
BATCH = 12


@every_way
@pytest.mark.parametrize("first", range(SEED, SEED + PLANS, BATCH))
def test_random_plans(first, way, spark, tmp_path):
    # Each way gets plans of its own: more plans in the same time.
    shift = 1_000_000 * (way.growth == 0)
    plans = {f"p{seed}_": random_plan(seed + shift, size=3 + seed % 5) for seed in range(first, first + BATCH)}
    merged = merged_flow([plan.prefixed(prefix) for prefix, plan in plans.items()], "random")
    failures = []
    with way.in_force(), Home.open(tmp_path / "home") as home:
        report = home.run(merged.write(tmp_path), capture=way.capture)
        for prefix, plan in plans.items():
            renamed = plan.prefixed(prefix)
            oracle = renamed.evaluate()
            for output in renamed.outputs:
                rows = traced_rows(home, output, list(renamed.tables), report.run_id)
                problem = same_as_oracle(rows, oracle[output], ordered=output in oracle.ordered)
                if problem:
                    failures.append(f"seed {plan.seed}, output {output}: {problem}\n  steps: {renamed.steps}")
    assert not failures, "\n".join(failures)
