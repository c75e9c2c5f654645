"""Q1c: a row of Q1b drilled down by tax, from groups that were prepared, from rows that were, and by a scan."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bars_of_q1 import INSTRUCTIONS, MODES, ROWS, asked, bars_of, build, interleaved, plain
from benchmarks.declared import OUTPUT, captured, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from benchmarks.skipping import BY
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUBE = (
    f"{{name: q1c, backward: {OUTPUT}, to: lineitem, parameters: [l_shipmode, l_shipinstruct], "
    "by: {y: year(l_shipdate), m: month(l_shipdate), l_tax: l_tax}, measures: {qty: sum(l_quantity), n: count(*)}}"
)
INDEXED = f"{{{BY}, columns: [l_shipdate, l_quantity, l_tax]}}"
ASKED = 60


def measure(folder: Path, options: Options) -> list[Result]:
    pushed, source = build(folder, options, "cube", [ROWS, CUBE])
    indexed, _ = build(folder, options, "indexed", [ROWS, INDEXED])
    chance = random.Random(7)
    results: list[Result] = []
    with Home.open(pushed) as home, Home.open(indexed) as rows, plain() as scan:
        for bar in bars_of(home):
            if not options.wants_case(bar.label):
                continue
            tell(f"cube {bar.label}: asking")
            took: dict[str, list[float]] = {}
            for number in range(ASKED):
                mode, instruction = chance.choice(MODES), chance.choice(INSTRUCTIONS)
                year, month = chance.randrange(1992, 1999), chance.randrange(1, 13)
                given = f"l_shipmode = '{mode}' AND l_shipinstruct = '{instruction}'"
                of_month = f"{given} AND year(l_shipdate) = {year} AND month(l_shipdate) = {month}"
                select = (
                    f"SELECT l_tax, sum(l_quantity) AS qty, count(*) AS n FROM {{}} WHERE {of_month} GROUP BY l_tax"
                )
                kept = f"FROM workload('q1c', '{bar.start}') WHERE {given} AND y = {year} AND m = {month}"
                ours = select.format(bar.lineage())
                lazy = select.format(f"(SELECT * FROM read_parquet('{source}') WHERE {bar.lazy})")
                ways = {
                    "workload": lambda sql=f"SELECT l_tax, qty::DECIMAL(38, 2) AS qty, n {kept}": home.query(
                        sql
                    ).arrow(),
                    "auto": lambda sql=ours: home.query(sql).arrow(),
                    "index scan": lambda sql=ours: rows.query(sql).arrow(),
                    "scan": lambda sql=lazy: scan(sql),
                }
                chosen = {name: way for name, way in ways.items() if name != "scan" or number % 4 == 0}
                for name, seconds in interleaved(chosen, 1).items():
                    took.setdefault(name, []).extend(seconds)
            results += asked("cube", bar.label, took, ("scan",), bar.rows, options.scale)
    return results


def capture(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    case = tpch_case("cube", "Q1", folder / "data", options.scale)
    return captured(
        case, "capture", {"without": [ROWS], "with the cube": [ROWS, CUBE]}, options, folder / "tries", spark
    )
