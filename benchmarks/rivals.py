"""The paper's competitors on the same Spark.

Logic-Rid and Logic-Tup are Perm's rewrite: the output is annotated with what it is made of, for a group-by by joining
the result back to its annotated input. Logic-Idx makes sorted pairs of that, as our index does. Phys-Mem and Phys-Bdb
call a store once per pair while the query runs. Lazy captures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.stores import Disk, Memory, forgetting, putting
from benchmarks.techniques import WAYS, Job, Outcome, Plain, Technique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT = "out_row"
# As our own index files are.
ENCODING = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE 122880"


@dataclass(frozen=True)
class Logic:
    """The output annotated with rids, or with whole input tuples; then perhaps `indexed`."""

    name: str
    tuples: bool = False
    indexed: bool = False
    is_ours: bool = False

    def ready(self, job: Job) -> Callable[[], float]:
        def call() -> float:
            annotated(job, tuples=self.tuples, numbered=self.indexed).write.parquet(str(job.scratch / "out"))
            began = perf_counter()
            if self.indexed:
                _index(job)
            return perf_counter() - began

        return call

    def outcome(self, job: Job, returned: float) -> Outcome:
        if not self.indexed:
            out = job.scratch / "out"
            return Outcome(_rows(f"{out}/*.parquet") * len(job.case.query.tables), _bytes(out, "*.parquet"))
        backward, forward = (_bytes(job.scratch, f"{way}.*.parquet") for way in WAYS)
        pairs = _rows(f"{job.scratch}/backward.*.parquet")
        return Outcome(pairs, backward + forward, backward, forward, after=returned)


def annotated(job: Job, *, tuples: bool = False, numbered: bool = False) -> DataFrame:
    """The result's rows, each once per combination of input rows that made it, with their rids or all their columns."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

    query = job.case.query
    below = query.annotated(job.spark, job.data)
    number = [F.monotonically_increasing_id().alias(OUT)] if numbered else []
    inputs = [name for name in below.columns if name not in query.rids]
    copies = [F.col(name).alias(f"in_{name}") for name in inputs] if tuples else [F.col(name) for name in query.rids]
    if not query.keys:
        return below.select(*inputs, *number, *copies)
    result = query.result(job.spark, job.data).select("*", *number)
    # No key of these queries is ever null: a plain equality is the cheapest join.
    return result.join(below.select(*query.keys, *copies), list(query.keys))


def _index(job: Job) -> None:
    """Pairs of the annotated output, sorted both ways, per source. A row is in a group once, however it got there."""
    distinct = "DISTINCT " if job.case.query.keys and len(job.case.query.tables) > 1 else ""
    with duckdb.connect(config={"temp_directory": str(job.scratch / "spill")}) as connection:
        for table, rid in zip(job.case.query.tables, job.case.query.rids, strict=True):
            scan = f"FROM '{job.scratch / 'out'}/*.parquet'"
            connection.execute(f"CREATE OR REPLACE TABLE pairs AS SELECT {distinct}{OUT} AS a, {rid} AS b {scan}")
            for way, order in (("backward", "a, b"), ("forward", "b, a")):
                target = job.scratch / f"{way}.{table}.parquet"
                connection.execute(f"COPY (SELECT a, b FROM pairs ORDER BY {order}) TO '{target}' ({ENCODING})")


@dataclass(frozen=True)
class Phys:
    """The query with a call per pair into a store of Spark's Python workers, in memory or (`disk`) in LMDB."""

    name: str
    disk: bool = False
    is_ours: bool = False

    def ready(self, job: Job) -> Callable[[], Any]:
        pairs = job.scratch / "pairs"
        pairs.mkdir()
        query = job.case.query
        open_store: Callable[[], Memory | Disk] = (
            partial(Disk, str(pairs), len(query.tables))
            if self.disk
            else partial(Memory, str(job.scratch), len(query.tables))
        )

        def call() -> None:
            from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

            below = query.annotated(job.spark, job.data)
            if not query.keys:
                below = below.withColumn(OUT, F.monotonically_increasing_id())
            keys = query.keys or (OUT,)
            put = _udf(putting(open_store, len(keys)), "boolean")
            kept = below.where(put(*keys, *query.rids)).drop(OUT)
            query.grouped(job.spark, kept).write.parquet(str(job.scratch / "out"))

        return call

    def outcome(self, job: Job, returned: Any) -> Outcome:  # noqa: ARG002 (the store is in the workers)
        # Of an LMDB file only the used part is on the disk.
        used = sum(path.stat().st_blocks * 512 for path in (job.scratch / "pairs").rglob("data.mdb"))
        return Outcome(calls(job), used)


def calls(job: Job) -> int:
    """How many calls a store gets: one per input row and source."""
    return job.case.query.annotated(job.spark, job.data).count() * len(job.case.query.tables)


def forget(spark: SparkSession) -> None:
    """Empties the memory of Spark's Python workers; those at hand are few, and take turns."""
    empty = _udf(forgetting, "long")
    spark.range(0, 32, 1, 32).select(empty("id").alias("id")).write.format("noop").mode("overwrite").save()


def _udf(function: Callable[..., Any], returned: str) -> Any:
    """A Python function for Spark, called for every row even where its value seems not to matter."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    return arrow_udf(function, returned).asNondeterministic()


def _rows(files: str) -> int:
    return len(duckdb.read_parquet(files))


def _bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def rivals() -> list[Technique]:
    """Those that are run as often as ours."""
    return [Logic("Logic-Rid"), Logic("Logic-Tup", tuples=True), Logic("Logic-Idx", indexed=True), Plain("Lazy")]


def slow_rivals() -> list[Technique]:
    """Those that call a store per pair: they are run less often, and on a part of the data where it is large."""
    return [Phys("Phys-Mem"), Phys("Phys-Bdb", disk=True)]
