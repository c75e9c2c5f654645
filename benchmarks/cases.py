"""What is measured: a query in three forms – the workflow file, plain Spark, and what a rewrite needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.spark.file_scan import ROW_INDEX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Query:
    """A query over tables that are `<table>.parquet` in one folder; no two of its columns have the same name.

    `body` is FROM and WHERE, with each table in braces. With `keys`, `select` is its list over groups of them;
    without, the result is all columns of the rows of `body`: no breaker. `renames` are columns under other names.
    """

    tables: tuple[str, ...]
    body: str
    select: str = "*"
    keys: tuple[str, ...] = ()
    renames: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def rids(self) -> list[str]:
        """The columns that annotate a row with the positions of the rows it is made of."""
        return [f"rid_{table}" for table in self.tables]

    def result(self, spark: SparkSession, data: Path) -> DataFrame:
        """The result, as a plain script computes it."""
        return spark.sql(f"SELECT {self.select} {self.body}{self._by}", **self._read(spark, data))

    def annotated(self, spark: SparkSession, data: Path) -> DataFrame:
        """The rows below the breaker, or the result's where there is none: all columns, and `rids`."""
        return spark.sql(f"SELECT * {self.body}", **self._read(spark, data, rids=True))

    def grouped(self, spark: SparkSession, below: DataFrame) -> DataFrame:
        """The result over rows like those of `annotated`."""
        if not self.keys:
            return below.drop(*self.rids)
        return spark.sql(f"SELECT {self.select} FROM {{below}}{self._by}", below=below)

    @property
    def _by(self) -> str:
        return f" GROUP BY {', '.join(self.keys)}" if self.keys else ""

    def _read(self, spark: SparkSession, data: Path, *, rids: bool = False) -> dict[str, Any]:
        """The tables; with their rows' positions by the cheapest way Spark has, which is what we use ourselves."""
        tables = {}
        for name in self.tables:
            file = str(data / f"{name}.parquet")
            table = spark.read.parquet(file)
            renames = dict(self.renames.get(name, {}))
            if rids:
                table = spark.read.schema(table.schema.add(ROW_INDEX, "long")).parquet(file)
                renames[ROW_INDEX] = f"rid_{name}"
            tables[name] = table.withColumnsRenamed(renames)
        return tables


@dataclass(frozen=True)
class Case:
    """One case of an experiment.

    `workflow` is the text of a workflow file with a variable `data`, the folder of its tables. `data` gives that
    folder at a fraction of the case's size, and makes it where it is not there. `most_calls` is how many pairs the
    techniques with a call per pair may be given; where there are more they get a fraction.
    """

    experiment: str
    label: str
    query: Query
    workflow: str
    data: Callable[[float], Path]
    most_calls: int = 6_000_000


def workflow(name: str, query: Query, steps: Sequence[str], output: str) -> str:
    """The text of a workflow file over the query's tables."""
    sources = []
    for table in query.tables:
        renames = ", ".join(f"{old}: {new}" for old, new in query.renames.get(table, {}).items())
        extra = f", rename: {{{renames}}}" if renames else ""
        sources.append(f'  {table}: {{path: "${{data}}/{table}.parquet"{extra}}}')
    lines = [
        "version: 1", f"name: {name}", "vars: {data: data}",
        "sources:", *sources,
        "steps:", *(f"  - {step}" for step in steps),
        "outputs:", f"  {output}:",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
