"""Spark types that Parquet cannot store, and those that only Spark can read from it."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, StructType, TimeType, VariantType


def unwritable_reason(kind: DataType) -> str | None:
    """The reason why a column of this type cannot be written as Parquet; None if it can."""
    if isinstance(kind, CalendarIntervalType):
        return "a calendar interval has no Parquet type"
    if isinstance(kind, TimeType):
        return "Spark does not write a TIME; CAST(… AS STRING) keeps it as text"
    if isinstance(kind, StructType):
        names = [each.name.lower() for each in kind.fields]
        if not names:
            return "a struct without fields has no Parquet type"
        if len(set(names)) < len(names):
            return "a struct has two fields whose names differ in case only"
    return next((reason for each in _parts(kind) if (reason := unwritable_reason(each))), None)


def unreadable_reason(kind: DataType) -> str | None:
    """The reason why rows of a dataset cannot have a column of this type, although Spark could write it."""
    if isinstance(kind, VariantType):
        return "the parts of a VARIANT cannot be shown and compared; to_json() keeps it as text"
    return next((reason for each in _parts(kind) if (reason := unreadable_reason(each))), None)


def _parts(kind: DataType) -> list[DataType]:
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    if isinstance(kind, MapType):
        return [kind.keyType, kind.valueType]
    return [each.dataType for each in kind.fields] if isinstance(kind, StructType) else []
