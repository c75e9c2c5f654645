"""What does pruning save? TPC-H Q3 and Q10 for one source and one direction, beside all of both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.declared import OUTPUT, captured, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options
from benchmarks.tpch import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = ("Q3", "Q10")


def measure(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    results: list[Result] = []
    for name in (each for each in CASES if options.wants_case(each)):
        case = tpch_case("prune", name, folder / "data", options.scale)
        variants: dict[str, list[str]] = {"all": []}
        for table in QUERIES[name].tables:
            variants[f"backward {table}"] = [f"{{name: q, backward: {OUTPUT}, to: {table}}}"]
            variants[f"forward {table}"] = [f"{{name: q, forward: {table}, to: {OUTPUT}}}"]
        wanted = {each: entries for each, entries in variants.items() if each == "all" or options.wants(each)}
        results += captured(case, name, wanted, options, folder / "tries", spark)
    return results
