"""Random SQL texts, compiled and evaluated without Spark: the oracle's rows and lineage, or a refusal.

SMOKE_SQL_PLANS=20000 tries as many, from SMOKE_SEED on; `pytest -s` shows what was refused.
"""

import os
from collections import Counter

import pytest

from tests.plan.from_sql.random_queries import judge_query
from tests.random_plans.generate_sql import generate_answered_sql

TRIED = int(os.environ.get("SMOKE_SQL_PLANS", "300"))
FIRST = int(os.environ.get("SMOKE_SEED", "0"))
LEAST_COMPILED = 0.8  # of the texts: fewer would mean that the compiler refuses what it took before


@pytest.mark.timeout(7200)
def test_random_queries():
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    wrong = {}
    for seed in range(FIRST, FIRST + TRIED):
        text, tables, answer = generate_answered_sql(seed)
        verdict = judge_query(text, tables, answer)
        counts[verdict.kind] += 1
        counts["with inferred predicates"] += verdict.inferred
        if verdict.kind == "wrong":
            wrong[seed] = f"{text}\n  {verdict.reason}"
        elif verdict.reason:
            reasons[verdict.kind, verdict.reason] += 1
    print(f"\n{TRIED} queries: {', '.join(f'{number} {kind}' for kind, number in counts.most_common())}")
    for (kind, reason), number in reasons.most_common():
        print(f"{number:6} {kind}: {reason}")
    assert not wrong, "\n\n".join(f"seed {seed}: {found}" for seed, found in wrong.items())
    assert counts["equal"] >= LEAST_COMPILED * TRIED, counts
    assert counts["raised"] <= 1 + TRIED / 500, counts
