"""How a breaker's rows and members are got, by the strategy that capture/ chose for it.

An operator says what its groups are; which way they are captured is decided here and nowhere else. A strategy
gives a `Captured`: the group's rows with their id, and the members of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.instrument import Instrumented
from lineage_service.spark.columns import Names
from lineage_service.spark.groups import grouped
from lineage_service.spark.staging import Stage


class Captured(Protocol):
    """Groups of rows under capture."""

    @property
    def rows(self) -> DataFrame:
        """The rows that were grouped, with their handles."""

    def aggregated(self, measures: Sequence[Column]) -> DataFrame:
        """One row per group: keys, measures, and the group's id."""

    def only(self, groups: DataFrame) -> Captured:
        """The same, with members only of these groups."""

    def members(self, extra: Sequence[str] = ()) -> DataFrame:
        """(group, handles…, extra…): one row per row of a group."""


def captured_groups(
    each: Instrumented, below: DataFrame, keys: Sequence[str], handles: int, stage: Stage, names: Names
) -> Captured:
    """The rows below a breaker, grouped by these columns, captured the way that was chosen for it."""
    assert each.choice is not None
    return _STRATEGIES[each.choice.strategy](each, below, keys, handles, stage, names)


def captured_rows(each: Instrumented, computed: DataFrame, stage: Stage) -> DataFrame:
    """A breaker's own rows, which are its members too (a window's), captured the way that was chosen for it."""
    assert each.choice is not None
    return stage.once(each.node.id, computed, each.node.position)


def _staged(
    each: Instrumented, below: DataFrame, keys: Sequence[str], handles: int, stage: Stage, names: Names
) -> Captured:
    """Written once with a number for each row; result and members are computed from that copy."""
    numbered = below.withColumn(names.row, F.monotonically_increasing_id())
    return grouped(stage.once(each.label_below, numbered, each.node.position), keys, handles, names)


Strategy = Callable[[Instrumented, DataFrame, Sequence[str], int, Stage, Names], Captured]
_STRATEGIES: dict[str, Strategy] = {"stage": _staged}
