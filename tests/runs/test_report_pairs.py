"""The pairs that a run's report tells are the distinct pairs that questions give, or are not told."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from tests.random_plans.generate import random_plan
from tests.support.harness import merged_flow

FLOW = """
version: 1
name: flow
sources: {t: {path: t.parquet}, u: {path: u.parquet}}
steps:
  - {name: ranked, op: window, input: t, partition_by: [k], order_by: [x], measures: {n: row_number()}}
  - {name: twice, op: join, left: t, right: other, on: left.id <= right.key}
  - {name: other, op: project, input: t, columns: {key: id, y: x}}
  - {name: sums, op: aggregate, input: ranked, by: [k], measures: {s: sum(x)}}
  - {name: nested, op: join, left: sums, right: u, using: [k]}
  - {name: total, op: aggregate, input: nested, by: [], measures: {s: sum(s)}}
  - {name: beside, op: join, left: t, right: total, how: cross}
outputs: {ranked: , twice: , sums: , nested: , total: , beside: }
"""


def judged(home: Home, report) -> tuple[list[str], int]:
    """Figures that are not what `backward` gives; and how many are not told."""
    wrong, unknown = [], 0
    for output, sources in report.capture.items():
        for source, facts in sources.items():
            pairs = home.backward(output, to=source, all=True, pairs=True).count()
            if facts["pairs"] is None:
                unknown += 1
            elif facts["pairs"] != pairs:
                wrong.append(f"{output} to {source}: {facts['pairs']} told, {pairs} there are")
    return wrong, unknown


@pytest.mark.parametrize("most", [0, 20_000_000])
def test_windows_self_joins_and_what_is_kept_hop_by_hop(spark, tmp_path, monkeypatch, most):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lineage_service.index.pair_counts.MOST_COUNTED", most)
    monkeypatch.setattr("lineage_service.index.index_builder.GROWTH", 0.0)  # nothing is put together end to end
    pq.write_table(
        pa.table({"id": range(12), "k": [n % 3 for n in range(12)], "x": [n / 4 for n in range(12)]}), "t.parquet"
    )
    pq.write_table(pa.table({"k": [0, 1, 1, 2], "w": [1, 2, 3, 4]}), "u.parquet")
    Path("flow.yml").write_text(FLOW)
    with Home.open(tmp_path / "home") as home:
        report = home.run("flow.yml")
        wrong, unknown = judged(home, report)
    assert not wrong
    assert report.capture["ranked"]["t"]["pairs"] == 30, "each row with those before it in its partition, and itself"
    if most:
        assert unknown == 0


@pytest.mark.parametrize("most", [0, pytest.param(20_000_000, marks=pytest.mark.slow)])
def test_random_plans(spark, tmp_path, monkeypatch, most):
    monkeypatch.setattr("lineage_service.index.pair_counts.MOST_COUNTED", most)
    plans = [random_plan(seed, size=3 + seed % 4).prefixed(f"p{seed}_") for seed in range(7000, 7010)]
    with Home.open(tmp_path / "home") as home:
        wrong, _ = judged(home, home.run(merged_flow(plans, "random").write(tmp_path)))
    assert not wrong, "\n".join(wrong)
