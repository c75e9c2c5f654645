"""Names of columns without an alias: each line of unnamed_columns.txt has the name that Spark gives it, or is refused."""

from pathlib import Path

import pytest

from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.nodes import PlanError, Source
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.sql_text import whole_file

EXPRESSIONS = (Path(__file__).parent / "unnamed_columns.txt").read_text(encoding="utf-8").splitlines()
TABLES = {
    "t": {"k": "int", "v": "bigint", "d": "double", "s": "string", "dt": "date", "ts": "timestamp", "b": "boolean",
          "arr": "array<int>", "m": "map<string,int>", "st": "struct<x:int,y:string>", "dec": "decimal(10,2)",
          "bin": "binary"},
    "u": {"k": "int", "w": "int", "s": "string"},
}  # fmt: skip
SOURCES = {
    name: Source(name, name, None, Schema(tuple(Column(column, kind) for column, kind in columns.items())))
    for name, columns in TABLES.items()
}
# So many are named at least, so that the test does not pass because all are refused.
NAMED = 525


def name_of(expression: str) -> str | None:
    try:
        (name,) = compile_sql(whole_file(f"SELECT {expression} FROM t", "q.sql"), "out", None, SOURCES).schema.names
    except PlanError as error:
        assert "has no name" in str(error), expression
        return None
    return name


@pytest.fixture
def views(spark):
    for name, columns in TABLES.items():
        schema = ", ".join(f"{column} {kind.replace(':', ': ')}" for column, kind in columns.items())
        spark.createDataFrame([], schema).createOrReplaceTempView(name)
    yield spark
    for name in TABLES:
        spark.catalog.dropTempView(name)


def test_names_are_those_of_spark(views):
    names = {each: name_of(each) for each in EXPRESSIONS}
    named = {each: name for each, name in names.items() if name is not None}
    assert len(named) >= NAMED
    other = {}
    for each, name in named.items():
        spark_name = views.sql(f"SELECT {each} FROM t").columns[0]
        if spark_name != name:
            other[each] = (name, spark_name)
    assert not other
