"""Groups of rows: aggregation, the handles that are members, and joins that find the group of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.spark.capture_columns import CaptureColumnNames, col, comparable, field_types, has_map, same_values


@dataclass(frozen=True)
class Members:
    """The rows of a group that are its members, and the handles that count: all, or those of one side."""

    places: tuple[int, ...]
    side: int | None = None

    @classmethod
    def all(cls, handles: int) -> Members:
        return cls(tuple(range(handles)))

    def select_rows(self, rows: DataFrame, names: CaptureColumnNames) -> DataFrame:
        return rows if self.side is None else rows.filter(col(names.side) == self.side)

    def columns(self, names: CaptureColumnNames) -> list[str]:
        return [names.handle(place) for place in self.places]

    def numbered_handles(self, names: CaptureColumnNames) -> list[Column]:
        """The handles that count, numbered from 0."""
        return [col(names.handle(place)).alias(names.handle(index)) for index, place in enumerate(self.places)]


def aggregate_rows(
    rows: DataFrame,
    keys: Sequence[str],
    measures: Sequence[Column],
    names: CaptureColumnNames,
    first: str | None = None,
) -> DataFrame:
    """One row per group: keys and measures; one row even over no input if there are no keys.

    Spark 4.3 groups maps incorrectly if a value is null. So they are grouped by their sorted entries, and the group has
    the map of one of its rows (the one with the smallest `first`, if such a column is given).
    """
    maps = {key: kind for key, kind in zip(keys, field_types(rows, keys), strict=True) if has_map(kind)}
    if not maps:
        if not measures and keys:
            return rows.select(*map(col, keys)).distinct()
        return rows.groupBy(*map(col, keys)).agg(*measures or [F.count(F.lit(1)).alias(names.copies)])
    plain = [key for key in keys if key not in maps]
    entries = [
        comparable(col(key), kind).alias(f"{names.prefix}entries{index}")
        for index, (key, kind) in enumerate(maps.items())
    ]
    shown = [(F.first(col(key)) if first is None else F.min_by(col(key), col(first))).alias(key) for key in maps]
    return rows.groupBy(*map(col, plain), *entries).agg(*measures, *shown)


@dataclass(frozen=True)
class Groups:
    """Materialised rows with a number each, the columns by which they are grouped, and the groups whose members are
    needed.

    The id of a group is its smallest row number. The rows are on disk, so the ids are always the same.
    """

    staged: DataFrame
    keys: tuple[str, ...]
    members: Members
    names: CaptureColumnNames
    ids: DataFrame

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        """One row per group: keys, measures, and the group's id."""
        number = F.min(col(self.names.row)).alias(self.names.group)
        return aggregate_rows(self.staged, self.keys, [*measures, number], self.names, self.names.row)

    def restrict_to(self, groups: DataFrame) -> Groups:
        """The same groups, with members of only these."""
        return Groups(self.staged, self.keys, self.members, self.names, groups)

    def table(self) -> DataFrame:
        """(group, handles…): one row per member of a group."""
        return members_by_key(self.staged, self.keys, self.ids, self.keys, self.names.group, self.members, self.names)


def build_groups(staged: DataFrame, keys: Sequence[str], members: Members, names: CaptureColumnNames) -> Groups:
    groups = Groups(staged, tuple(keys), members, names, staged)
    return groups.restrict_to(groups.aggregate([]))


def members_by_dataset_key(
    below: DataFrame,
    keys: Sequence[str],
    dataset: DataFrame,
    shown: Sequence[str],
    members: Members,
    names: CaptureColumnNames,
) -> DataFrame:
    """(group, handles…): rows below a breaker with the row ids (handle 0) of the dataset that has their keys."""
    return members_by_key(below, keys, dataset, shown, names.handle(0), members, names)


def members_by_key(
    rows: DataFrame,
    keys: Sequence[str],
    groups: DataFrame,
    group_keys: Sequence[str],
    group_id: str,
    members: Members,
    names: CaptureColumnNames,
) -> DataFrame:
    """(group, handles…): the group of each row, found by key, compared as in GROUP BY."""
    found = [names.prefix + f"found{index}" for index in range(len(keys))]
    ids = groups.select(
        *[col(key).alias(name) for key, name in zip(group_keys, found, strict=True)], col(group_id).alias(names.group)
    )
    wanted = [col(names.group), *members.numbered_handles(names)]
    chosen = members.select_rows(rows, names)
    if not keys:
        return chosen.crossJoin(F.broadcast(ids)).select(*wanted)
    same = same_values(list(map(col, keys)), list(map(col, found)), field_types(rows, keys))
    return chosen.join(ids, same).select(*wanted)
