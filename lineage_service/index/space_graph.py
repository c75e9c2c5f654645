"""The lineage of a run as a graph of spaces, with edges from a space to the spaces its ids refer to. Pure SQL text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lineage_service.capture.handles import Role, Space, Table
from lineage_service.store.lineage_tables import TableRows


@dataclass(frozen=True)
class SpaceEdge:
    """A handle of a table: ids of `source` and, in column `column` of `view`, ids of `target`.

    `everything` edges have no column: the single id of `source` stands for all rows of `target`. `table` is the space
    of the table: `source`, or the group whose members are stored in the rows of `source`. `once`: no id of `target`
    occurs twice. `frames`: the number of intervals of ids of `target` behind each id, in columns lo0, hi0, lo1, …; such
    an edge is never expanded for storage.
    """

    source: Space
    target: Space
    role: Role
    column: str | None
    table: Space
    once: bool = False
    frames: int = 0

    @property
    def everything(self) -> bool:
        return self.column is None

    @property
    def own(self) -> bool:
        """Whether it is a column of a dataset's own rows, with at most one id per row."""
        return self.table.is_dataset and self.column is not None


@dataclass(frozen=True)
class SpaceGraph:
    """All edges of a run, and where the rows of its tables are."""

    edges: tuple[SpaceEdge, ...]
    rows: Mapping[Space, TableRows] = field(default_factory=dict)

    def out_of(self, space: Space) -> list[SpaceEdge]:
        return [edge for edge in self.edges if edge.source == space]

    def datasets(self) -> list[Space]:
        """Dataset spaces that have lineage, in order of appearance."""
        return list(dict.fromkeys(edge.source for edge in self.edges if edge.source.is_dataset))

    def is_lazy(self, edge: SpaceEdge) -> bool:
        """Whether only Spark can compute its pairs, on demand."""
        rows = self.rows.get(edge.table)
        return rows is not None and rows.kind == "lazy" and rows.direct is None

    def between(self, start: Space, *, beyond: bool = False) -> list[SpaceEdge]:
        """Edges on ways from a dataset to the nearest datasets, in topological order.

        With `beyond`, through intermediate datasets to the sources.
        """
        return [edge for space in self._order(start, beyond) for edge in self.out_of(space)]

    def segment(self, start: Space) -> list[SpaceEdge]:
        """Edges on ways from a dataset, or from the ordered rows of a window, to the nearest datasets and windows."""
        spaces = self._order(start, False, whole=False)
        return [edge for space in spaces for edge in self.out_of(space) if not edge.frames]

    def intervals(self) -> list[SpaceEdge]:
        """The interval edges: of a window's rows, or of a dataset that is the window's rows."""
        return [edge for edge in self.edges if edge.frames]

    def window_orders(self) -> list[Space]:
        """The ordered rows of windows. Segments start there as they do at a dataset."""
        return list(dict.fromkeys(edge.target for edge in self.edges if edge.frames))

    def window_orders_behind(self, start: Space) -> list[Space]:
        """Those behind one dataset, in topological order."""
        ordered = self.window_orders()
        return [space for space in self._order(start, False) if space in ordered]

    def _order(self, start: Space, beyond: bool, whole: bool = True) -> list[Space]:
        """The start and the spaces behind it that have edges, in topological order.

        Stops at windows unless `whole` is set.
        """
        seen: set[Space] = set()
        reverse: list[Space] = []

        def visit(space: Space) -> None:
            if space in seen:
                return
            seen.add(space)
            for edge in self.out_of(space):
                if beyond or not (edge.target.is_dataset or (not whole and edge.frames)):
                    visit(edge.target)
            reverse.append(space)

        visit(start)
        return reverse[::-1]


def build_space_graph(tables: Iterable[Table], rows: Mapping[Space, TableRows]) -> SpaceGraph:
    """The edges of lineage tables. The columns of a table's view are h0, h1, … in the order of its handles.

    A group stored in a dataset's rows is not a separate space: its members are behind that row.
    """
    by_space = {table.space: table for table in tables}
    riding = {space for space, where in rows.items() if where.carrier is not None}
    edges: list[SpaceEdge] = []
    for table in by_space.values():
        if table.space in riding:
            continue
        if table.everything is not None:
            edges.append(SpaceEdge(table.space, table.everything, Role.OWN, None, table.space))
            continue
        for index, handle in enumerate(table.handles):
            if handle.space in riding:
                edges += _members(by_space[handle.space], table.space, handle.role)
            else:
                once = bool(table.once) and table.once[index]
                edge = SpaceEdge(table.space, handle.space, handle.role, f"h{index}", table.space, once, table.frames)
                edges.append(edge)
    return SpaceGraph(tuple(edges), rows)


def _members(table: Table, source: Space, role: Role) -> list[SpaceEdge]:
    once = table.once or (False,) * len(table.handles)
    return [
        SpaceEdge(source, handle.space, max(role, handle.role), f"h{index}", table.space, once[index], table.frames)
        for index, handle in enumerate(table.handles)
    ]


def leading_to(edges: Iterable[SpaceEdge], target: Space) -> list[SpaceEdge]:
    """The edges (in topological order) that are on a way to `target`."""
    kept: list[SpaceEdge] = []
    wanted = {target}
    for edge in reversed(list(edges)):
        if edge.target in wanted:
            kept.append(edge)
            wanted.add(edge.source)
    return kept[::-1]


def through_absence(edges: Sequence[SpaceEdge]) -> list[SpaceEdge]:
    """The edges (in topological order) that are on a way with an absence."""
    after: set[Space] = set()
    for edge in edges:
        if edge.role is Role.ABSENCE or edge.source in after:
            after.add(edge.target)
    before: set[Space] = set()
    for edge in reversed(edges):
        if edge.role is Role.ABSENCE or edge.target in before:
            before.add(edge.source)
    return [edge for edge in edges if edge.role is Role.ABSENCE or edge.source in after or edge.target in before]
