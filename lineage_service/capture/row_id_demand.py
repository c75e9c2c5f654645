"""Sources whose row ids must be read during the write.

Lineage that is captured later is read again, with ids. The first query is then the plain query: if a plan mentions a
row's position in its file, Spark builds a struct for every scanned row, even if nothing reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from lineage_service.capture.strategies import LATER, Choice
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


class _CapturedNode(Protocol):
    """The attributes of an instrumented node that are used here."""

    @property
    def node(self) -> Node: ...
    @property
    def inputs(self) -> Sequence[_CapturedNode]: ...
    @property
    def choice(self) -> Choice | None: ...
    @property
    def materialised(self) -> object | None: ...


def sources_needing_row_ids(nodes: Sequence[_CapturedNode], checked: frozenset[str]) -> frozenset[str]:
    """The sources whose rids are read into rows that are written or checked."""
    wanted = {each.node.id for each in nodes if each.materialised is not None or each.node.id in checked}
    for each in reversed(nodes):
        reads = _inputs_read_with_ids(each, each.node.id in wanted)
        wanted |= {below.node.id for below, read in zip(each.inputs, reads, strict=True) if read}
    return frozenset(each.node.step for each in nodes if isinstance(each.node, Source) and each.node.id in wanted)


def _inputs_read_with_ids(each: _CapturedNode, wanted: bool) -> tuple[bool, ...]:
    """For each input, whether its ids are read. `wanted`: whether the ids of the node's own rows are read."""
    captured = each.choice is not None and each.choice.strategy not in LATER
    match each.node:
        case Source():
            return ()
        case Filter() | Project() | WithColumns() | Sort() | Limit() | Explode() | Union():
            return (wanted,) * len(each.inputs)
        case OuterValues():
            return (False,)
        case Aggregate() | Distinct() | Intersect() | Difference():
            return (captured,) * len(each.inputs)
        case Join(how="semi" | "anti"):
            return (wanted, captured)
        case Join():
            return (wanted, wanted or captured)
        case Window():
            return (wanted or captured,)
        case _:
            assert_never(each.node)
