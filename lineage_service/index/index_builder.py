"""Builds a run's index from its lineage tables: sorted in both directions, encoded, with counts; or no files if none
are needed.

Lineage between two datasets is stored end to end if that is not larger, otherwise hop by hop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Role, Space, Table, step_space
from lineage_service.capture.workload import Direction, Workload, links_of, neighbours
from lineage_service.errors import LineageError
from lineage_service.index.compose import (
    composable,
    count_of_ways,
    is_chain,
    pairs_of,
    reachable_ids,
    segment_ends,
    stays_distinct,
    targets_of,
    view_of,
)
from lineage_service.index.hop_writer import HopWriter, file_size, row_count
from lineage_service.index.hops import Hop
from lineage_service.index.id_columns import inspect_id_column
from lineage_service.index.index_engine import Bounds, IndexEngine
from lineage_service.index.pair_counts import PairCounter
from lineage_service.index.prepared_files import PreparedFile, QuestionPreparer
from lineage_service.index.space_graph import SpaceEdge, SpaceGraph, build_space_graph, leading_to, through_absence
from lineage_service.index.table_alignment import TableAligner
from lineage_service.store.layout import HomeLayout
from lineage_service.store.lineage_tables import TableRows
from lineage_service.store.versions import Version

GROWTH = 1.5  # end to end as long as it takes at most so many times the pairs of the hops it replaces


class HashCollision(LineageError):
    """Two keys have the same hash, so lineage captured by hash is ambiguous."""


@dataclass
class IndexBuilder:
    """Builds the index of one run. `versions` are those of its sources and datasets, by space."""

    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows]
    versions: Mapping[Space, Version]
    home: HomeLayout
    folder: Path
    engine: IndexEngine
    pairs: dict[tuple[Space, Space], int | None] = field(default_factory=dict)
    members: dict[Space, int] = field(default_factory=dict)
    numbered: dict[Space, str] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)
    sides: Mapping[str, TableRows] = field(default_factory=dict)
    prepared: list[PreparedFile] = field(default_factory=list)
    countable: dict[tuple[Space, Space], list[list[Space]]] = field(default_factory=dict)
    writer: HopWriter = field(init=False)

    def __post_init__(self) -> None:
        kept = self.workload.kept_directions(neighbours(links_of(self.tables)))
        self.writer = HopWriter(self.versions, self.home, self.folder, self.engine, kept)

    def build(self) -> list[Hop]:
        graph = build_space_graph(self.tables, self.rows)
        for space, rows in self.rows.items():
            if rows.kind != "lazy" or (rows.direct is not None and self.engine.is_near):
                self.engine.view(view_of(space), rows)
            if rows.kind == "direct" and not rows.files and not self._has_single_source(rows):
                self.engine.keep(view_of(space), f"SELECT * FROM {view_of(space)}")  # joined once, read for each source
        self._refuse_collisions()
        self._keep_segments(graph)
        kept: dict[SpaceEdge, None] = {}
        for start in [*graph.datasets(), *graph.window_orders()]:
            for edge in self._finish_segment(graph, start):
                kept[edge] = None
        for edge in graph.intervals():
            if self.writer.edge_directions(edge):
                self.writer.add_intervals(edge)
        counter = PairCounter(self.engine, graph, self.writer)
        self.pairs, self.countable = counter.count(), counter.countable
        tables = {table.space: table for table in self.tables}
        for question in self.workload.questions:
            preparing = QuestionPreparer(
                self.engine, graph, self.rows, self.versions, question, self.sides.get(question.name), tables
            )
            self.prepared.append(preparing.prepare(self.folder / f"{question.name}.prepared"))
        self._align(tables)  # before hops are stored: those exclude ids that only composed pairs reach
        self._keep_hops(graph, list(kept))
        return [replace(hop, body=self._body(hop), only=self._only_direction(hop)) for hop in self.writer.hops]

    def _body(self, hop: Hop) -> Mapping[str, Any] | None:
        """The body of a hop. For intervals, also the datasets between which rows can be counted by positions, and the
        counts.
        """
        between = self.countable.get((hop.source, hop.target))
        if hop.form is not HopForm.INTERVAL or between is None:
            return hop.body
        return {**(hop.body or {}), "counts": between, "positions": self.members[hop.target]}

    def _align(self, tables: Mapping[Space, Table]) -> None:
        """Keeps which handles belong together: pairs do not tell."""
        ends = [(hop.source, hop.target) for hop in self.writer.hops]
        pairs = {
            (hop.source, hop.target): hop.backward
            for hop in self.writer.hops
            if hop.form is HopForm.PAIRS and hop.backward is not None and ends.count((hop.source, hop.target)) == 1
        }
        aligning = TableAligner(
            tables, self.rows, self.engine, self.home, self.folder, self.workload, self.members, pairs
        )
        aligning.align().save(self.folder)

    def _only_direction(self, hop: Hop) -> Direction | None:
        directions = self.writer.directions(hop.source, hop.target)
        return next(iter(directions)) if len(directions) == 1 and hop.form is not HopForm.PRUNED else None

    def _refuse_collisions(self) -> None:
        """Raises HashCollision if two keys share a hash; a second hash detects this. Also counts members."""
        for space, rows in self.rows.items():
            if space.is_dataset or rows.kind == "lazy" or (rows.kind == "direct" and self._has_single_source(rows)):
                continue
            view = view_of(space)
            if rows.check is not None:
                apart = f"SELECT id, count(*) AS n, min(checked) AS low, max(checked) AS high FROM {view} GROUP BY id"
                if self.engine.number(f"SELECT count(*) FROM ({apart}) x WHERE low <> high"):
                    raise HashCollision(
                        f"two keys of '{space.name}' have the same hash",
                        hint="capture it again, with another salt",
                    )
            self.members[space] = int(self.engine.number(f"SELECT count(*) FROM {view}"))

    def _keep_segments(self, graph: SpaceGraph) -> None:
        """Where only some directions are kept: those of ways over windows, segment by segment."""
        if self.writer.kept is None:
            return
        for start in graph.datasets():
            edges = graph.between(start)
            for target in targets_of(edges):
                directions = self.writer.directions(start, target)
                ways = leading_to(edges, target)
                ends = {start, target} | {space for edge in ways if edge.frames for space in (edge.source, edge.target)}
                for source, end in product(ends, ends) if len(ends) > 2 else ():
                    self.writer.kept.setdefault((source, end), set()).update(directions)

    def _finish_segment(self, graph: SpaceGraph, start: Space) -> list[SpaceEdge]:
        """Writes what is stored end to end, from a dataset or a window's ordered rows to the nearest datasets and
        windows. Returns the edges that must be stored as hops.
        """
        edges = graph.segment(start)
        hops: list[SpaceEdge] = []
        for target in segment_ends(edges):
            ways = leading_to(composable(edges, start), target)
            directions = self.writer.directions(start, target)
            if not directions:
                if start.is_dataset and target.is_dataset:
                    self.writer.hops.append(Hop(start, target, Role.OWN if ways else Role.ABSENCE, HopForm.PRUNED))
                continue
            if self.writer.kept is not None:
                for edge in leading_to(edges, target):
                    self.writer.kept.setdefault((edge.source, edge.target), set()).update(directions)
            if len(ways) == 1 and ways[0].own:
                self._add_column_hop(ways[0])
            elif len(ways) == 1 and self._direct_rows(ways[0]) is not None:
                self._add_keyed_hop(ways[0])
            elif len(ways) == 1 and (hop := self._own_hop(graph, ways[0])) is not None:
                self._reuse_own_hop(ways[0], hop)
            elif any(graph.is_lazy(edge) for edge in ways):
                hops += ways
            elif ways and self._should_compose(ways, start, target):
                self.writer.add_composed_pairs(ways, start, target)
            elif ways:
                hops += ways
            hops += through_absence(leading_to(edges, target))
        return hops

    # --- forms that need no files, or fewer -------------------------------------------------------------------

    def _add_column_hop(self, edge: SpaceEdge) -> None:
        """A dataset's own column of ids is its backward index. If it is ascending, it is the forward index too."""
        rows = self.rows[edge.table]
        name = rows.handles[int(str(edge.column)[1:])]
        files = [self.home.absolute(file) for file in rows.files]
        target = self.versions.get(edge.target)
        shape = inspect_id_column(files, name, target.rows if target is not None and edge.target.is_dataset else 0)
        if shape.count == 0:
            self.writer.add(edge, HopForm.EMPTY)
        elif shape.formula is not None:
            body = shape.formula.to_json()
            self.writer.add(edge, HopForm.FORMULA, shape.count, 0, body=body)
        elif shape.ascending or self._is_lazy_space(edge.target) or "forward" not in self.writer.edge_directions(edge):
            self.writer.add(edge, HopForm.COLUMN, shape.count, shape.bytes, body={"column": name})
        else:
            forward = self.writer.write_forward_column(edge, files, name, shape)
            size = shape.bytes + file_size(forward)
            self.writer.add(edge, HopForm.COLUMN, shape.count, size, None, forward, {"column": name})

    def _own_hop(self, graph: SpaceGraph, edge: SpaceEdge) -> Hop | None:
        """For window rows that are a dataset: the hop of the dataset's own column to the same ids."""
        rows = self.rows.get(edge.table)
        if (
            rows is None
            or rows.within is None
            or rows.carrier is not None
            or "forward" not in self.writer.edge_directions(edge)
        ):
            return None
        source = step_space(rows.within)
        columns = [each.column for each in graph.out_of(source) if each.target == edge.target]
        hops = [hop for hop in self.writer.hops if (hop.source, hop.target) == (source, edge.target)]
        same = columns == [edge.column] and len(hops) == 1 and hops[0].form in (HopForm.FORMULA, HopForm.COLUMN)
        return hops[0] if same else None

    def _reuse_own_hop(self, edge: SpaceEdge, own: Hop) -> None:
        """Reuses the files of the dataset's own column, which has the same pairs."""
        if own.form is HopForm.FORMULA:
            self.writer.add(edge, HopForm.FORMULA, own.rows, 0, body=own.body)
            return
        target = self.versions.get(edge.target)
        bounds = Bounds(self.versions[own.source].end, target.end) if target is not None else None
        backward = self.writer.write_pairs(pairs_of(edge), "backward", bounds, distinct=False)
        forward = own.forward or backward  # a column that only grows is sorted both ways
        size = sum(file_size(path) for path in {backward, forward})
        self.writer.add(edge, HopForm.PAIRS, own.rows, size, backward, forward)

    def _direct_rows(self, edge: SpaceEdge) -> TableRows | None:
        """Where an edge is found in sources: on demand, or in one source by its keys."""
        rows = self.rows.get(edge.table)
        if rows is None or rows.direct is None or rows.files:
            return None
        return rows if rows.kind == "lazy" or self._has_single_source(rows) else None

    def _has_single_source(self, rows: TableRows) -> bool:
        return rows.direct is not None and len(rows.direct.sources) == 1

    def _add_keyed_hop(self, edge: SpaceEdge) -> None:
        """Indexed from the source's own files. Forward, the source itself contains the keys."""
        rows = self._direct_rows(edge)
        assert rows is not None and rows.direct is not None
        source, dataset = self.versions[edge.target], self.versions[edge.source]
        body = {**rows.direct.to_json(), "handle": edge.column}
        if (
            self._has_single_source(rows)
            and not rows.direct.keys
            and not rows.direct.conditions
            and dataset.rows == 1
            and dataset.is_dense
        ):
            self.writer.add(edge, HopForm.EVERYTHING, source.rows)
            self.members[edge.table] = source.rows
            return
        if rows.kind == "lazy" or "backward" not in self.writer.edge_directions(edge):
            self.writer.add(edge, HopForm.KEYED, 0, 0, body=body)
            return
        bounds = Bounds(dataset.end, source.end)
        path = self.writer.write_pairs(pairs_of(edge), "backward", bounds, distinct=False)
        count = row_count(path)
        self.members[edge.table] = count
        if count == 0:
            self.writer.add(edge, HopForm.EMPTY)
            return
        self.writer.add(edge, HopForm.KEYED, count, file_size(path), path, None, body)

    # --- pairs ------------------------------------------------------------------------------------------------

    def _should_compose(self, ways: list[SpaceEdge], start: Space, target: Space) -> bool:
        if all(edge.source == start for edge in ways):
            return True
        if is_chain(ways, start) and stays_distinct(ways):
            return GROWTH > 0  # each row is in one group at each step, so the result cannot grow
        total = self.engine.number(count_of_ways(ways, start, target))
        replaced = sum(self.engine.number(f"SELECT count(*) FROM ({pairs_of(edge)}) x") for edge in ways)
        return total <= GROWTH * max(replaced, 1000)

    # --- hop by hop -------------------------------------------------------------------------------------------

    def _keep_hops(self, graph: SpaceGraph, edges: list[SpaceEdge]) -> None:
        """Stores hops as they are, without ids that no dataset reaches."""
        placed = {
            *graph.window_orders(),
            *(space for space in self.rows if space.is_window),
        }  # by position, not by hash
        for space in dict.fromkeys(edge.source for edge in edges if not edge.source.is_dataset):
            if not self._is_lazy_space(space) and space not in placed:
                self._number_reachable_ids(graph, space, [edge for edge in edges if edge.target == space])
        for edge in edges:
            if edge.everything:
                self.writer.add(edge, HopForm.EVERYTHING)
            elif graph.is_lazy(edge):
                body = {"space": edge.table, "column": edge.column}
                self.writer.add(edge, HopForm.LAZY, body=body)
            elif edge.target.is_side and edge.source.is_dataset and self._is_never_null(edge):
                self.writer.add(edge, HopForm.CONSTANT)
            elif edge.own and self._is_lazy_space(edge.target):
                self._add_column_hop(edge)
            else:
                distinct = not (edge.once or edge.own)
                self.writer.add_pairs(
                    Hop(edge.source, edge.target, edge.role, HopForm.PAIRS),
                    self._numbered_pairs(edge),
                    distinct=distinct,
                )

    def _is_lazy_space(self, space: Space) -> bool:
        rows = self.rows.get(space)
        return rows is not None and rows.kind == "lazy"

    def _has_table(self, space: Space) -> bool:
        return space in self.rows and not space.is_dataset

    def _numbered_pairs(self, edge: SpaceEdge) -> str:
        """The pairs of an edge. Ids of groups, which may be hashes, are replaced by small numbers."""
        text = pairs_of(edge)
        for side, space in (("a", edge.source), ("b", edge.target)):
            if space in self.numbered:
                other = "b" if side == "a" else "a"
                columns = f"n.number AS {side}, p.{other}" if side == "a" else f"p.{other}, n.number AS {side}"
                text = f"SELECT {columns} FROM ({text}) p JOIN {self.numbered[space]} n ON n.id = p.{side}"
        return text

    def _number_reachable_ids(self, graph: SpaceGraph, space: Space, incoming: list[SpaceEdge]) -> None:
        """Removes ids that nothing refers to and numbers the others, so that hashes of keys are not left on disk."""
        if not self._has_table(space) or space.is_side or any(map(graph.is_lazy, incoming)):
            return
        name = view_of(space)
        numbers = f"n{len(self.numbered)}"
        self.engine.keep(
            numbers,
            "SELECT id, CAST(row_number() OVER (ORDER BY id) - 1 AS BIGINT) AS number "
            f"FROM ({reachable_ids(incoming)}) x",
        )
        self.engine.keep(f"{name}_less", f"SELECT t.* FROM {name} t WHERE t.id IN (SELECT id FROM {numbers})")
        self.engine.keep(name, f"SELECT * FROM {name}_less")
        self.engine.drop(f"{name}_less")
        self.numbered[space] = numbers

    def _is_never_null(self, edge: SpaceEdge) -> bool:
        counted = f"SELECT count(*) - count({edge.column}) FROM {view_of(edge.table)}"
        return self.engine.number(counted) == 0
