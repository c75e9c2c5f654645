"""What does a person's request cost? One person in TPC-H: customer, orders, lineitem, outputs like Q3's and Q10's.

Each round asks about, and erases, another person, and runs both workflows in full beside it: with persons declared, and
without. After the last round all rows are compared with a full run over tables that lack the erased.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.data import tpch_folder
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUSTOMER = "subject: {customer: c_custkey}, pii: [c_name, c_address, c_phone]"
ORDERS = "subject: {customer: o_custkey}"
Q3 = """
version: 1
name: q3
vars: {data: data}
sources:
  customer: {path: "${data}/customer.parquet", CUSTOMER}
  orders: {path: "${data}/orders.parquet", ORDERS}
  lineitem: {path: "${data}/lineitem.parquet"}
steps:
  - {name: segment, op: filter, input: customer, where: c_mktsegment = 'BUILDING'}
  - {name: before, op: filter, input: orders, where: o_orderdate < DATE '1995-03-15'}
  - {name: after, op: filter, input: lineitem, where: l_shipdate > DATE '1995-03-15'}
  - {name: theirs, op: join, left: segment, right: before, on: c_custkey = o_custkey}
  - {name: lines, op: join, left: theirs, right: after, on: l_orderkey = o_orderkey}
  - name: open
    op: aggregate
    input: lines
    by: [l_orderkey, o_orderdate, o_shippriority]
    measures: {revenue: sum(l_extendedprice * (1 - l_discount))}
outputs:
  open:
"""
Q10 = """
version: 1
name: q10
vars: {data: data}
sources:
  customer: {path: "${data}/customer.parquet", CUSTOMER}
  orders: {path: "${data}/orders.parquet", ORDERS}
  lineitem: {path: "${data}/lineitem.parquet"}
  nation: {path: "${data}/nation.parquet"}
steps:
  - {name: returned, op: filter, input: lineitem, where: l_returnflag = 'R'}
  - {name: theirs, op: join, left: customer, right: orders, on: c_custkey = o_custkey}
  - {name: lines, op: join, left: theirs, right: returned, on: l_orderkey = o_orderkey}
  - {name: homes, op: join, left: lines, right: nation, on: c_nationkey = n_nationkey}
  - name: lost
    op: aggregate
    input: homes
    by: [c_custkey, c_name, c_phone, n_name]
    measures: {revenue: sum(l_extendedprice * (1 - l_discount)), lines: count(*)}
outputs:
  lost:
"""
OUTPUTS = ("q3.open", "q10.lost")
BASE = "full run"


def measure(folder: Path, options: Options, spark: SparkSession) -> list[Result]:
    _ = spark  # a session that is there: its start is nobody's
    data = tpch_folder(folder / "data", options.scale)
    place = folder / "audit"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, text in (("q3", Q3), ("q10", Q10)):
        declared = text.replace("CUSTOMER", CUSTOMER).replace("ORDERS", ORDERS)
        (place / f"{name}.yml").write_text(declared, encoding="utf-8")
        plain = text.replace(", CUSTOMER", "").replace(", ORDERS", "")
        (place / f"{name}_plain.yml").write_text(plain, encoding="utf-8")
    took: dict[str, list[float]] = {}
    erased: list[int] = []
    with Home.open(place / "home") as home:
        _run(home, place, data, "")
        for number in range(options.warmups + options.rounds):
            tell(f"audit: round {number + 1}")
            person = _person(home, number)
            seconds = _round(home, place, data, person)
            erased.append(person)
            if number >= options.warmups:
                for label, value in seconds.items():
                    took.setdefault(label, []).append(value)
        rows = {each: _rows(home, each) for each in OUTPUTS}
    _refuse_other_rows(rows, erased, data, place)
    base = median(took[BASE])
    return [
        Result(
            experiment="audit", case="one person", technique=label, base_s=base, total_s=median(values),
            ratio=median(values) / base, rounds=len(values), total_s_all=tuple(values), scale=options.scale,
        )
        for label, values in took.items()
    ]  # fmt: skip


def _round(home: Home, place: Path, data: Path, person: int) -> dict[str, float]:
    subject = f"customer={person}"
    plan, certificate = place / "plan.json", place / "certificate.json"
    found = {}
    with Home.open(place / "beside") as beside:
        found[BASE] = _seconds(lambda: _run(beside, place, data, ""))
    shutil.rmtree(place / "beside")
    with Home.open(place / "beside") as beside:
        found["full run, no persons declared"] = _seconds(lambda: _run(beside, place, data, "_plain"))
    shutil.rmtree(place / "beside")
    with Home.open(place / "home") as opened:
        found["access, home just opened"] = _seconds(lambda: opened.audit.access(subject))
        found["access again"] = _seconds(lambda: opened.audit.access(subject))
    words = ["-m", "lineage_cli.main", "audit", "access", "--subject", subject, "--json", "--home", str(place / "home")]
    found["access, as a command"] = _seconds(
        lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)
    )
    found["plan-erasure"] = _seconds(lambda: home.audit.plan_erasure(subject, out=plan))
    found["apply"] = _seconds(lambda: home.audit.apply(plan, out=certificate))
    found["verify"] = _seconds(lambda: _verified(home, certificate))
    return found


def _verified(home: Home, certificate: Path) -> None:
    verdict = home.audit.verify(certificate)
    if not verdict.holds:
        raise AssertionError(f"an erasure does not hold: {verdict.to_json()}")


def _run(home: Home, place: Path, data: Path, kind: str) -> None:
    for name in ("q3", "q10"):
        home.run(place / f"{name}{kind}.yml", vars={"data": str(data)})


def _person(home: Home, number: int) -> int:
    """Somebody whose orders are in both outputs."""
    found = home.backward("q3.open", to="customer", rid=_rid(home, number)).to_pylist()
    return int(found[0]["c_custkey"])


def _rid(home: Home, number: int) -> int:
    rids = [row["_rid"] for row in home.rows("q3.open", columns=["l_orderkey"], limit=100_000).to_pylist()]
    return rids[(number * 7919) % len(rids)]


def _rows(home: Home, output: str) -> list[Any]:
    return sorted(tuple(row.values())[1:] for row in home.rows(output, reveal=True).to_pylist())


def _refuse_other_rows(rows: dict[str, list[Any]], erased: list[int], data: Path, place: Path) -> None:
    """AssertionError where a full run over tables without these persons gives other rows."""
    without = place / "without"
    without.mkdir()
    gone = ", ".join(map(str, erased))
    with duckdb.connect() as connection:
        for table, key in (("customer", "c_custkey"), ("orders", "o_custkey"), ("lineitem", None), ("nation", None)):
            where = f" WHERE {key} NOT IN ({gone})" if key else ""
            target = without / f"{table}.parquet"
            connection.execute(f"COPY (SELECT * FROM '{data / table}.parquet'{where}) TO '{target}' (FORMAT parquet)")
    with Home.open(place / "again") as home:
        _run(home, place, without, "")
        for output, before in rows.items():
            if before != _rows(home, output):
                raise AssertionError(f"after erasures '{output}' has other rows than a full run without the persons")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
