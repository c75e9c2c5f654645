"""Our own columns beside the user's: names without clashes, row ids from file positions, comparable keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
)

from lineage_service.plan.expressions import quote_identifier


@dataclass(frozen=True)
class CaptureColumnNames:
    """Names of capture's columns, with a prefix that no column of the workflow has."""

    prefix: str

    @classmethod
    def apart_from(cls, columns: Iterable[str]) -> CaptureColumnNames:
        taken = [column.lower() for column in columns]
        number = 0
        while any(name.startswith(_prefix(number)) for name in taken):
            number += 1
        return cls(_prefix(number))

    def handle(self, index: int) -> str:
        return f"{self.prefix}h{index}"

    def handles(self, count: int) -> list[str]:
        return [self.handle(index) for index in range(count)]

    def key(self, index: int) -> str:
        return f"{self.prefix}k{index}"

    def measure(self, index: int) -> str:
        return f"{self.prefix}m{index}"

    def partition(self, index: int) -> str:
        """The column by which the files of a dataset are divided."""
        return f"{self.prefix}p{index}"

    @property
    def group(self) -> str:
        return f"{self.prefix}group"

    def bounds(self, frame: int) -> tuple[str, str]:
        """The columns with the first and the last position of a window's frame."""
        return f"{self.prefix}lo{frame}", f"{self.prefix}hi{frame}"

    @property
    def check(self) -> str:
        return f"{self.prefix}check"

    @property
    def row(self) -> str:
        return f"{self.prefix}row"

    @property
    def matched(self) -> str:
        return f"{self.prefix}matched"

    @property
    def side(self) -> str:
        return f"{self.prefix}side"

    @property
    def copies(self) -> str:
        return f"{self.prefix}copies"


def _prefix(number: int) -> str:
    return "_smoke_" if number == 0 else f"_smoke{number}_"


def col(name: str, side: str | None = None) -> Column:
    return F.col(quote_identifier(name) if side is None else f"{side}.{quote_identifier(name)}")


def cols(names: Sequence[str], side: str | None = None) -> list[Column]:
    return [col(name, side).alias(name) for name in names]


def no_id() -> Column:
    return F.lit(None).cast("bigint")


def decision_tree(key: Column, boundaries: Sequence[tuple[Any, Column]]) -> Column:
    """The value of the largest boundary that is not above `key`; boundaries ascend. The expression's depth is
    logarithmic in their number.
    """
    if len(boundaries) == 1:
        return boundaries[0][1]
    middle = len(boundaries) // 2
    return F.when(key < F.lit(boundaries[middle][0]), decision_tree(key, boundaries[:middle])).otherwise(
        decision_tree(key, boundaries[middle:])
    )


def same_values(left: Sequence[Column], right: Sequence[Column], types: Sequence[DataType]) -> Column:
    """Equality as in GROUP BY: null equals null and NaN equals NaN at every level; maps are compared by their
    entries.
    """
    condition = F.lit(True)
    for one, other, kind in zip(left, right, types, strict=True):
        if isinstance(kind, NullType):
            continue  # nothing but null, and null equals null; Spark would compare it to null
        condition = condition & comparable(one, kind).eqNullSafe(comparable(other, kind))
    return condition


def comparable(column: Column, kind: DataType) -> Column:
    """The column in a form that `<=>` accepts. Spark groups by maps, but compares only their sorted entries."""
    if not has_map(kind):
        return column
    if isinstance(kind, MapType):
        entry = ArrayType(
            StructType().add("key", kind.keyType, False).add("value", kind.valueType, True), containsNull=False
        )
        return F.array_sort(comparable(F.map_entries(column), entry))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(column, lambda item: comparable(item, element))
    if isinstance(kind, StructType):
        fields = [
            comparable(column.getField(field.name), field.dataType).alias(f"f{index}")
            for index, field in enumerate(kind.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column


def has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, ArrayType):
        return has_map(kind.elementType)
    return isinstance(kind, StructType) and any(has_map(field.dataType) for field in kind.fields)


_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def common_key_type(one: DataType, other: DataType) -> DataType | None:
    """The type in which `=` compares two types, if that is certain: equal types, or two integers."""
    if one == other:
        return one
    if isinstance(one, _INTEGERS) and isinstance(other, _INTEGERS):
        return max((one, other), key=lambda kind: [type(kind) is known for known in _INTEGERS].index(True))
    return None


def field_types(frame: DataFrame, names: Sequence[str]) -> list[DataType]:
    return [frame.schema[name].dataType for name in names]


_DEFAULTS: dict[type[DataType], Any] = {
    ByteType: 0, ShortType: 0, IntegerType: 0, LongType: 0, FloatType: 0.0, DoubleType: 0.0, StringType: "",
    BooleanType: False,
}  # fmt: skip


def with_nullability(frame: DataFrame, before: StructType) -> DataFrame:
    """Restores NOT NULL of columns that were not nullable before they were written.

    Spark reads every column of a file as nullable. Without this, the schema of an output would differ from that of the
    plain query.
    """
    never_null = {field.name: field.dataType for field in before.fields if not field.nullable}
    columns = []
    for name in frame.columns:
        kind = never_null.get(name)
        default = None if kind is None else _DEFAULTS.get(type(kind))
        if kind is None or default is None:
            columns.append(col(name))
        else:
            columns.append(F.coalesce(col(name), F.lit(default).cast(kind)).alias(name))
    return frame.select(*columns) if never_null else frame
