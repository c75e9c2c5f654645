"""The names of a type in Spark, DuckDB and Arrow."""

from __future__ import annotations

import re


def spark_type_of_arrow(kind: str) -> str | None:
    """Spark's name of an Arrow type; None if only Spark knows it."""
    plain = {"int32": "int", "int64": "bigint", "double": "double", "float": "float", "bool": "boolean",
             "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
             "large_binary": "binary", "binary_view": "binary", "date32[day]": "date", "int16": "smallint",
             "int8": "tinyint"}  # fmt: skip
    decimal = re.fullmatch(r"decimal\d+\((\d+), (\d+)\)", kind)
    return f"decimal({decimal[1]},{decimal[2]})" if decimal else plain.get(kind)


_DUCKDB_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ", "binary": "BLOB",
    "timestamp_ntz": "TIMESTAMP", "string": "VARCHAR",
}  # fmt: skip


def duckdb_type(spark_type: str) -> str | None:
    """DuckDB's name of a Spark type; None for nested and rare types, for which the file's own type is sufficient."""
    if spark_type.startswith("decimal("):
        return spark_type.upper()
    return _DUCKDB_TYPES.get(spark_type)


_SPARK_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INTEGER": "int", "BIGINT": "bigint", "FLOAT": "float",
    "DOUBLE": "double", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP WITH TIME ZONE": "timestamp", "BLOB": "binary",
    "TIMESTAMP": "timestamp_ntz", "VARCHAR": "string",
}  # fmt: skip


def spark_type_of_duckdb(kind: str) -> str:
    """Spark's name of a DuckDB type; empty for nested and rare types, for which the file's own type is sufficient."""
    if kind.startswith("DECIMAL("):
        return kind.lower().replace(" ", "")
    return _SPARK_TYPES.get(kind, "")
