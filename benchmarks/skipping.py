"""Q1b: a bar of TPC-H Q1 by month and year, for one ship mode and one instruction; every combination, every bar."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bars_of_q1 import BY_MONTH, INSTRUCTIONS, MODES, ROWS, asked, bars_of, build, interleaved, plain
from benchmarks.declared import OUTPUT, captured, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY = f"name: q1b, backward: {OUTPUT}, to: lineitem, parameters: [l_shipmode, l_shipinstruct]"
SKIPPING = f"{{{BY}, columns: [l_shipdate, l_quantity]}}"
EVERYTHING = f"{{{BY}}}"
REPEATS = 3


def measure(folder: Path, options: Options) -> list[Result]:
    home_path, source = build(folder, options, "skipping", [ROWS, SKIPPING])
    results: list[Result] = []
    with Home.open(home_path) as home, plain() as scan:
        for bar in bars_of(home):
            if not options.wants_case(bar.label):
                continue
            tell(f"skipping {bar.label}: asking")
            took: dict[str, list[float]] = {"auto": [], "scan": []}
            slowest = []
            for mode in MODES:
                for instruction in INSTRUCTIONS:
                    where = f" WHERE l_shipmode = '{mode}' AND l_shipinstruct = '{instruction}'"
                    ours = BY_MONTH.format(rows=bar.lineage(), where=where)
                    lazy = BY_MONTH.format(
                        rows=f"(SELECT * FROM read_parquet('{source}') WHERE {bar.lazy})", where=where
                    )
                    ways = {"auto": lambda sql=ours: home.query(sql).arrow(), "scan": lambda sql=lazy: scan(sql)}
                    for name, seconds in (found := interleaved(ways, REPEATS)).items():
                        took[name] += seconds
                    slowest.append(statistics.median(found["scan"]) / statistics.median(found["auto"]))
            for each in asked("skipping", bar.label, took, ("scan",), bar.rows, options.scale):
                note = f"of {len(slowest)} combinations the least gain is {min(slowest):.1f} times"
                results.append(each if each.technique != "auto" else _noted(each, note, min(slowest)))
    return results


def _noted(result: Result, note: str, gain: float) -> Result:
    from dataclasses import replace

    return replace(result, note=note, raw_ratio=gain)


def capture(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    case = tpch_case("skipping", "Q1", folder / "data", options.scale)
    variants = {"without": [ROWS], "with skipping": [ROWS, SKIPPING], "with skipping, all columns": [ROWS, EVERYTHING]}
    return captured(case, "capture", variants, options, folder / "tries", spark)
