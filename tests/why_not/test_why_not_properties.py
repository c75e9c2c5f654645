"""`why-not` on random workflows against the oracle: which rows arrive, and at which steps the others end.

SMOKE_WHY_NOT=200 runs as many plans; SMOKE_SEED shifts.
"""

import os

import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError
from tests.oracle.reference import inputs_of, is_absence
from tests.random_plans.generate import Plan, random_plan
from tests.support.harness import merged_flow
from tests.support.strategies import where_sound

PLANS = int(os.environ.get("SMOKE_WHY_NOT", "6"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))
BATCH = 6
CAPTURES = ("auto", "off", "defer", "stage")


@pytest.mark.parametrize("first", range(SEED, SEED + PLANS, BATCH))
def test_rows_are_lost_where_the_oracle_loses_them(first, spark, tmp_path):
    plans = [random_plan(seed, size=4 + seed % 3).prefixed(f"p{seed}_") for seed in range(first, first + BATCH)]
    with where_sound(), Home.open(tmp_path / "home") as home:
        home.run(merged_flow(plans, "random").write(tmp_path), capture=CAPTURES[first // BATCH % len(CAPTURES)])
        failures = [text for plan in plans for text in differences(home, plan)]
    assert not failures, "\n".join(failures)


def differences(home: Home, plan: Plan) -> list[str]:
    found = []
    oracle = plan.evaluate()
    steps = {step["name"]: step for step in plan.steps}
    for output in plan.outputs:
        for source in plan.tables:
            if source not in contributing(output, steps):
                continue
            problem = difference(home, plan, oracle, steps, source, output)
            if problem:
                found.append(f"seed {plan.seed}, {source} to {output}: {problem}\n  steps: {plan.steps}")
    return found


def difference(home: Home, plan: Plan, oracle, steps: dict, source: str, output: str) -> str:
    everything = frozenset(range(len(plan.tables[source])))
    start = {"all": True}
    if plan.seed % 3 == 0 and len(everything) > 1:  # some of the rows, instead of all
        everything = frozenset(rid for rid in everything if rid % 2)
        start = {"rid": sorted(everything)}
    own = {name: behind(rows, source, "own") & everything for name, rows in oracle.items()} | {source: everything}
    arrived, known = own[output], behind(oracle[output], source, "lineage") & everything
    try:
        told = home.why_not(source, to=output, **start, limit=1000, rids=True)
    except QuestionError as error:
        return f"refused: {error}" if "cannot be determined" not in str(error) or not open_to_choice(plan) else ""
    if (told.reached, told.peers, told.lost) != (len(arrived), len(known - arrived), len(everything - known)):
        return f"{told.reached}, {told.peers}, {told.lost} instead of {len(arrived)}, {len(known - arrived)}"
    if everything and not told.spark and arrived != everything:
        return "the index alone cannot know"
    for name in {each.step for each in told.steps}:
        step = steps[name]
        inputs = [step["left"]] if is_absence(step) else inputs_of(step)
        ended = frozenset().union(*(own.get(each, frozenset()) for each in inputs)) - own[name] - arrived
        rids = frozenset(
            rid for each in told.steps if each.step == name for reason in each.reasons for rid in reason.rids
        )
        if rids - own[name] != ended:
            return f"at step {name} {sorted(rids)} end, not {sorted(ended)}"
    last = {row["rid"]: row["step"] for row in told.to_json().get("rows", [])}
    if told.spark and last.keys() != everything - arrived:
        return f"rows {sorted(last)} are listed, not {sorted(everything - arrived)}"
    if sum(each.lost for each in told.steps) != (len(everything - arrived)):
        return f"{sum(each.lost for each in told.steps)} rows are lost in all"
    return ""


def behind(rows, source: str, kind: str) -> frozenset[int]:
    return frozenset().union(*(getattr(row, kind).get(source, frozenset()) for row in rows))


def contributing(name: str, steps: dict) -> set[str]:
    if name not in steps:
        return {name}
    step = steps[name]
    inputs = [step["left"]] if is_absence(step) else inputs_of(step)
    return {name}.union(*(contributing(each, steps) for each in inputs))


def open_to_choice(plan: Plan) -> bool:
    return any(step["op"] in ("limit", "window") for step in plan.steps)
