"""What does selection push-down cost and save? TPC-H Q1 whose lineage is only asked for where a predicate holds.

Quantities are 1 to 50, alike often: `l_quantity <= 5` takes a tenth. DuckDB may evaluate that; Spark has to where the
same is written as `cast(l_quantity AS int) <= 5`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.declared import OUTPUT, captured, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARES = {"2%": 1, "10%": 5, "20%": 10, "50%": 25, "80%": 40}
COLUMNS = "[l_orderkey, l_linenumber, l_quantity, l_extendedprice]"


def measure(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    case = tpch_case("pushdown", "Q1", folder / "data", options.scale)
    results: list[Result] = []
    for label, entry in (("pairs", ""), ("rows", f", columns: {COLUMNS}")):
        if not options.wants_case(label):
            continue
        base = f"name: q, backward: {OUTPUT}, to: lineitem{entry}"
        variants = {"all": [f"{{{base}}}"]}
        variants |= {f"where {share}": [f"{{{base}, where: l_quantity <= {most}}}"] for share, most in SHARES.items()}
        if label == "pairs":
            variants["where 10%, by Spark"] = [f"{{{base}, where: cast(l_quantity AS int) <= 5}}"]
        wanted = {each: entries for each, entries in variants.items() if each == "all" or options.wants(each)}
        results += captured(case, label, wanted, options, folder / "tries", spark)
    return results
