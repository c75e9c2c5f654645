"""What each operator does to lineage: the handles its rows carry on, and the tables it leaves behind.

One case per operator, after section 4 of the contract. Nothing here knows how tables are got (strategies)
or how rows are computed (spark/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from lineage_service.capture.handles import Handle, Role, Space, Table, group_space, merged, side_space, source_space
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
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """The handles of a node's rows, and the tables that say what stands behind groups and sides."""

    handles: tuple[Handle, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Below:
    """An input as the rules see it: its handles, and the space it is all of, if it is all of one."""

    handles: tuple[Handle, ...]
    whole: Space | None = None


def rule_for(node: Node, inputs: tuple[Below, ...]) -> Rule:
    match node:
        case Source():
            return Rule((Handle(source_space(node.step)),))
        case Filter() | Project() | WithColumns() | Sort() | Limit() | Explode():
            return Rule(inputs[0].handles)
        case Aggregate() | Distinct():
            return _grouped(node, inputs[0].handles)
        case Union():
            return Rule(merged([below.handles for below in inputs]).handles)
        case Intersect():
            return _grouped(node, merged([below.handles for below in inputs]).handles)
        case Difference():
            rule = _grouped(node, inputs[0].handles)
            side = _whole_side(node, inputs[1])
            return Rule((*rule.handles, _absence(node)), (*rule.tables, side))
        case Join(how="semi"):
            rule = _grouped(node, inputs[1].handles)
            return Rule(inputs[0].handles + rule.handles, rule.tables)
        case Join(how="anti"):
            return Rule((*inputs[0].handles, _absence(node)), (_whole_side(node, inputs[1]),))
        case Join():
            return Rule(inputs[0].handles + inputs[1].handles)
        case Window():
            partition = group_space(node.id)
            return Rule((*inputs[0].handles, Handle(partition, Role.PEER)), (Table(partition, inputs[0].handles),))
        case _:
            assert_never(node)


def _grouped(node: Node, members: tuple[Handle, ...]) -> Rule:
    space = group_space(node.id)
    return Rule((Handle(space),), (Table(space, members),))


def _absence(node: Node) -> Handle:
    return Handle(side_space(node.id), Role.ABSENCE)


def _whole_side(node: Node, right: Below) -> Table:
    # Absence is not stored where the side is all of a dataset: an index of it would be as large as the input.
    return Table(side_space(node.id), right.handles, everything=right.whole)
