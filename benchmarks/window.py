"""What does capture of a running sum over one partition cost, and how long are look-ups in it?"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.asking import asked, figures_of
from benchmarks.cases import Case, Query, workflow
from benchmarks.data import PLAIN
from benchmarks.results import Result
from benchmarks.rounds import Bench, Options, _fixed_costs, result_of, tell
from benchmarks.techniques import Ours
from benchmarks.techniques import Plain as Baseline
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000_000
CASES = {
    "running": ("sum(v) OVER (ORDER BY t) AS m", "measures: {m: sum(v)}"),
    "moving": (
        "avg(v) OVER (ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m",
        'measures: {m: avg(v)}, frame: "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"',
    ),
}
QUESTIONS = 30


def case_of(label: str, data: Path, scale: float) -> Case:
    measure, step = CASES[label]
    query = Query(("readings",), "FROM {readings}", f"*, {measure}")
    steps = [f"{{name: result, op: window, input: readings, order_by: [t], {step}}}"]
    return Case(
        "window", label, query, workflow("window", query, steps, "result"), lambda part: _data(data, scale, part)
    )


def _data(folder: Path, scale: float, part: float) -> Path:
    """Readings (id, t, v) in an order that is not that of t."""
    rows = max(1, int(ROWS * scale * part))
    found = folder / f"readings-{rows}"
    if not (found / "readings.parquet").is_file():
        found.mkdir(parents=True, exist_ok=True)
        with duckdb.connect() as connection:
            values = "(hash(range) >> 8)::BIGINT AS t, (hash(range + 7) % 1000)::BIGINT AS v"
            select = f"SELECT range AS id, {values} FROM range({rows})"
            connection.execute(f"COPY ({select}) TO '{found / 'readings.parquet'}' ({PLAIN})")
    return found


def measure(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    results: list[Result] = []
    for label in (each for each in CASES if options.wants_case(each)):
        case = case_of(label, folder / "data", options.scale)
        bench = Bench(case, folder / "tries", spark)
        techniques = [Ours(name, name) for name in ("off", "auto") if options.wants(name)]
        tries = bench.interleaved(techniques, case.data(1.0), options.rounds, options.warmups)
        fixed = _fixed_costs(bench, techniques)
        base = tries[Baseline().name]
        results += [
            result_of(case, each, tries[each.name], base, fixed.get(each.name, 0.0))
            for each in (Baseline(), *techniques)
        ]
        results += _asked(case, folder, options)
    return results


def _asked(case: Case, folder: Path, options: Options) -> list[Result]:
    home, file = folder / f"home-{case.label}", folder / f"{case.label}.yml"
    file.write_text(case.workflow, encoding="utf-8")
    rows = int(ROWS * options.scale)
    chosen = random.Random(17).sample(range(rows), min(QUESTIONS, rows))
    with Home.open(home) as opened:
        if not (home / "catalog.db").is_file():
            opened.run(file, vars={"data": str(case.data(1.0))})
        by_place = opened.rows("result", order_by=["t"], columns=["t"], limit=100).to_pylist()
        first = [int(row["_rid"]) for row in by_place][:QUESTIONS]
        ways: dict[str, tuple[list[int], Callable[[int], object]]] = {
            "rids, first rows": (
                first,
                lambda rid: opened.backward("result", to="readings", rid=rid, rids=True).arrow(),
            ),
            "count": (chosen, lambda rid: opened.backward("result", to="readings", rid=rid, count=True).arrow()),
            "forward count": (chosen, lambda rid: opened.forward("readings", to="result", rid=rid, count=True).arrow()),
            "count of all": ([0] * 5, lambda _: opened.backward("result", to="readings", all=True, count=True).arrow()),
            "forward count of all": (
                [0] * 5,
                lambda _: opened.forward("readings", to="result", all=True, count=True).arrow(),
            ),
        }
        found = []
        for name, (starts, ask) in ways.items():
            tell(f"window {case.label}: {name}")
            ask(starts[0])
            found.append(Result(experiment="window", case=case.label, technique=name, **figures_of(asked(starts, ask))))
    return found
