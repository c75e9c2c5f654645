"""Capture under a workload: the same query, prepared for one thing or another, beside the same without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cases import Case, workflow
from benchmarks.data import tpch_folder
from benchmarks.results import Result
from benchmarks.rounds import Bench, Options, Tries, result_of
from benchmarks.techniques import BASELINE, Job, Ours, Outcome, Plain
from benchmarks.tpch import QUERIES, STEPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_service.runs.run_report import RunReport

OUTPUT = "summary"


@dataclass(frozen=True)
class Prepared(Ours):
    """`Home.run` of a workflow with a workload of its own."""

    workload: tuple[str, ...] = ()

    def text(self, job: Job) -> str:
        entries = "".join(f"    - {each}\n" for each in self.workload)
        return job.case.workflow + (f"lineage:\n  workload:\n{entries}" if entries else "")

    def outcome(self, job: Job, returned: RunReport) -> Outcome:
        """Pairs as ever; bytes of all that is kept for questions, whatever its form."""
        found = super().outcome(job, returned)
        index = self._home(job) / "runs" / returned.run_id / "index"
        size = sum(path.stat().st_size for path in index.rglob("*.parquet"))
        return replace(found, bytes=size or found.bytes, backward=None, forward=None)


def tpch_case(experiment: str, name: str, data: Path, scale: float) -> Case:
    query = QUERIES[name]
    text = workflow(name.lower(), query, STEPS[name], OUTPUT)
    return Case(experiment, name, query, text, lambda part: tpch_folder(data, scale * part))


def captured(
    case: Case, label: str, variants: Mapping[str, Sequence[str]], options: Options, folder: Path, spark: SparkSession
) -> list[Result]:
    """One result per variant, and the plain query's; each variant is a list of entries of a workload."""
    shutil.rmtree(folder, ignore_errors=True)
    techniques = [Prepared(name, "auto", workload=tuple(entries)) for name, entries in variants.items()]
    bench = Bench(case, folder, spark)
    tries = bench.interleaved(techniques, case.data(1.0), options.rounds, options.warmups)
    found = [result_of(case, each, tries[each.name], tries[BASELINE], 0.0) for each in (Plain(), *techniques)]
    shutil.rmtree(folder, ignore_errors=True)
    return [replace(each, case=label, scale=options.scale) for each in _against(found, tries)]


def _against(results: Sequence[Result], tries: Mapping[str, Tries]) -> Iterator[Result]:
    """The ratio is to the run of the first variant, round by round: what preparing adds, or pruning saves."""
    plain, first, *_ = results
    yield plain
    for each in results[1:]:
        if each.total_s is None or first.total_s is None:
            yield each
            continue
        ratios = [
            mine / other
            for mine, other in zip(tries[each.technique].seconds, tries[first.technique].seconds, strict=True)
        ]
        yield replace(each, base_s=first.total_s, ratio=median(ratios), fixed_s=None, critical_ratio=None)
