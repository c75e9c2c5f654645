"""Queries of sql/queries.sql as sql steps: names, types, rows and order are those of spark.sql over the same tables."""

import datetime
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

from lineage_service import Home

QUERIES = (Path(__file__).parent / "sql" / "queries.sql").read_text(encoding="utf-8").strip().split("\n\n")
HALVES = [pytest.param(0, id="even"), pytest.param(1, id="odd", marks=pytest.mark.slow)]


def day(text: str | None) -> datetime.date | None:
    return None if text is None else datetime.date.fromisoformat(text)


TABLES = {
    "orders": {
        "id": pa.array([1, 2, 3, 4, None, 6]),
        "cust": pa.array([1, 1, 2, None, 3, 9]),
        "amount": pa.array([5.0, None, 7.5, 1.0, 2.0, float("nan")]),
        "day": pa.array(
            [day(each) for each in ("2020-01-01", "2020-05-01", "2021-01-01", None, "2021-03-03", "2020-01-01")]
        ),
    },
    "customer": {
        "id": pa.array([1, 2, 3, None]),
        "name": pa.array(["ann", "bob", "cy", "dee"]),
        "city": pa.array(["x", "y", "x", None]),
    },
    "item": {
        "order_id": pa.array([1, 1, 2, 3, 7, None]),
        "sku": pa.array(["a", "b", "a", "c", "a", "b"]),
        "qty": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
    },
}
TYPES = {"bigint": "int64", "int": "int32", "double": "double", "string": "string", "date": "date32[day]",
         "boolean": "bool", "tinyint": "int8",
         "struct<cust:bigint,id:bigint>": "struct<cust: int64, id: int64>"}  # fmt: skip


@pytest.mark.parametrize("half", HALVES)
def test_queries(half: int, spark, tmp_path: Path):
    queries = {f"q{number}": query for number, query in enumerate(QUERIES) if number % 2 == half}
    for name, columns in TABLES.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    flow = {
        "version": 1,
        "name": "queries",
        "sources": {name: {"path": f"{name}.parquet"} for name in TABLES},
        "steps": [{"name": name, "op": "sql", "query": query} for name, query in queries.items()],
        "outputs": {name: {} for name in queries},
    }
    (tmp_path / "queries.yml").write_text(json.dumps(flow), encoding="utf-8")
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "queries.yml")
        for name in TABLES:
            spark.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView(name)
        wrong = [fault for name, query in queries.items() for fault in faults_of(home, name, spark.sql(query), query)]
        for name in TABLES:
            spark.catalog.dropTempView(name)
    assert not wrong, "\n".join(wrong)


def faults_of(home: Home, name: str, expected, query: str) -> list[str]:
    """Values are compared as they print, so that NaN equals NaN and 1 does not equal 1.0."""
    actual = home.rows(name).arrow().sort_by("_rid")
    columns = [each for each in actual.column_names if each != "_rid"]
    rows = [tuple(repr(row[column]) for column in columns) for row in actual.to_pylist()]
    wanted = [tuple(repr(v.asDict() if isinstance(v, Row) else v) for v in row) for row in expected.collect()]
    types = [str(actual.schema.field(column).type) for column in columns]
    kinds = [
        TYPES.get(kind, re.sub(r"decimal.(\d+),(\d+).", r"decimal128(\1, \2)", kind)) for _, kind in expected.dtypes
    ]
    is_ordered = "ORDER BY" in query.rpartition(")")[2]
    same = rows == wanted if is_ordered else sorted(rows) == sorted(wanted)
    if columns == expected.columns and types == kinds and same:
        return []
    return [f"{query}\n  spark.sql: {expected.columns} {kinds} {wanted}\n  step: {columns} {types} {rows}"]
