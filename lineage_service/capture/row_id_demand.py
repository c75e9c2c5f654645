"""Whose row ids the rows carry while they are written.

What is captured later is read again with ids then. Until then the query stays what it was: Spark builds a struct per
scanned row where anybody so much as mentions a row's place in its file, read or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from lineage_service.capture.strategies import LATER
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

if TYPE_CHECKING:
    from lineage_service.capture.instrument import InstrumentedNode


def sources_needing_row_ids(nodes: Sequence[InstrumentedNode], checked: frozenset[str]) -> frozenset[str]:
    """The sources whose rids are read on the way: into rows that are written, or that checks look at."""
    wanted = {each.node.id for each in nodes if each.materialised is not None or each.node.id in checked}
    for each in reversed(nodes):
        reads = _inputs_read_with_ids(each, each.node.id in wanted)
        wanted |= {below.node.id for below, read in zip(each.inputs, reads, strict=True) if read}
    return frozenset(each.node.step for each in nodes if isinstance(each.node, Source) and each.node.id in wanted)


def _inputs_read_with_ids(each: InstrumentedNode, wanted: bool) -> tuple[bool, ...]:
    """Of each input, whether its ids are read; `wanted`: those of the node's own rows are."""
    captured = each.choice is not None and each.choice.strategy not in LATER
    match each.node:
        case Source():
            return ()
        case Filter() | Project() | WithColumns() | Sort() | Limit() | Explode() | Union():
            return (wanted,) * len(each.inputs)
        case Aggregate() | Distinct() | Intersect() | Difference():
            return (captured,) * len(each.inputs)
        case Join(how="semi" | "anti"):
            return (wanted, captured)
        case Join():
            return (wanted, wanted)
        case Window():
            return (wanted or captured,)
        case _:
            assert_never(each.node)
