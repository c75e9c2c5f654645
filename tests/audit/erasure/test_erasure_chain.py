"""Persons erased from a chain of workflows, one after another and in batches: every dataset is then what the chain
gives without them, and nothing of them is left in any file.

SMOKE_ERASURES=200 erases as many.
"""

import os
from pathlib import Path

import pytest

from tests.support.audit_chain import Chain, subjects, texts_in, values

ERASURES = int(os.environ.get("SMOKE_ERASURES", "2"))
BATCHES = [1, 1, 3, 1, 7, 2] if ERASURES < 50 else [1, 1, 3, 1, 42, 2]


def batches(total: int) -> list[list[int]]:
    """So many persons, in portions; among them those whose values stand in texts."""
    order = [3, 0, 5, *(each for each in range(total + 5) if each not in (0, 3, 5))][:total]
    found, number = [], 0
    while order:
        size = BATCHES[number % len(BATCHES)]
        found.append(order[:size])
        order, number = order[size:], number + 1
    return found


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("snapshot", [True, False] if ERASURES >= 10 else [True])
def test_every_dataset_is_what_the_chain_gives_without_them(spark, tmp_path: Path, snapshot):
    total = ERASURES if snapshot else max(1, ERASURES // 3)
    count = max(24, total + 10)
    chain = Chain(tmp_path / "kept", count, snapshot=snapshot).run()
    before = {each["dataset"]: _rids(chain, each["dataset"]) for each in chain.home.datasets().to_pylist()}
    gone: list[int] = []
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    for number, batch in enumerate(batches(total)):
        named = [each for one in batch for each in subjects(one)]
        chain.home.audit.plan_erasure(named, out=plan)
        chain.home.audit.apply(plan, out=certificate)
        gone += batch
        fresh = Chain(tmp_path / f"fresh{number}", count, gone, snapshot=snapshot).run()
        assert chain.rows() == fresh.rows(), f"after {gone}"
        assert chain.published() == fresh.published(), f"after {gone}"
        fresh.home.close()
        left = "\n".join(texts_in(place) for place in chain.kept_places())
        found = [value for one in gone for value in values(one) if value in left]
        assert not found, f"after {gone}"
        verdict = chain.home.audit.verify(certificate, values=[value for one in gone for value in values(one)])
        assert verdict.holds, verdict.to_json()
    assert chain.home.audit.verify_log().ok
    for name, rids in before.items():
        now = _rids(chain, name)
        shared = rids.keys() & now.keys()
        # A row id that is still there is of the same row, or of its group with other values; never of another.
        keys = {"first.people": "id", "first.spend": "city", "second.cities": "city"}.get(name)
        if keys:
            assert shared, name
            assert all(rids[rid][keys] == now[rid][keys] for rid in shared), name
    chain.home.close()


def _rids(chain: Chain, dataset: str) -> dict[int, dict[str, object]]:
    return {row["_rid"]: row for row in chain.home.rows(dataset, reveal=True).to_pylist()}
