"""Groups of staged rows: each group's id is the smallest row number in it, and each row finds its group by key.

The rows are on disk, so the ids are the same however often they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.spark.columns import Names, col, cols, comparable, field_types, has_map, same_values


@dataclass(frozen=True)
class Groups:
    """Staged rows, the columns they are grouped by, and the groups to which members are wanted."""

    staged: DataFrame
    keys: tuple[str, ...]
    handles: int
    names: Names
    ids: DataFrame

    @property
    def rows(self) -> DataFrame:
        return self.staged

    def aggregated(self, measures: Sequence[Column]) -> DataFrame:
        """One row per group: keys, measures, and the group's id; one row over nothing where there are no keys."""
        number = F.min(col(self.names.row)).alias(self.names.group)
        maps = {
            key: kind for key, kind in zip(self.keys, field_types(self.staged, self.keys), strict=True) if has_map(kind)
        }
        if not maps:
            return self.staged.groupBy(*map(col, self.keys)).agg(*measures, number)
        # Spark 4.3 groups maps wrongly where a value is null: they are grouped by their sorted entries, and the
        # group shows the map of its first row.
        plain = [key for key in self.keys if key not in maps]
        entries = [
            comparable(col(key), kind).alias(f"{self.names.prefix}entries{i}")
            for i, (key, kind) in enumerate(maps.items())
        ]
        shown = [F.min_by(col(key), col(self.names.row)).alias(key) for key in maps]
        return self.staged.groupBy(*map(col, plain), *entries).agg(*measures, number, *shown)

    def only(self, groups: DataFrame) -> Groups:
        """The same, with members only of these groups."""
        return Groups(self.staged, self.keys, self.handles, self.names, groups)

    def members(self, extra: Sequence[str] = ()) -> DataFrame:
        """(group, handles…): one row per staged row of a group."""
        names = self.names
        found = [names.prefix + f"found{index}" for index in range(len(self.keys))]
        ids = self.ids.select(
            *[col(key).alias(name) for key, name in zip(self.keys, found, strict=True)], col(names.group)
        )
        wanted = [col(names.group), *cols(names.handles(self.handles)), *map(col, extra)]
        if not self.keys:
            return self.staged.crossJoin(F.broadcast(ids)).select(*wanted)
        same = same_values(list(map(col, self.keys)), list(map(col, found)), field_types(self.staged, self.keys))
        return self.staged.join(ids, same).select(*wanted)


def grouped(staged: DataFrame, keys: Sequence[str], handles: int, names: Names) -> Groups:
    groups = Groups(staged, tuple(keys), handles, names, staged)
    return groups.only(groups.aggregated([]))
