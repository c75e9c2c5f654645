"""Spark types that Parquet cannot store."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, StructType


def unwritable_reason(kind: DataType) -> str | None:
    """The reason why a column of this type cannot be written as Parquet; None if it can."""
    if isinstance(kind, CalendarIntervalType):
        return "a calendar interval has no Parquet type"
    if isinstance(kind, ArrayType):
        return unwritable_reason(kind.elementType)
    if isinstance(kind, MapType):
        return unwritable_reason(kind.keyType) or unwritable_reason(kind.valueType)
    if isinstance(kind, StructType):
        names = [each.name.lower() for each in kind.fields]
        if not names:
            return "a struct without fields has no Parquet type"
        if len(set(names)) < len(names):
            return "a struct has two fields whose names differ in case only"
        return next((reason for each in kind.fields if (reason := unwritable_reason(each.dataType))), None)
    return None
