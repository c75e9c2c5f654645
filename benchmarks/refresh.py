"""What does a refresh cost beside a full run? TPC-H Q3, with and without its limit, after orders were corrected."""

from __future__ import annotations

import datetime
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from benchmarks.data import tpch_folder
from benchmarks.declared import OUTPUT, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = ("Q3", "Q3 top 10")
TOP = (
    "  - {name: top, op: limit, input: summary, n: 10, by: [revenue desc, o_orderdate, l_orderkey]}\noutputs:\n  top:\n"
)
CHANGED = {"nothing": 0, "one order": 1, "10000 orders": 10_000}


@dataclass
class _Orders:
    """Corrections of orders: another day, another customer; and the table as it is with all of them."""

    table: Path
    rows: int
    chance: random.Random

    def corrected(self, count: int) -> pa.Table:
        rids = self.chance.sample(range(self.rows), min(count, self.rows))
        days = [datetime.date(1995, 1, 1) + datetime.timedelta(self.chance.randrange(150)) for _ in rids]
        keys = [1 + 3 * self.chance.randrange(max(1, self.rows // 40)) for _ in rids]
        return pa.table(
            {"_rid": pa.array(rids, pa.int64()), "o_orderdate": days, "o_custkey": pa.array(keys, pa.int64())}
        )

    def write(self, changes: list[pa.Table], target: Path) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE o AS SELECT *, file_row_number AS rid FROM '{self.table}'")
            for change in changes:
                connection.register("change", change)
                values = "o_orderdate = c.o_orderdate, o_custkey = c.o_custkey"
                connection.execute(f"UPDATE o SET {values} FROM change c WHERE o.rid = c._rid")
                connection.unregister("change")
            connection.execute(f"COPY (SELECT * EXCLUDE rid FROM o ORDER BY rid) TO '{target}' (FORMAT parquet)")


def measure(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    _ = spark  # a session that is there: its start is nobody's
    results: list[Result] = []
    data = tpch_folder(folder / "data", options.scale)
    for name in (each for each in CASES if options.wants_case(each)):
        text = tpch_case("refresh", "Q3", folder / "data", options.scale).workflow
        output = OUTPUT
        if name != "Q3":
            text, output = text.partition("outputs:")[0] + TOP, "top"
        results += _measured(name, text, output, data, folder / "refresh", options)
    return results


def _measured(name: str, text: str, output: str, data: Path, folder: Path, options: Options) -> list[Result]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "flow.yml").write_text(text, encoding="utf-8")
    with duckdb.connect() as connection:
        (counted,) = connection.execute(f"SELECT count(*) FROM '{data / 'orders.parquet'}'").fetchall()
    orders = _Orders(data / "orders.parquet", counted[0], random.Random(11))
    took: dict[str, list[float]] = {"full run": [], **{each: [] for each in CHANGED}}
    ways: dict[str, str] = {}
    with Home.open(folder / "home") as home:
        for number in range(options.warmups + options.rounds):
            tell(f"refresh {name}: round {number + 1}")
            changes: list[pa.Table] = []
            seconds = {"full run": _seconds(lambda: home.run(folder / "flow.yml", vars={"data": str(data)}))}
            for label, count in CHANGED.items():
                change = orders.corrected(count)
                seconds[label] = _seconds(lambda change=change: home.refresh("orders", changed=change))
                changes.append(change)
                ways[label] = home.runs(limit=1).to_pylist()[0]["run_id"]
            if number >= options.warmups:
                for label, value in seconds.items():
                    took[label].append(value)
        refreshed = _rows(home, output)
    _refuse_other_rows(refreshed, text, output, data, orders, changes, folder)
    base = median(took["full run"])
    return [
        Result(
            experiment="refresh", case=name, technique=label, base_s=base, total_s=median(values),
            ratio=median(values) / base, rounds=len(values), total_s_all=tuple(values), scale=options.scale,
        )
        for label, values in took.items()
    ]  # fmt: skip


def _refuse_other_rows(
    refreshed: list[Any], text: str, output: str, data: Path, orders: _Orders, changes: list[pa.Table], folder: Path
) -> None:
    """AssertionError where a full run over the corrected table gives other rows."""
    whole = folder / "corrected"
    whole.mkdir()
    for table in ("customer", "lineitem"):
        (whole / f"{table}.parquet").symlink_to(data / f"{table}.parquet")
    orders.write(changes, whole / "orders.parquet")
    (folder / "again.yml").write_text(text, encoding="utf-8")
    with Home.open(folder / "again") as home:
        home.run(folder / "again.yml", vars={"data": str(whole)})
        if refreshed != _rows(home, output):
            raise AssertionError("a refresh gives other rows than a full run")


def _rows(home: Home, output: str) -> list[Any]:
    return sorted(tuple(row.values())[1:] for row in home.rows(output).to_pylist())


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
