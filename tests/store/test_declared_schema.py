"""A declared schema is read as Spark reads it: no column is left out, and what Spark refuses is an error."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import WorkflowError
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.store.declared_schema import parse_declared_schema

READ = {
    "order_id: BIGINT, customer_id BIGINT": "order_id:bigint,customer_id:bigint",
    "a:int,b : string not null": "a:int,b:string",
    "a int NOT NULL COMMENT 'x, y int', b string": "a:int,b:string",
    r"a int comment 'it\'s, b int' \"c\", d date".replace('\\"', '"'): "a:int,d:date",
    "`a b` int, `x``y`: struct<a:int,`b c`: string NOT NULL COMMENT 'z, >'>": "a b:int,x`y:struct<a:int,b c:string>",
    "a struct<x int, y: array<map<string, struct<>>>>": "a:struct<x:int,y:array<map<string,struct<>>>>",
    "date date, timestamp: timestamp, order int, array: int": "date:date,timestamp:timestamp,order:int,array:int",
    "primary int, key int, constraint: int, check int, like int": "primary:int,key:int,constraint:int,check:int,like:int",
    "a dec(3,2), b numeric, c: decimal(5), d real": "a:decimal(3,2),b:decimal(10,0),c:decimal(5,0),d:float",
    "a long, b short, c byte, d integer": "a:bigint,b:smallint,c:tinyint,d:int",
    "a interval day to second, b interval year, c interval": "a:interval day to second,b:interval year,c:interval",
    "a timestamp without time zone, b timestamp_ltz": "a:timestamp_ntz,b:timestamp",
    "a time, b time(3), c variant, d void, e binary": "a:time(6),b:time(3),c:variant,d:void,e:binary",
    "a string collate utf8_binary, b character(3), c varchar(4)": "a:string,b:char(3),c:varchar(4)",
    "a int -- first, of two\n, b int /* last, c int */": "a:int,b:int",
    "struct<a: int, b string>": "a:int,b:string",
    "1a int": "1a:int",
}  # fmt: skip

REFUSED = {
    "a int, b": "column 'b' has no type",
    "a int b int": "'b' cannot follow column 'a'",
    "a int,": "a column is missing",
    "a int,, b int": "a column is missing",
    "b string DEFAULT 'a, b'": "'DEFAULT' cannot follow column 'b'",
    "a int GENERATED ALWAYS AS (b + 1), b int": "'GENERATED' cannot follow",
    "a int primary key": "'primary' cannot follow",
    "a int COMMENT 'x' NOT NULL": "'NOT' cannot follow",
    "a int COMMENT x": "the comment of column 'a' needs quotes",
    "a-b int": "'a-b' is no name of a column without backquotes",
    "a.b int": "'a.b' is no name of a column without backquotes",
    "ä int": "'ä' is no name of a column without backquotes",
    '"a" int': "'a' is no name of a column without backquotes",
    "a varchar": "`varchar` of column 'a' needs a length",
    "a array": "its end cannot follow `array` of column 'a'",
    "a array<int": "its end cannot follow `array` of column 'a'",
    "a map<int>": "'>' cannot follow `map` of column 'a'",
    "a struct<x: int, y>": "column 'y' has no type",
    "a decimal(5,2,1)": "needs one or two numbers",
    "a bigin": "'bigin' is not a Spark type",
    "a int; b int": "';' cannot follow",
    "a 'int": "column 'a' has no type",
}


def text_of(columns):
    return ",".join(f"{each.name}:{each.type}" for each in columns)


@pytest.mark.parametrize("ddl", READ)
def test_every_column_is_read(ddl):
    assert text_of(parse_declared_schema(ddl)).replace("`", "") == READ[ddl].replace("`", "")


@pytest.mark.parametrize("ddl", REFUSED)
def test_what_cannot_be_read_is_an_error(ddl):
    with pytest.raises(WorkflowError) as refused:
        parse_declared_schema(ddl)
    assert REFUSED[ddl] in str(refused.value)


def test_a_type_that_is_nested_too_deeply_is_refused():
    with pytest.raises(WorkflowError, match="nested too deeply"):
        parse_declared_schema(f"a {'array<' * 3000}int{'>' * 3000}")


WORKFLOW = """
version: 1
name: shop
sources:
  orders: {path: %s, schema: "%s"}
steps:
  - {name: large, op: filter, input: orders, where: "order_id > 1 and customer_id > 1"}
outputs: {large: {}}
"""


def test_columns_with_a_colon_are_known_to_the_steps(tmp_path):
    (tmp_path / "orders.csv").write_text("1,2\n")
    file = tmp_path / "flow.yml"
    file.write_text(WORKFLOW % ("orders.csv", "order_id: BIGINT, customer_id BIGINT"))
    assert validate_workflow(file) == ()
    file.write_text(WORKFLOW % ("orders.csv", "order_id BIGINT, customer_id"))
    with pytest.raises(
        WorkflowError, match=r"flow\.yml:5:38: source 'orders': schema: column 'customer_id' has no type"
    ):
        validate_workflow(file)


def test_spark_reads_the_same_and_refuses_the_same(spark):
    from lineage_service.spark.file_schema import parse_schema_text

    for ddl, expected in READ.items():
        assert parse_schema_text(ddl).simpleString() == f"struct<{expected}>", ddl
    for ddl in REFUSED:
        with pytest.raises(Exception, match="SQLSTATE: "):
            parse_schema_text(ddl)


def test_parquet_files_take_such_a_schema_too(spark, tmp_path):
    pq.write_table(pa.table({"order_id": [1, 2], "customer_id": [5, 6]}), tmp_path / "orders.parquet")
    (tmp_path / "flow.yml").write_text(WORKFLOW % ("orders.parquet", "order_id: BIGINT, customer_id BIGINT"))
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "flow.yml")
        assert [row["order_id"] for row in home.rows("large").to_pylist()] == [2]
