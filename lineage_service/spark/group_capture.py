"""Captures the groups of breakers by the strategy that capture/ chose.

An operator defines its groups and does not depend on the strategy. The result has the groups' rows with their ids, and
leaves the members where the index finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import DataType

from lineage_service.capture.handles import Space, group_space, side_space
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.capture.strategies import LATER
from lineage_service.spark.capture_columns import CaptureColumnNames, col, field_types, no_id
from lineage_service.spark.groups import Groups, Members, aggregate_rows, build_groups, members_by_dataset_key
from lineage_service.spark.key_hashes import is_hashable, key_hashes
from lineage_service.spark.staging import Stage

UNHASHABLE = "a key has a type without a hash of its own"


class MustStage(Exception):
    """A breaker can only be staged, because of the types of its keys, but another strategy was chosen."""

    def __init__(self, each: InstrumentedNode, reason: str) -> None:
        super().__init__(reason)
        self.each = each
        self.reason = reason


def require_stage(each: InstrumentedNode, reason: str) -> None:
    if each.choice is not None and each.choice.strategy != "stage":
        raise MustStage(each, reason)


class GroupCapture(Protocol):
    """Groups of rows under capture."""

    @property
    def rows(self) -> DataFrame:
        """The grouped rows, with their handles."""

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        """One row per group: keys, measures, and the group's id."""

    def leave(self, groups: DataFrame | None = None) -> None:
        """Writes the table of members or leaves it for later. If members are found by a join, only those of these
        groups.
        """


def capture_groups(
    each: InstrumentedNode,
    below: DataFrame,
    keys: Sequence[str],
    members: Members,
    stage: Stage,
    names: CaptureColumnNames,
) -> GroupCapture:
    """The rows below a breaker, grouped by these columns and captured by the chosen strategy."""
    assert each.choice is not None
    if each.is_direct:
        return _DirectGroups(each, below, tuple(keys), members, stage, names)
    if each.choice.strategy == "inject":
        return _InjectedGroups(each, below, tuple(keys), members, stage, names)
    types = field_types(below, keys)
    if not all(map(is_hashable, types)):
        require_stage(each, UNHASHABLE)
        numbered = below.withColumn(names.row, F.monotonically_increasing_id())
        staged = stage.write_once(each.label_below, numbered, each.node.position)
        return _NumberedGroups(each, build_groups(staged, keys, members, names), stage)
    return HashedGroups(each, below, tuple(keys), members, stage, names)


def capture_window_rows(
    each: InstrumentedNode, computed: DataFrame, handles: int, stage: Stage, names: CaptureColumnNames
) -> DataFrame:
    """A window's rows, each with its position in the order in which measures were computed. Rows and bounds are written
    with the stage.
    """
    assert each.choice is not None
    if each.choice.is_pruned:
        return computed.withColumn(names.group, no_id())
    return stage.write_window_rows(each, computed, handles)


def _with_hashes(
    below: DataFrame, keys: Sequence[str], types: Sequence[DataType], stage: Stage, names: CaptureColumnNames
) -> DataFrame:
    group, check = key_hashes(below, [col(key) for key in keys], types, stage.salt)
    return below.withColumns({names.group: group, names.check: check})


@dataclass
class _RowsByKey:
    """Rows below a breaker, and the columns by which they are grouped."""

    each: InstrumentedNode
    below: DataFrame
    keys: tuple[str, ...]
    members: Members
    stage: Stage
    names: CaptureColumnNames

    @property
    def rows(self) -> DataFrame:
        return self.below

    @property
    def space(self) -> Space:
        return group_space(self.each.node.id)


@dataclass
class HashedGroups(_RowsByKey):
    """Groups whose ids are hashes of their keys, so that members need no join. Written once, or read again later."""

    def __post_init__(self) -> None:
        self.later = self.each.choice is not None and self.each.choice.strategy in LATER
        if not self.later:
            self.below = self.stage.write_once(self.each.label_below, self._rows_with_hashes(), self.each.node.position)

    def _rows_with_hashes(self) -> DataFrame:
        return _with_hashes(self.below, self.keys, field_types(self.below, self.keys), self.stage, self.names)

    def ids(self, frame: DataFrame, keys: Sequence[Column], types: Sequence[DataType]) -> Column:
        """The ids of the groups of rows with these keys."""
        return key_hashes(frame, keys, types, self.stage.salt)[0]

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        rows = aggregate_rows(self.below, self.keys, measures, self.names)
        types = field_types(rows, self.keys)
        return rows.withColumn(self.names.group, self.ids(rows, [col(key) for key in self.keys], types))

    def leave(self, groups: DataFrame | None = None) -> None:
        _ = groups  # members of groups that nobody shows are left out of the index anyway
        space, members, names = self.space, self.members, self.names
        if self.later:

            def hashed_members(_: DataFrame | None) -> DataFrame:
                rows = members.select_rows(self._rows_with_hashes(), names)
                return rows.select(col(names.group), col(names.check), *members.numbered_handles(names))

            self.stage.defer_table(space, hashed_members, self.each)
        else:
            where = None if members.side is None else f"{names.side} = {members.side}"
            self.stage.same_rows(space, self.each.label_below, members.columns(names), where)


@dataclass
class _NumberedGroups:
    """Groups of materialised rows whose ids are row numbers. Used for keys without a hash."""

    each: InstrumentedNode
    groups: Groups
    stage: Stage

    @property
    def rows(self) -> DataFrame:
        return self.groups.staged

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        return self.groups.aggregate(measures)

    def leave(self, groups: DataFrame | None = None) -> None:
        chosen = self.groups if groups is None else self.groups.restrict_to(groups)
        self.stage.table(group_space(self.each.node.id), chosen.table, self.each.node.position)


@dataclass
class _InjectedGroups(_RowsByKey):
    """Groups whose members are a list in their rows, up to the dataset that contains them, or written once."""

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        names = self.names
        member: Column = F.struct(*self.members.numbered_handles(names))
        if self.members.side is not None:
            member = F.when(col(names.side) == self.members.side, member)  # a list leaves nulls out
        listed = F.collect_list(member).alias(names.group)
        rows = aggregate_rows(self.below, self.keys, [*measures, listed], names)
        if self.each.carrier is not None:
            return rows
        return self.stage.groups(self.each, self.space, rows, len(self.members.places))

    def leave(self, groups: DataFrame | None = None) -> None:
        _ = groups
        if self.each.carrier is not None:
            self.stage.note_carried_table(self.space, self.each.carrier, len(self.members.places))


@dataclass
class _DirectGroups(_RowsByKey):
    """Groups whose members are looked up in the sources, by the key columns of the dataset that contains the groups."""

    def aggregate(self, measures: Sequence[Column]) -> DataFrame:
        # The id is the row's own in that dataset, and known only there: here the column just keeps its place.
        rows = aggregate_rows(self.below, self.keys, measures, self.names)
        return rows.withColumn(self.names.group, F.lit(0).cast("bigint"))

    def leave(self, groups: DataFrame | None = None) -> None:
        _ = groups
        direct, names = self.each.direct, self.names
        assert direct is not None
        shown = direct.dataset_key_columns

        def members(dataset: DataFrame | None) -> DataFrame:
            assert dataset is not None
            return members_by_dataset_key(self.below, self.keys, dataset, shown, self.members, names)

        self.stage.defer_table(self.space, members, self.each)


def leave_side_table(each: InstrumentedNode, ids: DataFrame, stage: Stage) -> None:
    """Writes the table of the right side of an anti join or difference: all its rows are one group."""
    assert each.choice is not None
    space = side_space(each.node.id)
    if each.choice.strategy in LATER:
        stage.defer_table(space, lambda _: ids, each)
    else:
        stage.table(space, lambda: ids, each.node.position)
