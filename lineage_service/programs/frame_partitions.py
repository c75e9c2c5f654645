"""The partitions that a program asks for, by which the number of its files is decided."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.untraceable import Untraceable

# Relations that leave their rows in the partitions that they have.
_ROWWISE = ("project", "filter", "with_columns", "with_columns_renamed", "drop", "to_df", "to_schema", "subquery_alias",
            "hint", "fill_na", "drop_na", "replace", "collect_metrics")  # fmt: skip
_PARTITIONING_HINTS = frozenset({"coalesce", "repartition", "repartition_by_range", "rebalance"})


@dataclass(frozen=True, slots=True)
class Partitions:
    """`exactly`: the number that repartition() asks for; `most`: that of coalesce()."""

    exactly: int | None = None
    most: int | None = None


def partitions_of(relation: Message) -> Partitions:
    """What the last relation that is about partitions asks for. Raises Untraceable where rows go to partitions by their
    values, or are sorted in them: the staged rows would be in others.
    """
    kind, inner = kind_of(relation)
    while kind in _ROWWISE:
        if kind == "hint" and inner.text("name").lower() in _PARTITIONING_HINTS:
            raise Untraceable(f"the hint {inner.text('name')} decides how many files there are")
        below = inner.message("input")
        if below is None:
            return Partitions()
        kind, inner = kind_of(below)
    if kind == "repartition_by_expression":
        raise Untraceable("repartition() by columns decides which rows are in which file")
    if kind == "sort" and not inner.flag("is_global"):
        raise Untraceable("sortWithinPartitions() decides the order of rows in each file")
    if kind != "repartition":
        return Partitions()
    number = inner.number("num_partitions")
    return Partitions(exactly=number) if inner.flag("shuffle") else Partitions(most=number)
