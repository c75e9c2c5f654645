"""Hashes of keys during capture, by which a row finds its group without a join.

There are two hashes of 64 bits. The first is the group's id. The second is compared wherever the first is equal, so
that a collision is detected. Equality is that of GROUP BY: null equals null at every level, NaN equals NaN, -0.0 equals
0.0, maps are compared by their entries. Both hashes use a salt, which is removed when the index is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from lineage_service.spark.capture_columns import comparable, has_map

_PLAIN = (
    BinaryType, BooleanType, ByteType, DateType, DayTimeIntervalType, DecimalType, DoubleType, FloatType, IntegerType,
    LongType, NullType, ShortType, TimestampNTZType, TimestampType, YearMonthIntervalType,
)  # fmt: skip
CHECK = 0x5BD1E995  # makes the second hash another one


def is_hashable(kind: DataType) -> bool:
    """Whether equal values of a type (as in GROUP BY) always have equal hashes."""
    if isinstance(kind, StringType):
        return getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    if isinstance(kind, ArrayType):
        return is_hashable(kind.elementType)
    if isinstance(kind, MapType):
        return is_hashable(kind.keyType) and is_hashable(kind.valueType)
    if isinstance(kind, StructType):
        return all(is_hashable(field.dataType) for field in kind.fields)
    return isinstance(kind, _PLAIN)


def key_hashes(frame: DataFrame, keys: Sequence[Column], types: Sequence[DataType], salt: int) -> tuple[Column, Column]:
    """The id of the group of each row of `frame`, and the second hash."""
    if any(has_map(kind) for kind in types):
        keys = [comparable(key, kind) for key, kind in zip(keys, types, strict=True)]
        types = [field.dataType for field in frame.select(*keys).schema.fields]
    parts = [part for key, kind in zip(keys, types, strict=True) for part in _parts(key, kind, salt)]
    return F.xxhash64(_long(salt), *parts), F.xxhash64(_long(salt ^ CHECK), *reversed(parts))


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _parts(column: Column, kind: DataType, salt: int) -> list[Column]:
    """The values that are hashed for a value. xxhash64 ignores nulls, so each value is preceded by whether it
    is null.
    """
    if isinstance(kind, NullType):
        return []
    if isinstance(kind, DoubleType | FloatType):
        return [column.isNull(), _normal(column, kind)]
    if isinstance(kind, StructType):
        fields = [_parts(column.getField(field.name), field.dataType, salt) for field in kind.fields]
        return [column.isNull(), *(part for parts in fields for part in parts)]
    if isinstance(kind, ArrayType):
        element = kind.elementType
        folded = F.aggregate(column, _long(salt), lambda so_far, item: F.xxhash64(so_far, *_parts(item, element, salt)))
        return [column.isNull(), F.size(column), folded]
    return [column.isNull(), column]


def _normal(column: Column, kind: DataType) -> Column:
    zero, nan = F.lit(0.0).cast(kind), F.lit(float("nan")).cast(kind)
    return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
