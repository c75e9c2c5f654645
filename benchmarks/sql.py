"""What does an sql step cost beside `spark.sql` of the same text? All 22 queries of TPC-H, at scale factor 1.

The baseline writes the result of `spark.sql` as Parquet; `off` is the compiled plan without capture.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cases import Case, Query
from benchmarks.data import whole_tpch_folder
from benchmarks.sql_queries import queries_of, workflow_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TECHNIQUES = ("off", "auto", "auto-warm")  # a rewrite of the paper's competitors needs more than a text


@dataclass(frozen=True)
class QueryText(Query):
    """A query that is a text over tables by their names."""

    text: str = ""

    def result(self, spark: SparkSession, data: Path) -> DataFrame:
        for name in self.tables:
            spark.read.parquet(str(data / f"{name}.parquet")).createOrReplaceTempView(name)
        return spark.sql(self.text)


def cases(data: Path, scale: float) -> list[Case]:
    return [
        Case(
            "sql",
            f"Q{query.name[1:].lstrip('0')}",
            QueryText(query.tables, "", text=query.text),
            workflow_of([query]),
            lambda part: whole_tpch_folder(data, scale * part),
        )
        for query in queries_of("tpch")
    ]
