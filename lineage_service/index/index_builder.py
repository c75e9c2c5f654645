"""From a run's lineage tables to its index: sorted both ways, encoded, with counts; or nothing, where none is needed.

Between two datasets lineage is kept end to end where that does not grow, and hop by hop where it would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from lineage_service.capture.handles import Role, Space, Table, is_dataset, is_window, step_space
from lineage_service.capture.workload import Direction, Workload, links_of, neighbours
from lineage_service.errors import LineageError
from lineage_service.index.column_inversion import fits_in_memory, write_inverted_column
from lineage_service.index.compose import (
    chained_pairs,
    composable,
    composed_pairs,
    count_of_ways,
    is_chain,
    pairs_of,
    reachable_ids,
    segment_ends,
    stays_distinct,
    targets_of,
    view_of,
    window_way,
)
from lineage_service.index.id_columns import IdColumnShape, inspect_id_column
from lineage_service.index.index_engine import Bounds, IndexEngine
from lineage_service.index.prepared_files import PreparedFile, QuestionPreparer
from lineage_service.index.space_graph import SpaceEdge, SpaceGraph, build_space_graph, leading_to, through_absence
from lineage_service.index.table_alignment import TableAligner
from lineage_service.store.layout import HomeLayout, translate_disk_errors
from lineage_service.store.lineage_tables import TableRows, bound_name
from lineage_service.store.versions import Version

GROWTH = 1.5  # end to end as long as it takes at most so many times the pairs of the hops it replaces
MOST_COUNTED = 20_000_000  # distinct pairs are counted up to so many ways


@dataclass(frozen=True)
class Hop:
    """Finished lineage between two spaces. `form` says how it is kept:

    pairs: in two files, one for each direction · column: a column of the dataset's own files, and a file forward where
    that column does not only grow · formula: it follows from the row's number · keyed: found in the source by the
    dataset's key columns; a file backward · lazy: only Spark can tell, when asked · everything, constant: a whole side
    · interval: of a window, intervals of positions that stand behind a position; one file for both directions · empty
    · pruned: not kept, since no declared question needs it. `body` is what the forms without files need to know;
    `only` is the one direction that is kept.
    """

    source: Space
    target: Space
    role: Role
    form: str
    rows: int = 0
    bytes: int = 0
    backward: Path | None = None
    forward: Path | None = None
    body: Mapping[str, Any] | None = None
    only: Direction | None = None

    @property
    def body_json(self) -> str | None:
        body = {**(self.body or {}), **({"only": self.only} if self.only else {})}
        return json.dumps(body) if body else None


class HashCollision(LineageError):
    """Two keys have one hash: the lineage captured by it cannot be told apart."""


@dataclass
class IndexBuilder:
    """Builds the index of one run. `versions` are those of its sources and datasets, by space."""

    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows]
    versions: Mapping[str, Version]
    home: HomeLayout
    folder: Path
    engine: IndexEngine
    hops: list[Hop] = field(default_factory=list)
    pairs: dict[tuple[Space, Space], int | None] = field(default_factory=dict)
    members: dict[Space, int] = field(default_factory=dict)
    numbered: dict[Space, str] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)
    sides: Mapping[str, TableRows] = field(default_factory=dict)
    prepared: list[PreparedFile] = field(default_factory=list)
    kept: dict[tuple[Space, Space], set[Direction]] | None = None
    countable: dict[tuple[Space, Space], list[list[Space]]] = field(default_factory=dict)

    def build(self) -> list[Hop]:
        graph = build_space_graph(self.tables, self.rows)
        self.kept = self.workload.kept_directions(neighbours(links_of(self.tables)))
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
            if self._edge_directions(edge):
                self._add_interval_hop(edge)
        self._count_pairs(graph)
        tables = {table.space: table for table in self.tables}
        for question in self.workload.questions:
            preparing = QuestionPreparer(
                self.engine, graph, self.rows, self.versions, question, self.sides.get(question.name), tables
            )
            self.prepared.append(preparing.prepare(self.folder / f"{question.name}.prepared"))
        self._align(tables)  # before hops are kept: those are less what only composed pairs reach
        self._keep_hops(graph, list(kept))
        self.hops = [replace(hop, body=self._body(hop), only=self._only_direction(hop)) for hop in self.hops]
        return self.hops

    def _body(self, hop: Hop) -> Mapping[str, Any] | None:
        """Of intervals also: between which datasets rows are counted by positions alone, and how many there are."""
        between = self.countable.get((hop.source, hop.target))
        if hop.form != "interval" or between is None:
            return hop.body
        return {**(hop.body or {}), "counts": between, "positions": self.members[hop.target]}

    def _align(self, tables: Mapping[Space, Table]) -> None:
        """Keeps which handles belong together: pairs do not tell."""
        ends = [(hop.source, hop.target) for hop in self.hops]
        pairs = {
            (hop.source, hop.target): hop.backward
            for hop in self.hops
            if hop.form == "pairs" and hop.backward is not None and ends.count((hop.source, hop.target)) == 1
        }
        aligning = TableAligner(
            tables, self.rows, self.engine, self.home, self.folder, self.workload, self.members, pairs
        )
        aligning.align().save(self.folder)

    def _directions(self, source: Space, target: Space) -> set[Direction]:
        """The directions in which pairs of two spaces are kept."""
        return {"backward", "forward"} if self.kept is None else self.kept.get((source, target), set())

    def _only_direction(self, hop: Hop) -> Direction | None:
        directions = self._directions(hop.source, hop.target)
        return next(iter(directions)) if len(directions) == 1 and hop.form != "pruned" else None

    def _refuse_collisions(self) -> None:
        """An id is a hash of a key: where two keys share one, the second hash tells. Counts members on the way."""
        for space, rows in self.rows.items():
            if is_dataset(space) or rows.kind == "lazy" or (rows.kind == "direct" and self._has_single_source(rows)):
                continue
            view = view_of(space)
            if rows.check is not None:
                apart = f"SELECT id, count(*) AS n, min(checked) AS low, max(checked) AS high FROM {view} GROUP BY id"
                if self.engine.number(f"SELECT count(*) FROM ({apart}) x WHERE low <> high"):
                    raise HashCollision(
                        f"two keys of '{space.partition(':')[2]}' have the same hash",
                        hint="capture it again, with another salt",
                    )
            self.members[space] = int(self.engine.number(f"SELECT count(*) FROM {view}"))

    def _keep_segments(self, graph: SpaceGraph) -> None:
        """Where only some directions are kept: those of ways over windows, segment by segment."""
        if self.kept is None:
            return
        for start in graph.datasets():
            edges = graph.between(start)
            for target in targets_of(edges):
                directions = self._directions(start, target)
                ways = leading_to(edges, target)
                ends = {start, target} | {space for edge in ways if edge.frames for space in (edge.source, edge.target)}
                for source, end in product(ends, ends) if len(ends) > 2 else ():
                    self.kept.setdefault((source, end), set()).update(directions)

    def _finish_segment(self, graph: SpaceGraph, start: Space) -> list[SpaceEdge]:
        """Writes what is kept end to end, from a dataset or a window's ordered rows to the nearest datasets and
        windows; gives the edges that must be kept as hops."""
        edges = graph.segment(start)
        hops: list[SpaceEdge] = []
        for target in segment_ends(edges):
            ways = leading_to(composable(edges, start), target)
            directions = self._directions(start, target)
            if not directions:
                if is_dataset(start) and is_dataset(target):
                    self.hops.append(Hop(start, target, Role.OWN if ways else Role.ABSENCE, "pruned"))
                continue
            if self.kept is not None:
                for edge in leading_to(edges, target):
                    self.kept.setdefault((edge.source, edge.target), set()).update(directions)
            if len(ways) == 1 and ways[0].own:
                self._add_column_hop(ways[0])
            elif len(ways) == 1 and self._direct_rows(ways[0]) is not None:
                self._add_keyed_hop(ways[0])
            elif len(ways) == 1 and (hop := self._own_hop(graph, ways[0])) is not None:
                self._reuse_own_hop(ways[0], hop)
            elif any(graph.is_lazy(edge) for edge in ways):
                hops += ways
            elif ways and self._should_compose(ways, start, target):
                self._write_composed(ways, start, target)
            elif ways:
                hops += ways
            hops += through_absence(leading_to(edges, target))
        return hops

    def _edge_directions(self, edge: SpaceEdge) -> set[Direction]:
        return self._directions(edge.source, edge.target)

    # --- forms that need no files, or fewer -------------------------------------------------------------------

    def _add_column_hop(self, edge: SpaceEdge) -> None:
        """A dataset's own column of ids is its backward index; where it only grows, it is the forward index too."""
        rows = self.rows[edge.table]
        name = rows.handles[int(str(edge.column)[1:])]
        files = [self.home.absolute(file) for file in rows.files]
        target = self.versions.get(edge.target)
        shape = inspect_id_column(files, name, target.rows if target is not None and is_dataset(edge.target) else 0)
        hop = Hop(edge.source, edge.target, edge.role, "column", shape.count, shape.bytes, body={"column": name})
        if shape.count == 0:
            self.hops.append(Hop(edge.source, edge.target, edge.role, "empty"))
        elif shape.formula is not None:
            body = shape.formula.to_json()
            self.hops.append(Hop(edge.source, edge.target, edge.role, "formula", shape.count, 0, body=body))
        elif shape.ascending or self._is_lazy_space(edge.target) or "forward" not in self._edge_directions(edge):
            self.hops.append(hop)
        else:
            forward = self._write_forward_column(edge, files, name, shape)
            size = shape.bytes + _size(forward)
            self.hops.append(
                Hop(edge.source, edge.target, edge.role, "column", shape.count, size, None, forward, {"column": name})
            )

    def _own_hop(self, graph: SpaceGraph, edge: SpaceEdge) -> Hop | None:
        """Of a window's rows that are a dataset: the hop of the dataset's own column to the same ids."""
        rows = self.rows.get(edge.table)
        if (
            rows is None
            or rows.within is None
            or rows.carrier is not None
            or "forward" not in self._edge_directions(edge)
        ):
            return None
        source = step_space(rows.within)
        columns = [each.column for each in graph.out_of(source) if each.target == edge.target]
        hops = [hop for hop in self.hops if (hop.source, hop.target) == (source, edge.target)]
        same = columns == [edge.column] and len(hops) == 1 and hops[0].form in ("formula", "column")
        return hops[0] if same else None

    def _reuse_own_hop(self, edge: SpaceEdge, own: Hop) -> None:
        """The same pairs as those of the dataset's own column: what is kept of them is not written again."""
        if own.form == "formula":
            self.hops.append(Hop(edge.source, edge.target, edge.role, "formula", own.rows, 0, body=own.body))
            return
        target = self.versions.get(edge.target)
        bounds = Bounds(self.versions[own.source].end, target.end) if target is not None else None
        backward = self._write_pairs(pairs_of(edge), "backward", bounds, distinct=False)
        forward = own.forward or backward  # a column that only grows is sorted both ways
        size = sum(_size(path) for path in {backward, forward})
        self.hops.append(Hop(edge.source, edge.target, edge.role, "pairs", own.rows, size, backward, forward))

    def _write_forward_column(self, edge: SpaceEdge, files: list[str], name: str, shape: IdColumnShape) -> Path:
        if self.engine.is_near and fits_in_memory(shape.count):
            with translate_disk_errors(self.home.path):
                return write_inverted_column(files, name, self.folder / f"{len(self.hops)}.forward")
        bounds = Bounds(self.versions[edge.source].rows, shape.largest + 1)
        return self._write_pairs(pairs_of(edge), "forward", bounds, distinct=False)

    def _direct_rows(self, edge: SpaceEdge) -> TableRows | None:
        """Where an edge is found in sources: when asked for, or in one source by its keys."""
        rows = self.rows.get(edge.table)
        if rows is None or rows.direct is None or rows.files:
            return None
        return rows if rows.kind == "lazy" or self._has_single_source(rows) else None

    def _has_single_source(self, rows: TableRows) -> bool:
        return rows.direct is not None and len(rows.direct.sources) == 1

    def _add_keyed_hop(self, edge: SpaceEdge) -> None:
        """Indexed from the source's own files; forward, the source answers for itself."""
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
            self.hops.append(Hop(edge.source, edge.target, edge.role, "everything", source.rows))
            self.members[edge.table] = source.rows
            return
        if rows.kind == "lazy" or "backward" not in self._edge_directions(edge):
            self.hops.append(Hop(edge.source, edge.target, edge.role, "keyed", 0, 0, body=body))
            return
        bounds = Bounds(dataset.end, source.end)
        path = self._write_pairs(pairs_of(edge), "backward", bounds, distinct=False)
        count = _rows(path)
        self.members[edge.table] = count
        if count == 0:
            self.hops.append(Hop(edge.source, edge.target, edge.role, "empty"))
            return
        self.hops.append(Hop(edge.source, edge.target, edge.role, "keyed", count, _size(path), path, None, body))

    # --- pairs ------------------------------------------------------------------------------------------------

    def _should_compose(self, ways: list[SpaceEdge], start: Space, target: Space) -> bool:
        if all(edge.source == start for edge in ways):
            return True
        if is_chain(ways, start) and stays_distinct(ways):
            return GROWTH > 0  # each row is in one group at each step: it cannot grow
        total = self.engine.number(count_of_ways(ways, start, target))
        replaced = sum(self.engine.number(f"SELECT count(*) FROM ({pairs_of(edge)}) x") for edge in ways)
        return total <= GROWTH * max(replaced, 1000)

    def _write_composed(self, ways: list[SpaceEdge], start: Space, target: Space) -> None:
        if is_chain(ways, start):
            self._add_pairs_hop(
                Hop(start, target, _combined_role(ways), "pairs"),
                chained_pairs(ways),
                distinct=not stays_distinct(ways),
            )
            return
        roles = [Role.OWN, Role.PEER] if any(edge.role is Role.PEER for edge in ways) else [Role.OWN]
        self.engine.keep("composed", composed_pairs(ways, start, target))
        for role in roles:
            self._add_pairs_hop(
                Hop(start, target, role, "pairs"), f"SELECT a, b FROM composed WHERE role = {int(role)}"
            )
        self.engine.drop("composed")

    def _add_pairs_hop(self, hop: Hop, pairs: str, *, distinct: bool = False) -> None:
        self.engine.keep("pairs", f"SELECT {'DISTINCT ' if distinct else ''}a, b FROM ({pairs}) x")
        rows = int(self.engine.number("SELECT count(*) FROM pairs"))
        if rows == 0:
            self.hops.append(Hop(hop.source, hop.target, hop.role, "empty"))
            return
        bounds = None
        if self.engine.number("SELECT least(min(a), min(b)) FROM pairs") >= 0:
            largest = [int(self.engine.number(f"SELECT max({side}) FROM pairs")) + 1 for side in ("a", "b")]
            bounds = Bounds(*largest)
        wanted = self._directions(hop.source, hop.target)
        paths = {
            direction: self._write_pairs("SELECT a, b FROM pairs", direction, bounds, distinct=False)
            for direction in ("backward", "forward")
            if direction in wanted
        }
        self.engine.drop("pairs")
        size = sum(map(_size, paths.values()))
        files = paths.get("backward"), paths.get("forward")
        self.hops.append(Hop(hop.source, hop.target, hop.role, "pairs", rows, size, *files))

    def _write_pairs(self, pairs: str, direction: str, bounds: Bounds | None, *, distinct: bool) -> Path:
        return self.engine.write(
            pairs, direction, self.folder / f"{len(self.hops)}.{direction}", bounds, distinct=distinct
        )

    def _count_pairs(self, graph: SpaceGraph) -> None:
        """How many distinct pairs there are between each dataset and each source, also where they are not kept end to
        end. None where counting them would multiply out what the hops are kept for.
        """
        for start in graph.datasets():
            edges = composable(graph.between(start, beyond=True), start)
            for source in (space for space in targets_of(edges) if space.startswith("source:")):
                ways = leading_to(edges, source)
                direct = [hop for hop in self.hops if (hop.source, hop.target) == (start, source)]
                if self._is_pruned(ways):
                    continue
                straight = all(edge.source == start or not is_dataset(edge.source) for edge in ways)
                # Pairs that were written are distinct over all roles; of other forms two may have a pair in common.
                apart = len(direct) == 1 or all(hop.form in ("pairs", "empty") for hop in direct)
                if any(graph.is_lazy(edge) for edge in ways) or any(_is_on_demand(hop) for hop in direct):
                    self.pairs[start, source] = None
                elif straight and direct and apart and not any(edge.frames for edge in ways):
                    self.pairs[start, source] = sum(hop.rows for hop in direct)
                else:
                    self.pairs[start, source] = self._count_distinct_pairs(ways, start, source)

    def _count_distinct_pairs(self, ways: Sequence[SpaceEdge], start: Space, source: Space) -> int | None:
        """The number of distinct pairs over these ways; None where nothing but multiplying them out would tell."""
        window = window_way(ways, start, source)
        if window is not None and (window.is_same_row or not self.engine.number(window.count_of_others())):
            nulls = bool(self.engine.number(window.count_of_nulls()))
            if not nulls:
                ends = window.frames.source, window.frames.target
                self.countable.setdefault(ends, []).append([start, source])
            return int(self.engine.number(window.count_of_pairs(nulls=nulls)))
        total = int(self.engine.number(count_of_ways(ways, start, source)))
        if total <= MOST_COUNTED:
            return int(self.engine.number(f"SELECT count(*) FROM ({composed_pairs(ways, start, source)}) x"))
        if is_chain(ways, start) and stays_distinct(ways):
            return total
        return None

    def _is_pruned(self, ways: Sequence[SpaceEdge]) -> bool:
        """Whether a part of the way is not kept."""
        return not all(self._edge_directions(edge) for edge in ways)

    # --- hop by hop -------------------------------------------------------------------------------------------

    def _keep_hops(self, graph: SpaceGraph, edges: list[SpaceEdge]) -> None:
        """Hops as they are, less the ids that no dataset reaches."""
        placed = {
            *graph.window_orders(),
            *(space for space in self.rows if is_window(space)),
        }  # by position, not by hash
        for space in dict.fromkeys(edge.source for edge in edges if not is_dataset(edge.source)):
            if not self._is_lazy_space(space) and space not in placed:
                self._number_reachable_ids(graph, space, [edge for edge in edges if edge.target == space])
        for edge in edges:
            if edge.everything:
                self.hops.append(Hop(edge.source, edge.target, edge.role, "everything"))
            elif graph.is_lazy(edge):
                body = {"space": edge.table, "column": edge.column}
                self.hops.append(Hop(edge.source, edge.target, edge.role, "lazy", body=body))
            elif edge.target.startswith("side:") and is_dataset(edge.source) and self._is_never_null(edge):
                self.hops.append(Hop(edge.source, edge.target, edge.role, "constant"))
            elif edge.own and self._is_lazy_space(edge.target):
                self._add_column_hop(edge)
            else:
                distinct = not (edge.once or edge.own)
                self._add_pairs_hop(
                    Hop(edge.source, edge.target, edge.role, "pairs"), self._numbered_pairs(edge), distinct=distinct
                )

    def _add_interval_hop(self, edge: SpaceEdge) -> None:
        """The bounds of a window's rows, by position: one file, looked into behind a position and ahead of it."""
        bounds = [bound_name(number) for number in range(2 * edge.frames)]
        read = " OR ".join(f"{name} IS NOT NULL" for name in bounds[::2])
        query = f"SELECT id AS a, {', '.join(bounds)} FROM {view_of(edge.table)} WHERE {read}"
        path = self.engine.write_rows(query, ["a"], self.folder / f"{len(self.hops)}.intervals")
        rows = _rows(path)
        if not rows:
            self.hops.append(Hop(edge.source, edge.target, edge.role, "empty"))
            return
        body = {"frames": edge.frames}
        self.hops.append(Hop(edge.source, edge.target, edge.role, "interval", rows, _size(path), path, None, body))

    def _is_lazy_space(self, space: Space) -> bool:
        rows = self.rows.get(space)
        return rows is not None and rows.kind == "lazy"

    def _has_table(self, space: Space) -> bool:
        return space in self.rows and not is_dataset(space)

    def _numbered_pairs(self, edge: SpaceEdge) -> str:
        """The pairs of an edge; ids of groups, which may be hashes, as small numbers."""
        text = pairs_of(edge)
        for side, space in (("a", edge.source), ("b", edge.target)):
            if space in self.numbered:
                other = "b" if side == "a" else "a"
                columns = f"n.number AS {side}, p.{other}" if side == "a" else f"p.{other}, n.number AS {side}"
                text = f"SELECT {columns} FROM ({text}) p JOIN {self.numbered[space]} n ON n.id = p.{side}"
        return text

    def _number_reachable_ids(self, graph: SpaceGraph, space: Space, incoming: list[SpaceEdge]) -> None:
        """Less the ids that nothing points at, and the others numbered: hashes of keys never stay on disk."""
        if not self._has_table(space) or space.startswith("side:") or any(map(graph.is_lazy, incoming)):
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


def _combined_role(ways: Sequence[SpaceEdge]) -> Role:
    return max((edge.role for edge in ways), default=Role.OWN)


def _is_on_demand(hop: Hop) -> bool:
    return hop.form == "lazy" or (hop.form == "keyed" and hop.backward is None)


def _size(path: Path) -> int:
    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def _rows(path: Path) -> int:
    from lineage_service.store.versions import parquet_rows

    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(parquet_rows(str(file)) for file in files)


def hops_between(hops: Sequence[Hop], start: Space, target: Space) -> list[Hop]:
    """The hops on ways from one space to another, absence left out: what is kept of the lineage between them."""
    ahead = _closure(hops, start, lambda hop: (hop.source, hop.target))
    behind = _closure(hops, target, lambda hop: (hop.target, hop.source))
    return [hop for hop in hops if hop.role is not Role.ABSENCE and hop.source in ahead and hop.target in behind]


def _closure(hops: Sequence[Hop], start: Space, ends: Callable[[Hop], tuple[Space, Space]]) -> set[Space]:
    found, grew = {start}, True
    while grew:
        new = {ends(hop)[1] for hop in hops if hop.role is not Role.ABSENCE and ends(hop)[0] in found} - found
        found |= new
        grew = bool(new)
    return found
