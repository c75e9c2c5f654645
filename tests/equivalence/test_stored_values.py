"""Type names in Spark, DuckDB and Arrow, and the columns of files that both engines read alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lineage_service.equivalence.spark_settings import means_the_same
from lineage_service.equivalence.stored_values import is_read_alike
from lineage_service.equivalence.type_names import duckdb_type, spark_type_of_arrow, spark_type_of_duckdb


@dataclass
class StoredColumn:
    type: str
    stored: str | None = "x"


@dataclass
class FileFooter:
    types: dict[str, str] = field(default_factory=dict)
    old_days: bool = False

    def type_of(self, name: str) -> str | None:
        return self.types.get(name)


@pytest.mark.parametrize(
    "kind", ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "binary", "string",
              "timestamp_ntz", "decimal(10,2)"],
)  # fmt: skip
def test_a_type_that_goes_to_duckdb_comes_back_as_itself(kind):
    assert spark_type_of_duckdb(str(duckdb_type(kind))) == kind


def test_types_without_a_counterpart_have_none():
    assert duckdb_type("array<int>") is None
    assert spark_type_of_duckdb("HUGEINT") == ""
    assert spark_type_of_arrow("uint64") is None
    assert spark_type_of_arrow("timestamp[us]") is None


@pytest.mark.parametrize(
    ("declared", "in_file", "alike"),
    [("int", "int32", True), ("bigint", "int32", True), ("int", "int64", False), ("string", "binary", False),
     ("decimal(10,2)", "decimal128(10, 2)", True), ("decimal(12,2)", "decimal128(10, 2)", False),
     ("double", "float", False), ("date", "date32[day]", True), ("timestamp", "timestamp[us]", False)],
)  # fmt: skip
def test_a_column_is_read_alike_where_the_file_names_its_type(declared, in_file, alike):
    assert is_read_alike(StoredColumn(declared), [FileFooter({"x": in_file})], rebased=False) is alike


def test_a_column_that_a_file_lacks_is_null_to_both():
    assert is_read_alike(StoredColumn("int"), [FileFooter({"x": "int32"}), FileFooter()], rebased=False)


def test_days_of_the_old_calendar_are_not_read_alike():
    assert not is_read_alike(StoredColumn("date"), [FileFooter({"x": "date32[day]"}, old_days=True)], rebased=False)
    assert not is_read_alike(StoredColumn("date"), [FileFooter({"x": "date32[day]"})], rebased=True)


@pytest.mark.parametrize(("kind", "alike"), [("int", True), ("date", True), ("decimal(5,2)", False), ("double", False)])
def test_values_in_the_names_of_folders(kind, alike):
    assert is_read_alike(StoredColumn(kind, stored=None), [FileFooter()], rebased=False) is alike


def test_settings_under_which_nothing_here_holds():
    assert means_the_same({"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "4"})
    assert not means_the_same({"spark.sql.legacy.timeParserPolicy": "LEGACY"})
    assert not means_the_same({"spark.sql.caseSensitive": "true"})
