"""The effect of each operator on lineage: the handles of its rows, and the tables that it leaves.

One case per operator, after section 4 of the contract. How tables are captured (strategies.py) and how rows are
computed (spark/) is independent of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from lineage_service.capture.handles import (
    Handle,
    Role,
    Space,
    Table,
    group_space,
    merge_handles,
    side_space,
    source_space,
    window_space,
)
from lineage_service.capture.window_reads import window_reads
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


@dataclass(frozen=True, slots=True)
class LineageRule:
    """The handles of a node's rows, and the tables that describe what its groups and sides derive from.

    `once`: for each handle, whether no two rows have the same id in it.
    """

    handles: tuple[Handle, ...]
    once: tuple[bool, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class InputHandles:
    """An input of a rule: its handles, whether their ids are unique, and the dataset of which it is all rows,
    if any.
    """

    handles: tuple[Handle, ...]
    once: tuple[bool, ...]
    whole: Space | None = None


def rule_for(node: Node, inputs: tuple[InputHandles, ...], *, by_partition: bool = False) -> LineageRule:
    """The rule of an operator. `by_partition`: windows as an earlier version captured them, with the whole partition
    for each row; used to read its runs again.
    """
    match node:
        case Source():
            return LineageRule((Handle(source_space(node.step)),), (True,))
        case Filter() | Project() | WithColumns() | Sort() | Limit():
            generates = any(expression.is_generator for expression, _ in node.expressions_with_schemas())
            return LineageRule(inputs[0].handles, _no_unique_ids(inputs[0].once) if generates else inputs[0].once)
        case Explode():
            return LineageRule(inputs[0].handles, _no_unique_ids(inputs[0].once))
        case OuterValues():
            return LineageRule((), ())
        case Aggregate() | Distinct() | Window() | Intersect() | Difference() if not any(b.handles for b in inputs):
            return LineageRule((), ())  # no row of a source stands behind its rows
        case Join(how="semi" | "anti") if not inputs[1].handles:
            return LineageRule(inputs[0].handles, inputs[0].once)
        case Aggregate() | Distinct():
            return _group_rule(node, inputs[0].handles, inputs[0].once)
        case Union():
            return LineageRule(*_union_handles(inputs))
        case Intersect():
            # A row of each side is needed: sides that share a space must still be told apart.
            left, right = inputs
            return _group_rule(
                node, left.handles + right.handles, left.once + right.once, copies=node.all, left=len(left.handles)
            )
        case Difference():
            rule = _group_rule(node, inputs[0].handles, inputs[0].once, copies=node.all)
            side = _side_table(node, inputs[1])
            return LineageRule((*rule.handles, _absence_handle(node)), (*rule.once, False), (*rule.tables, side))
        case Join(how="semi"):
            rule = _group_rule(node, inputs[1].handles, inputs[1].once)
            return LineageRule(inputs[0].handles + rule.handles, (*inputs[0].once, False), rule.tables)
        case Join(how="anti"):
            side = _side_table(node, inputs[1])
            return LineageRule((*inputs[0].handles, _absence_handle(node)), (*inputs[0].once, False), (side,))
        case Join():
            handles = inputs[0].handles + inputs[1].handles
            if not node.absence or not inputs[1].handles:
                return LineageRule(handles, (False,) * len(handles))
            handles = (*handles, _absence_handle(node))
            return LineageRule(handles, (False,) * len(handles), (_side_table(node, inputs[1]),))
        case Window() if by_partition:
            partition, below = group_space(node.id), inputs[0]
            members = Table(partition, below.handles, once=below.once)
            return LineageRule((*below.handles, Handle(partition, Role.PEER)), (*below.once, False), (members,))
        case Window():
            frames, below = len(window_reads(node)), inputs[0]
            if not frames:  # each row is computed from itself alone
                return LineageRule(below.handles, below.once)
            window, order = window_space(node.id), group_space(node.id)
            read = _handles_without(below, {window_space(each) for each in node.beside})
            members = Table(order, below.handles[:read], once=below.once[:read])
            tables = members, Table(window, (Handle(order),), frames=frames)
            return LineageRule((*below.handles, Handle(window, Role.PEER)), (*below.once, True), tables)
        case _:
            assert_never(node)


def _handles_without(below: InputHandles, beside: set[Space]) -> int:
    """How many handles there are before those of the windows beside this one: each window adds its own behind all."""
    count = len(below.handles)
    while count and below.handles[count - 1].space in beside:
        count -= 1
    return count


def _no_unique_ids(once: tuple[bool, ...]) -> tuple[bool, ...]:
    return (False,) * len(once)


def _union_handles(inputs: tuple[InputHandles, ...]) -> tuple[tuple[Handle, ...], tuple[bool, ...]]:
    """The merged handles of the branches. Ids of a column stay unique if a single branch fills it."""
    merge = merge_handles([below.handles for below in inputs])
    once = []
    for place in range(len(merge.handles)):
        filled = [
            below.once[index]
            for below, branch in zip(inputs, merge.branches, strict=True)
            if (index := branch[place]) is not None
        ]
        once.append(filled == [True])
    return merge.handles, tuple(once)


def _group_rule(
    node: Node, members: tuple[Handle, ...], once: tuple[bool, ...], *, copies: bool = False, left: int | None = None
) -> LineageRule:
    space, always = group_space(node.id), isinstance(node, Aggregate) and not node.keys
    return LineageRule((Handle(space),), (not copies,), (Table(space, members, once=once, left=left, always=always),))


def _absence_handle(node: Node) -> Handle:
    return Handle(side_space(node.id), Role.ABSENCE)


def _side_table(node: Node, right: InputHandles) -> Table:
    # Absence is not stored where the side is all of a dataset: an index of it would be as large as the input.
    return Table(side_space(node.id), right.handles, everything=right.whole, once=right.once)
