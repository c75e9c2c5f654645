"""The schema of Parquet files, read from their footers. Spark would run a job to infer it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql.types import StructType

from lineage_service.equivalence.type_names import spark_type_of_arrow

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # Spark writes it into footers, and believes it
MOST_FILES = 64  # past that, Spark's one job is cheaper than reading every footer here
IN_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}  # else as in SQL
BY_SETTING = ("binary",)  # a setting of Spark reads it as text


def parse_schema_text(ddl: str) -> StructType:
    """A declared schema. Spark calls the only column `value` if the text is a single type."""
    parsed = StructType.fromDDL(ddl)
    return parsed if isinstance(parsed, StructType) else StructType().add("value", parsed)


def schema_of_files(files: Sequence[str]) -> StructType | None:
    """The schema that Spark infers from these files. None if only Spark can determine it: the files differ, have nested
    columns that were not written by Spark, have types that depend on settings, or cannot be read.
    """
    if not 0 < len(files) <= MOST_FILES:
        return None
    first, *others = [_schema_of(file) for file in files]
    return first if first is not None and all(other == first for other in others) else None


def _schema_of(path: str) -> StructType | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        fields = list(metadata.schema.to_arrow_schema())
    except (pa.ArrowException, OSError):
        return None
    written = (metadata.metadata or {}).get(SPARK_SCHEMA)
    if written is not None:
        return _schema_spark_wrote(written.decode("utf-8", "replace"))
    types = {field.name: spark_type_of_arrow(str(field.type)) for field in fields}
    plain = {name: kind for name, kind in types.items() if kind is not None and kind not in BY_SETTING}
    if not fields or len(plain) != len(fields):
        return None
    columns = [
        {"name": name, "type": IN_JSON.get(kind, kind), "nullable": True, "metadata": {}}
        for name, kind in plain.items()
    ]
    return StructType.fromJson({"type": "struct", "fields": columns})


def _schema_spark_wrote(text: str) -> StructType | None:
    """The schema that Spark stored in the file; None if columns have metadata, because Spark interprets some of it,
    such as CHAR and VARCHAR.
    """
    if '"udt"' in text or text.count('"metadata":{') != text.count('"metadata":{}'):
        return None
    try:
        return StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None
