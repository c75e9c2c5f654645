"""Random workflows as DataFrame programs: their plans, evaluated without Spark, give the rows and pairs of the steps.

SMOKE_PROGRAMS=2000 tries as many, from SMOKE_SEED on.
"""

import os
from collections import Counter

from lineage_service.plan.from_connect.untraceable import Untraceable
from tests.oracle.plan_reference import evaluate_plan
from tests.oracle.reference import Ambiguous
from tests.oracle.reference_expressions import Raised
from tests.oracle.reference_values import Unsupported
from tests.oracle.sql_reference import SqlTable
from tests.plan.from_sql.random_queries import fingerprint, sources_of
from tests.random_plans.generate import random_plan
from tests.support.connect_frames import compiled, session_without_server
from tests.support.step_programs import StepProgram

TRIED = int(os.environ.get("SMOKE_PROGRAMS", "60"))
FIRST = int(os.environ.get("SMOKE_SEED", "0"))


def judged(seed):
    """What is unlike, and counts of outputs."""
    plan = random_plan(seed, size=3 + seed % 4)
    expected = plan.evaluate()
    given = {name: SqlTable(plan.schemas[name], plan.tables[name]) for name in plan.tables}
    frames = StepProgram(session_without_server(), plan.schemas).run(plan.steps)
    counts, wrong = Counter(), []
    for name in {*plan.outputs} - set(plan.tables):
        if name in expected.nondeterministic:
            counts["open"] += 1
            continue
        try:
            rows = evaluate_plan(compiled(frames[name], sources_of(given)), given)
        except (Unsupported, Ambiguous, Raised):
            counts["beyond"] += 1
            continue
        except Untraceable as error:
            wrong.append(f"seed {seed}, {name}: {error}\n  {plan.steps}")
            continue
        theirs, ours = Counter(map(fingerprint, expected[name])), Counter(map(fingerprint, rows))
        if theirs != ours:
            wrong.append(f"seed {seed}, {name}: {dict(theirs - ours)} instead of {dict(ours - theirs)}\n  {plan.steps}")
        counts["equal"] += theirs == ours
    return wrong, counts


def test_random_programs():
    found = [judged(seed) for seed in range(FIRST, FIRST + TRIED)]
    wrong = [each for problems, _ in found for each in problems]
    counts = sum((each for _, each in found), Counter())
    assert not wrong, "\n\n".join(wrong)
    assert counts["equal"] > TRIED / 2, counts
