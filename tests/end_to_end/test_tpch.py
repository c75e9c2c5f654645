"""TPC-H: real queries as workflows, judged by DuckDB over the same files. tests/end_to_end/tpch/ holds, per query, the standard
SQL, and by hand from section 4 of the contract a SELECT of its lineage: the output row's key and the source rows' rids.
"""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lineage_service import Home
from lineage_service.runs.run_report import RunReport
from tests.support.paths import ROOT

WORKFLOWS = ROOT / "workflows" / "tpch"
TRUTH = Path(__file__).parent / "tpch"
QUERIES = sorted(path.stem for path in WORKFLOWS.glob("q*.yml"))
SCALE = "0.02"  # the smallest at which no query is empty


@dataclass(frozen=True)
class Asked:
    """A query that was run: its output, what the same SQL gives, and its true lineage, one row per derivation."""

    home: Home
    report: RunReport
    out: Path
    sql: duckdb.DuckDBPyConnection
    query: str

    @property
    def output(self) -> str:
        (name,) = self.report.outputs
        return f"{self.query}.{name}@{self.report.run_id}"

    @property
    def sources(self) -> list[str]:
        return [f"{self.query}.{name}@{self.report.run_id}" for name in self.report.sources]

    def rows(self) -> pa.Table:
        return self.home.rows(self.output).arrow()

    def answer(self) -> str:
        return (TRUTH / f"{self.query}.sql").read_text(encoding="utf-8")

    def lineage(self) -> str:
        return (TRUTH / f"{self.query}.lineage.sql").read_text(encoding="utf-8")

    def true_pairs(self, source: str) -> str:
        """Pairs of an output row's rid and the rids behind it; the output row is found by its key's values."""
        keys = [name for name in self.sql.sql(self.lineage()).columns if name not in self.report.sources]
        self.sql.register("found_rows", self.rows())
        same = " AND ".join(f"f.{key} = t.{key}" for key in keys) or "true"
        pairs = f"SELECT DISTINCT f._rid AS out_rid, t.{source} AS rid"
        return f"{pairs} FROM ({self.lineage()}) t JOIN found_rows f ON {same}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    # Small row groups: positions must count on over them.
    options = ["--scale-factor", SCALE, "--row-group-bytes", "512KB", "--quiet", "--output-dir", str(folder)]
    subprocess.run([generator, "parquet", *options], check=True)
    return folder


@pytest.fixture(scope="module")
def sql(tables) -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables, each with `rid`: a row's position in its file."""
    with duckdb.connect() as connection:
        for path in tables.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT *, file_row_number AS rid FROM '{path}'")
        yield connection


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[Home]:
    with Home.open(tmp_path_factory.mktemp("tpch_home")) as opened:
        yield opened


@pytest.fixture(scope="module", params=QUERIES)
def asked(request, spark, home, tables, sql, tmp_path_factory) -> Asked:
    """One run of a query, for all that is asserted of it."""
    out = tmp_path_factory.mktemp("out")
    file = WORKFLOWS / f"{request.param}.yml"
    declared = {"data": str(tables)}
    if "${out}" in file.read_text(encoding="utf-8"):
        declared["out"] = str(out)
    return Asked(home, home.run(file, vars=declared), out, sql, request.param)


def test_rows_are_those_of_the_sql(asked):
    expected = asked.sql.sql(asked.answer()).to_arrow_table()
    found = asked.rows()
    assert [*expected.column_names] == [name for name in found.column_names if name != "_rid"]
    assert found.column("_rid").to_pylist() == list(range(expected.num_rows)), "rids are in the output's order"
    for name in expected.column_names:
        assert kind(found.schema.field(name).type) == kind(expected.schema.field(name).type), name
        steps = unit(found.schema.field(name).type)
        values = zip(found.column(name).to_pylist(), expected.column(name).to_pylist(), strict=True)
        for row, (one, other) in enumerate(values):
            assert same(one, other, steps), f"{name} of row {row}: {one}, and {other} by SQL"


def test_pairs_are_the_true_ones(asked):
    assert asked.report.sources
    for name, source in zip(asked.report.sources, asked.sources, strict=True):
        asked.sql.execute(f"CREATE OR REPLACE TEMP TABLE truth AS {asked.true_pairs(name)}")
        truth = asked.sql.table("truth")
        assert len(truth) > 0, f"{name} has lineage"
        for direction, answer in (
            ("backward", asked.home.backward(asked.output, to=source, all=True, pairs=True)),
            ("forward", asked.home.forward(source, to=asked.output, all=True, pairs=True)),
        ):
            pairs = asked.sql.from_arrow(answer.arrow())
            assert pairs.columns == ["out_rid", "rid"]
            assert len(pairs) == len(pairs.distinct()), f"{direction} {name}: pairs are distinct"
            missing, wrong = truth.except_(pairs).fetchall(), pairs.except_(truth).fetchall()
            assert not missing, f"{direction} {name}: {len(missing)} pairs are missing, such as {missing[:5]}"
            assert not wrong, f"{direction} {name}: {len(wrong)} pairs are wrong, such as {wrong[:5]}"
            assert answer.absence == [] and answer.notes == []


def test_one_row_is_traced_as_all_are(asked):
    """What is looked up for one row is what the list of all pairs says of it; both ways, and as a count."""
    last = asked.rows().num_rows - 1
    assert last >= 0 and asked.report.sources
    for name, source in zip(asked.report.sources, asked.sources, strict=True):
        truth = asked.sql.sql(asked.true_pairs(name))
        behind = sorted(rid for (rid,) in truth.filter(f"out_rid = {last}").project("rid").fetchall())
        asked_for = {"to": source, "rid": last}
        assert asked.home.backward(asked.output, rids=True, **asked_for).arrow().column("_rid").to_pylist() == behind
        assert asked.home.backward(asked.output, count=True, **asked_for).count() == len(behind)
        ahead = sorted(out for (out,) in truth.filter(f"rid = {behind[0]}").project("out_rid").fetchall())
        found = asked.home.forward(source, to=asked.output, rid=behind[0], rids=True)
        assert found.arrow().column("_rid").to_pylist() == ahead


def q01(spark, tables):
    from pyspark.sql import functions as f

    lineitem = spark.read.parquet(f"{tables}/lineitem.parquet")
    return (
        lineitem.where("l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY")
        .groupBy("l_returnflag", "l_linestatus")
        .agg(
            f.sum("l_quantity").alias("sum_qty"),
            f.sum("l_extendedprice").alias("sum_base_price"),
            f.expr("sum(l_extendedprice * (1 - l_discount))").alias("sum_disc_price"),
            f.expr("sum(l_extendedprice * (1 - l_discount) * (1 + l_tax))").alias("sum_charge"),
            f.avg("l_quantity").alias("avg_qty"),
            f.avg("l_extendedprice").alias("avg_price"),
            f.avg("l_discount").alias("avg_disc"),
            f.count("*").alias("count_order"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )


def q03(spark, tables):
    from pyspark.sql import functions as f

    customer, orders, lineitem = (
        spark.read.parquet(f"{tables}/{name}.parquet") for name in ("customer", "orders", "lineitem")
    )
    return (
        customer.where("c_mktsegment = 'BUILDING'")
        .join(orders.where("o_orderdate < DATE '1995-03-15'"), f.expr("c_custkey = o_custkey"))
        .join(lineitem.where("l_shipdate > DATE '1995-03-15'"), f.expr("l_orderkey = o_orderkey"))
        .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(f.expr("sum(l_extendedprice * (1 - l_discount))").alias("revenue"))
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .orderBy(f.desc("revenue"), "o_orderdate")
        .limit(10)
    )


PLAIN = {"q01": q01, "q03": q03}


@pytest.mark.parametrize("asked", PLAIN, indirect=True)
def test_a_published_copy_is_what_plain_pyspark_writes(asked, spark, tables, tmp_path):
    PLAIN[asked.query](spark, tables).write.parquet(str(tmp_path / "plain"))
    plain, published = (
        ds.dataset(folder, format="parquet") for folder in (tmp_path / "plain", asked.out / asked.query)
    )
    assert list(published.schema) == list(plain.schema), "names, types and nullability"
    assert published.to_table().to_pylist() == plain.to_table().to_pylist()


def kind(type_: pa.DataType) -> str:
    """What a value is, whatever its width: engines differ in the width of a sum, not in whether it is a number."""
    if pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0):
        return "integer"
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    return "text" if pa.types.is_string(type_) or pa.types.is_string_view(type_) else str(type_)


def unit(type_: pa.DataType) -> float:
    """The step between neighbours of a decimal type: Spark rounds averages and quotients of decimals to it."""
    return 10.0**-type_.scale if pa.types.is_decimal(type_) else 0.0


def same(one: object, other: object, step: float) -> bool:
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal):
        return abs(float(one) - float(other)) <= max(1e-9 * abs(float(other)), step / 2 * (1 + 1e-6))
    return one == other
