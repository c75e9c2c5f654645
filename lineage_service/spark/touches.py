"""Touches: what is known of the touched rows of a step, and which rows of a relation match it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from lineage_service.capture.handles import Handle, Role, Space
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.relation import Relation


class AllRowsTouched(Exception):
    """It cannot be determined which rows are touched, so all are. Has the reason."""


@dataclass(frozen=True)
class Touch:
    """Touched rows of a step: values of the known `columns` and, if they come from rows of one dataset (the `seed`),
    the ids of those rows (column `row` of our names).
    """

    frame: DataFrame
    columns: tuple[str, ...]
    seed: Space | None = None
    lost: bool = False  # rows that went and can no longer be read: only their ids are known

    def knows(self, columns: set[str]) -> bool:
        return columns <= {name.lower() for name in self.columns}


def restrict_rows(
    rows: Relation, handles: Sequence[Handle], touches: Sequence[Touch], names: CaptureColumnNames
) -> DataFrame:
    """The rows that match the touches, by their seed's ids or by known values."""
    conditions = [_match_conditions(handles, touch, number, names) for number, touch in enumerate(touches)]
    if len(conditions) == 1 and len(conditions[0]) == 1:
        ((looked, condition),) = conditions[0]
        return rows.frame.join(looked, condition, "left_semi")
    frame, flags = rows.frame, []
    for number, (looked, condition) in enumerate(each for found in conditions for each in found):
        flag = f"{names.prefix}meant{number}"
        frame = frame.join(looked.withColumn(flag, F.lit(True)), condition, "left")
        flags.append(col(flag).isNotNull())
    return frame.filter(reduce(or_, flags)).select(*map(col, rows.frame.columns))


def _match_conditions(
    handles: Sequence[Handle], touch: Touch, number: int, names: CaptureColumnNames
) -> list[tuple[DataFrame, Column]]:
    """The frames to join with, and the conditions; several if rows of the seed are in several handles."""
    prefix = f"{names.prefix}t{number}_"
    places = [index for index, handle in enumerate(handles) if handle.space == touch.seed]
    if touch.seed is not None and places:
        found = []
        for place in places:
            name = f"{prefix}{place}"
            seeds = touch.frame.select(col(names.row).alias(name)).distinct()
            found.append((F.broadcast(seeds), col(names.handle(place)) == col(name)))
        return found
    known = comparable_columns(touch)
    if not known:
        raise AllRowsTouched("touched rows cannot be identified by columns that can be compared")
    renamed = {name: f"{prefix}{index}" for index, name in enumerate(known)}
    looked = touch.frame.select(*[col(name).alias(new) for name, new in renamed.items()]).distinct()
    same = [col(name).eqNullSafe(col(new)) for name, new in renamed.items()]
    return [(F.broadcast(looked), reduce(and_, same))]


def comparable_columns(touch: Touch) -> tuple[str, ...]:
    """The known columns whose values can be compared for equality."""
    kinds = {each.name: each.dataType for each in touch.frame.schema.fields}
    return tuple(name for name in touch.columns if _comparable(kinds[name]))


def _comparable(kind: DataType) -> bool:
    if isinstance(kind, MapType | VariantType | ArrayType | StructType):
        return False
    return "collate" not in kind.simpleString().lower()


def is_row_wise(handles: Sequence[Handle]) -> bool:
    """Whether a row is identified by the dataset rows that it carries, without a group."""
    return bool(handles) and all(each.role is Role.OWN and each.space.is_dataset for each in handles)
