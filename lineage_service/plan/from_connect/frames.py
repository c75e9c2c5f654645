"""Data frames while they are compiled: rows of a node, and the columns that names in the program mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.nodes import Node

# What Spark does to find a column that a frame does not show: look below it, or not.
Opening = Literal["closed", "project", "transparent", "union"]


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of a frame.

    name: as the program knows it; None where only Spark knows the name it gives · internal: the column of the node ·
    identity: Spark's expression id: a column that is passed on keeps it, one that is computed or renamed has a new
    one · qualifier: the names that may stand before it, as of `alias()`
    """

    name: str | None
    internal: str
    identity: int
    qualifier: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        return self.name is not None and self.name.lower() == name.lower()


@dataclass(frozen=True, slots=True)
class Frame:
    """A compiled relation.

    columns: what it shows, in order; names may occur twice · hidden: columns of a join by names that it does not show
    and that references to the joined frames still find · inputs: the frames it is made of, in which references by plan
    id are looked up · opening: see Opening · lifted: conditions of a subquery that read the frame around it, bound;
    they are applied where the two are joined
    """

    node: Node
    columns: tuple[FrameColumn, ...]
    inputs: tuple[Frame, ...] = ()
    plan_id: int | None = None
    hidden: tuple[FrameColumn, ...] = ()
    opening: Opening = "closed"
    lifted: tuple[Message, ...] = ()

    def renamed(self, internals: Mapping[str, str], identities: Mapping[int, int], node: Node) -> Frame:
        """The frame over a node that has other names for its columns, and with other identities."""

        def column(each: FrameColumn) -> FrameColumn:
            return replace(
                each,
                internal=internals.get(each.internal, each.internal),
                identity=identities.get(each.identity, each.identity),
            )

        return replace(
            self,
            node=node,
            columns=tuple(map(column, self.columns)),
            hidden=tuple(map(column, self.hidden)),
            inputs=tuple(each.renamed(internals, identities, each.node) for each in self.inputs),
        )


@dataclass(slots=True)
class Identities:
    """Gives each new column an identity of its own."""

    last: int = 0
    known: dict[int, str] = field(default_factory=dict)

    def fresh(self) -> int:
        self.last += 1
        return self.last
