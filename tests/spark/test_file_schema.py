"""Schemas of Parquet files from their footers: those that Spark infers, or none."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.spark.file_scan import read_files
from lineage_service.spark.file_schema import MOST_FILES, schema_of_files

PLAIN = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(), "f": pa.float32(), "d": pa.float64(),
    "s": pa.string(), "large": pa.large_string(), "b": pa.bool_(), "day": pa.date32(), "p5": pa.decimal128(5, 2),
    "p18": pa.decimal128(18, 0), "p38": pa.decimal128(38, 10), "a b.c`d": pa.int64(), "UPPER": pa.string(),
}  # fmt: skip
# Spark reads these in ways that depend on its settings, or makes another type of them.
ONLY_SPARK_KNOWS = {
    "u8": pa.uint8(), "u32": pa.uint32(), "u64": pa.uint64(), "binary": pa.binary(), "fixed": pa.binary(4),
    "ms": pa.timestamp("ms"), "us": pa.timestamp("us"), "zoned": pa.timestamp("us", tz="UTC"), "time": pa.time64("us"),
    "nested": pa.struct([("x", pa.int32())]), "array": pa.list_(pa.int64()), "map": pa.map_(pa.string(), pa.int64()),
}  # fmt: skip


def written(path, types, **options):
    pq.write_table(pa.table({name: pa.array([], kind) for name, kind in types.items()}), path, **options)
    return str(path)


def test_plain_types_are_those_that_spark_infers(spark, tmp_path):
    for number, kind in enumerate(PLAIN.values()):
        path = written(tmp_path / f"{number}.parquet", {"x": kind})
        assert schema_of_files([path]) == spark.read.parquet(path).schema, kind
    path = written(tmp_path / "all.parquet", PLAIN)
    assert schema_of_files([path]) == spark.read.parquet(path).schema
    dictionary = written(tmp_path / "dictionary.parquet", {"x": pa.dictionary(pa.int32(), pa.string())})
    assert schema_of_files([dictionary]) in (None, spark.read.parquet(dictionary).schema)
    required = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"x": [1]}, schema=required), tmp_path / "required.parquet")
    path = str(tmp_path / "required.parquet")
    assert schema_of_files([path]) == spark.read.parquet(path).schema


@pytest.mark.parametrize("name", ONLY_SPARK_KNOWS)
def test_other_types_are_left_to_spark(name, tmp_path):
    kind = ONLY_SPARK_KNOWS[name]
    assert schema_of_files([written(tmp_path / "x.parquet", {"ok": pa.int64(), "x": kind})]) is None


def test_what_spark_wrote_is_believed_as_spark_does(spark, tmp_path):
    row = (1, "x", datetime.datetime(2024, 1, 2), decimal.Decimal("1.50"), [1], {"k": 2}, (3, "y"), b"z")
    ddl = ("i INT NOT NULL, s STRING, t TIMESTAMP, p DECIMAL(10,2), a ARRAY<INT>, m MAP<STRING, INT>, "
           "n STRUCT<x: INT, y: STRING>, z BINARY, ntz TIMESTAMP_NTZ, gap INTERVAL DAY TO SECOND")  # fmt: skip
    frame = spark.createDataFrame([(*row, None, None)], ddl)
    frame.write.parquet(str(tmp_path / "out"))
    files = [str(path) for path in (tmp_path / "out").glob("*.parquet")]
    assert schema_of_files(files) == spark.read.parquet(*files).schema.fromJson(frame.schema.jsonValue())
    assert read_files(spark, files).schema == spark.read.parquet(*files).schema
    assert read_files(spark, files).collect() == spark.read.parquet(*files).collect()


def test_comments_and_lengths_are_left_to_spark(spark, tmp_path):
    spark.sql("SELECT 1 AS x").withMetadata("x", {"comment": "a number"}).write.parquet(str(tmp_path / "out"))
    files = [str(path) for path in (tmp_path / "out").glob("*.parquet")]
    assert schema_of_files(files) is None
    assert read_files(spark, files).schema == spark.read.parquet(*files).schema


def test_files_that_differ_and_files_that_cannot_be_read(tmp_path):
    one = written(tmp_path / "1.parquet", {"x": pa.int64()})
    other = written(tmp_path / "2.parquet", {"x": pa.int32()})
    (tmp_path / "3.parquet").write_bytes(b"nothing")
    assert schema_of_files([one, one]) is not None
    assert schema_of_files([one, other]) is None
    assert schema_of_files([one, str(tmp_path / "3.parquet")]) is None
    assert schema_of_files([]) is None
    assert schema_of_files([one] * (MOST_FILES + 1)) is None
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["a"])], names=["x", "x"])
    pq.write_table(twice, tmp_path / "4.parquet")
    assert schema_of_files([str(tmp_path / "4.parquet")]) is None


def test_no_job_is_run_for_a_schema(spark, tmp_path):
    path = written(tmp_path / "x.parquet", PLAIN)
    context = spark.sparkContext
    context.setJobGroup("file schema", "")
    try:
        read_files(spark, [path])
        assert not context.statusTracker().getJobIdsForGroup("file schema")
        read_files(spark, [path], options={"mergeSchema": "false"})
        assert context.statusTracker().getJobIdsForGroup("file schema"), "Spark's own way takes a job"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
