"""How a case is measured: interleaved rounds, medians, ratios to the plain query of the same rounds."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bars import JUDGED
from benchmarks.cases import Case
from benchmarks.data import tiny_folder
from benchmarks.measuring import measured
from benchmarks.results import Result, named
from benchmarks.rivals import calls, forget, rivals, slow_rivals
from benchmarks.techniques import BASELINE, SINGLE, Job, Outcome, Plain, Technique, ours
from lineage_service.errors import LineageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FIXED = 0.4  # seconds a run that the bars leave out at most
TINY_ROUNDS, SLOW_ROUNDS = 5, 2


@dataclass(frozen=True)
class Options:
    """What the command line asks for; without `only` and `cases`, all of them."""

    scale: float = 1.0
    rounds: int = 5
    warmups: int = 2
    only: frozenset[str] = frozenset()
    cases: frozenset[str] = frozenset()

    def wants(self, technique: str) -> bool:
        return not self.only or technique in self.only or technique == BASELINE

    def wants_case(self, label: str) -> bool:
        return not self.cases or label in self.cases


@dataclass
class Tries:
    """All counted tries of one technique; or, where it could not be tried, why."""

    seconds: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    refused: str | None = None


def all_techniques() -> list[Technique]:
    return [Plain(), *ours(), *rivals(), *slow_rivals()]


def measure_case(case: Case, options: Options, folder: Path, spark: SparkSession) -> list[Result]:
    """One result per technique, the baseline first. Below `folder` nothing is left."""
    shutil.rmtree(folder, ignore_errors=True)  # of an experiment that was broken off
    fast = [technique for technique in (*ours(), *rivals()) if options.wants(technique.name)]
    slow = [technique for technique in slow_rivals() if options.wants(technique.name)]
    bench = Bench(case, folder, spark)
    tries = bench.interleaved(fast, case.data(1.0), options.rounds, options.warmups)
    # Later, when Java has compiled what it will: a fixed cost that was taken cold would flatter the ratios.
    fixed = _fixed_costs(
        bench, [technique for technique in fast if technique.is_ours and tries[technique.name].seconds]
    )
    base = tries[BASELINE]
    results = [
        result_of(case, technique, tries[technique.name], base, fixed.get(technique.name, 0.0))
        for technique in (Plain(), *fast)
    ]
    if slow:
        results += _slow(bench, slow, min(options.rounds, SLOW_ROUNDS))
    shutil.rmtree(folder, ignore_errors=True)
    return [replace(each, scale=options.scale) for each in _compared(results)]


def _compared(results: Sequence[Result]) -> Iterator[Result]:
    """The results, with a note where a technique of ours has other pairs than the rewrite: a sign that one is wrong."""
    rewrite = named(results, "Logic-Idx")
    for each in results:
        other = each.technique in (*SINGLE, *JUDGED) and rewrite is not None and each.pairs != rewrite.pairs
        if other and each.pairs is not None and rewrite is not None and rewrite.pairs is not None:
            yield replace(each, note=f"Logic-Idx has {rewrite.pairs:,} pairs")
        else:
            yield each


def _fixed_costs(bench: Bench, techniques: Sequence[Technique]) -> dict[str, float]:
    """What a run costs whatever the data: ours less the plain query's, over tables of ten rows."""
    if not techniques:
        return {}
    tries = bench.interleaved(techniques, tiny_folder(bench.case.data(1.0)), TINY_ROUNDS, 1, "tiny")
    base = tries.pop(BASELINE)
    if not base.seconds:
        return {}
    plain = median(base.seconds)
    return {
        name: min(max(median(each.seconds) - plain, 0.0), MOST_FIXED) for name, each in tries.items() if each.seconds
    }


def _slow(bench: Bench, techniques: Sequence[Technique], rounds: int) -> list[Result]:
    """Techniques with a call per pair, beside a baseline of their own on the same data."""
    case = bench.case
    wanted = calls(bench.job(case.data(1.0)))
    part = min(1.0, case.most_calls / max(wanted, 1))
    if part < 1:
        part = round(part, 2) or part
    tries = bench.interleaved(techniques, case.data(part), rounds, 1, "slow")
    forget(bench.spark)
    note = None if part == 1 else f"on {part:.0%} of the rows, against the plain query on the same"
    return [
        result_of(case, technique, tries[technique.name], tries[BASELINE], 0.0, note=note) for technique in techniques
    ]


def result_of(
    case: Case, technique: Technique, tries: Tries, base: Tries, fixed: float, note: str | None = None
) -> Result:
    name = technique.name
    result = Result(experiment=case.experiment, case=case.label, technique=name, note=tries.refused or note)
    if not tries.seconds or not base.seconds:
        return result
    plain, total, after = median(base.seconds), median(tries.seconds), median(tries.after)
    outcome = tries.outcome

    def per_pair(size: int | None) -> float | None:
        return size / outcome.pairs if size is not None and outcome.pairs else None

    return replace(
        result,
        base_s=plain,
        total_s=total,
        ratio=(total - fixed) / plain,
        critical_ratio=(total - after - fixed) / plain,
        raw_ratio=total / plain,
        fixed_s=fixed,
        pairs=outcome.pairs,
        bytes_per_pair=per_pair(outcome.bytes or None),
        bytes_per_pair_backward=per_pair(outcome.backward),
        bytes_per_pair_forward=per_pair(outcome.forward),
        peak_rss_mb=max(tries.peaks),
        bytes=outcome.bytes or None,
        capture_s=after if technique.is_ours else None,
        strategy=outcome.strategy,
        rounds=len(tries.seconds),
        total_s_all=tuple(round(each, 3) for each in tries.seconds),
    )


@dataclass
class Bench:
    """Where the tries of one case take place."""

    case: Case
    folder: Path
    spark: SparkSession
    _numbers: Iterator[int] = field(default_factory=count)

    def job(self, data: Path, kept: str = "") -> Job:
        scratch = self.folder / f"try{next(self._numbers)}"
        scratch.mkdir(parents=True)
        return Job(self.case, data, scratch, self.folder / f"kept-{kept}", self.spark)

    def interleaved(
        self, techniques: Sequence[Technique], data: Path, rounds: int, warmups: int, kept: str = "full"
    ) -> dict[str, Tries]:
        """Round by round each technique once, and the baseline, in an order that chance gives; warm-ups first.

        One that is refused is not tried again; the others go on.
        """
        tries = {technique.name: Tries() for technique in (Plain(), *techniques)}
        for turn in range(-warmups, rounds):
            tell(f"{self.case.experiment} {self.case.label}, {kept}: {_which(turn, rounds, warmups)}")
            order = [Plain(), *techniques]
            random.Random(f"{self.case.label} {turn}").shuffle(order)
            for technique in order:
                if tries[technique.name].refused is None:
                    self._once(technique, self.job(data, kept), tries[technique.name], counted=turn >= 0)
        return tries

    def _once(self, technique: Technique, job: Job, tries: Tries, *, counted: bool) -> None:
        try:
            took = measured(technique.ready(job), self._collect)
            outcome = technique.outcome(job, took.returned)
        except Exception as error:  # whatever goes wrong with one technique, the others are measured
            tries.refused = reason(error)
            tell(f"  {technique.name}: {tries.refused}")
        else:
            if counted:
                tries.seconds.append(took.seconds)
                tries.peaks.append(took.peak_mb)
                tries.after.append(outcome.after)
                tries.outcome = outcome
        finally:
            shutil.rmtree(job.scratch, ignore_errors=True)

    def _collect(self) -> None:
        """One technique's rubbish in the JVM is not another's work."""
        self.spark._jvm.System.gc()  # type: ignore[union-attr]


def reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if isinstance(error, LineageError) else f"{type(error).__name__}: {lines[0]}"


def _which(turn: int, rounds: int, warmups: int) -> str:
    return f"round {turn + 1} of {rounds}" if turn >= 0 else f"warm-up {turn + warmups + 1} of {warmups}"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
