"""Lineage of a refreshed run: the hops of the previous run without the recomputed rows, and new hops for those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Role, Space, Table
from lineage_service.index.compose import (
    composable,
    composed_pairs,
    count_of_ways,
    frame_ranges,
    merged_intervals,
    pairs_of,
    segment_ends,
    targets_of,
    view_of,
)
from lineage_service.index.index_engine import DuckIndexEngine, duckdb_index_engine
from lineage_service.index.space_graph import SpaceEdge, build_space_graph, leading_to, through_absence
from lineage_service.store.duckdb_engine import literal
from lineage_service.store.layout import RunFolder
from lineage_service.store.lineage_tables import TableRows, bound_name
from lineage_service.store.version_patcher import Ids
from lineage_service.store.versions import Version

MOST_PAIRS = 5_000_000  # limit for the number of pairs that are compared with those of the previous run
_REACHED = "reached_"


def without_touched(behind: str, touched: Mapping[Space, str]) -> str:
    """From a table (id, space, b), the rows of ids that have none of the `touched` rows behind them, as one table (b)
    per space.
    """
    parts = [
        f"SELECT p.id FROM {behind} p JOIN {table} x ON x.b = p.b WHERE p.space = {literal(space)}"
        for space, table in touched.items()
    ]
    if not parts:
        return f"SELECT * FROM {behind}"
    return f"SELECT p.* FROM {behind} p ANTI JOIN ({' UNION ALL '.join(parts)}) u ON u.id = p.id"


def copy_hops(hops: Iterable[HopRecord], run_id: str, space: Space, mask: str | None) -> list[HopRecord]:
    """Copies the hops of a run to another run. Hops of a dataset's rows exclude the rows in the mask."""
    found = []
    for hop in hops:
        body = hop.body
        if hop.from_space == space and mask is not None:
            known = json.loads(body or "{}")
            body = json.dumps({**known, "without": [*known.get("without", []), mask]})
        found.append(replace(hop, run_id=run_id, body=body))
    return found


def hops_to_nearest_datasets(hops: Sequence[HopRecord], space: Space) -> list[HopRecord]:
    """The hops from a dataset to the nearest datasets."""
    found: list[HopRecord] = []
    seen, pending = {str(space)}, [str(space)]
    while pending:
        at = pending.pop()
        for hop in hops:
            if hop.from_space == at:
                found.append(hop)
                if hop.to_space not in seen and not hop.to_space.is_dataset:
                    seen.add(hop.to_space)
                    pending.append(hop.to_space)
    return found


@dataclass
class FreshLineage:
    """The lineage of a dataset's recomputed rows, in files of the run's folder."""

    folder: RunFolder
    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows]
    version: Version
    places: Ids  # positions of the rows that are kept, and their rids
    rids: Ids
    _reached: set[Space] = field(default_factory=set)
    _influencing: set[Space] = field(default_factory=set)

    def behind(self, places: Ids, added: Mapping[Space, Ids], path: Path) -> str | None:
        """Writes a file (id, space, b) of the rows behind the rows at these positions, and returns it as a table.

        Omits rows that have one of the added rows (`added`) behind them. None if there are too many pairs, as with the
        frames of a large window.
        """
        start = self.tables[0].space
        with self._engine() as engine:
            engine.connection.register("places_given", pa.table({"place": places}))
            edges, parts = build_space_graph(self.tables, self._table_rows()).between(start), []
            for target in targets_of(edges):
                ways = leading_to(composable(edges, start), target)
                if any(edge.frames for edge in ways) and engine.number(count_of_ways(ways, start, target)) > MOST_PAIRS:
                    return None
                if ways:
                    composed = (
                        f"SELECT a AS id, {literal(target)} AS space, b FROM ({composed_pairs(ways, start, target)})"
                    )
                    parts.append(f"SELECT DISTINCT * FROM ({composed}) p SEMI JOIN places_given g ON g.place = p.id")
            nothing = "SELECT 0::BIGINT AS id, '' AS space, 0::BIGINT AS b WHERE false"
            engine.keep("behind", " UNION ALL ".join(parts or [nothing]))
            for number, ids in enumerate(added.values()):
                engine.connection.register(f"added{number}", pa.table({"b": ids}))
            touched = {space: f"added{number}" for number, space in enumerate(added)}
            query = without_touched("behind", touched)
            path.parent.mkdir(parents=True, exist_ok=True)
            engine.connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet)")
        return f"read_parquet({literal(str(path))})"

    @contextmanager
    def _engine(self) -> Iterator[DuckIndexEngine]:
        with duckdb_index_engine(self.folder.temporary / "spill", self.folder.home, {}) as engine:
            for space, rows in self._table_rows().items():
                engine.view(view_of(space), rows)
            yield engine

    def hops(self, number: int) -> list[HopRecord]:
        """Hops with pairs from the rows' rids to the nearest datasets. A window on the way keeps its intervals, with
        pairs on both sides.
        """
        start = self.tables[0].space
        graph = build_space_graph(self.tables, self._table_rows())
        found: list[HopRecord] = []
        with self._engine() as engine:
            self._register_rids(engine)
            for place in [start, *graph.window_orders_behind(start)]:
                for edge in graph.edges:  # all ways to this window have been visited
                    if edge.frames and edge.target == place:
                        found += self._interval_hops(engine, edge, f"{number}-{len(found)}")
                edges = graph.segment(place)
                for target in segment_ends(edges):
                    found += self._segment_hops(engine, edges, place, target, f"{number}-{len(found)}")
                for edge in through_absence(edges):
                    found += self._absence_hops(engine, edge, start, f"{number}-{len(found)}")
        return list(dict.fromkeys(found))

    def _segment_hops(
        self, engine: DuckIndexEngine, edges: Sequence[SpaceEdge], source: Space, target: Space, name: str
    ) -> list[HopRecord]:
        ways = leading_to(composable(edges, source), target)
        if not ways:
            return []
        ends = self._space_of_this_run(source), self._space_of_this_run(target)
        found = [HopRecord(self.folder.run_id, *ends, int(Role.OWN), HopForm.EMPTY, 0, 0, None, None)]
        engine.keep("composed", composed_pairs(ways, source, target))
        for role in (Role.OWN, Role.PEER):
            pairs = f"SELECT a, b FROM composed WHERE role = {int(role)}"
            found += self._pair_hops(engine, source, target, role, pairs, self.tables[0].space, f"{name}-{int(role)}")
        if target.is_window:  # only the part of the window that these rows reach is kept
            given = source == self.tables[0].space
            rows = "composed c JOIN given g ON g.place = c.a" if given else "composed c"
            known = f"SELECT id FROM {_REACHED}{view_of(target)} UNION " if target in self._reached else ""
            engine.keep(f"{_REACHED}{view_of(target)}", f"{known}SELECT DISTINCT c.b AS id FROM {rows}")
            self._reached.add(target)
        return found

    def _interval_hops(self, engine: DuckIndexEngine, edge: SpaceEdge, name: str) -> list[HopRecord]:
        """The intervals of the window rows that were reached. Of the ordered rows, only those inside an interval are
        kept.
        """
        view, order = view_of(edge.table), view_of(edge.target)
        if edge.source in self._reached - self._influencing:
            engine.keep(view, f"SELECT t.* FROM {view} t SEMI JOIN {_REACHED}{view} r ON r.id = t.id")
        islands = merged_intervals(f"SELECT 0 AS k, lo, hi FROM ({frame_ranges(edge.frames, view)}) f", ["k"])
        engine.keep(order, f"SELECT t.* FROM {order} t JOIN ({islands}) i ON t.id BETWEEN i.lo AND i.hi")
        bounds = [bound_name(number) for number in range(2 * edge.frames)]
        read = " OR ".join(f"{name} IS NOT NULL" for name in bounds[::2])
        rows = int(engine.number(f"SELECT count(*) FROM {view} WHERE {read}"))
        if not rows:
            return []
        self.folder.index.mkdir(parents=True, exist_ok=True)
        query = f"SELECT id AS a, {', '.join(bounds)} FROM {view} WHERE {read}"
        path = engine.write_rows(query, ["a"], self.folder.index / f"{name}.intervals")
        ends = self._space_of_this_run(edge.source), self._space_of_this_run(edge.target)
        inside, body = self.folder.home.relative(path), json.dumps({"frames": edge.frames})
        return [
            HopRecord(
                self.folder.run_id,
                *ends,
                int(edge.role),
                HopForm.INTERVAL,
                rows,
                path.stat().st_size,
                inside,
                None,
                body,
            )
        ]

    def _table_rows(self) -> dict[Space, TableRows]:
        files = tuple(file.path for file in self.version.files)
        return {
            space: replace(rows, files=files) if rows.within is not None else rows for space, rows in self.rows.items()
        }

    def _register_rids(self, engine: DuckIndexEngine) -> None:
        table = pa.table({"place": self.places, "rid": self.rids})
        engine.connection.register("rids_given", table)
        engine.keep("given", "SELECT * FROM rids_given")
        engine.connection.unregister("rids_given")

    def _pair_hops(
        self, engine: DuckIndexEngine, source: Space, target: Space, role: Role, pairs: str, start: Space, name: str
    ) -> list[HopRecord]:
        """Writes pairs in two sort orders. Ids of the dataset's own rows are positions and are translated to rids."""
        if source == start:
            pairs = f"SELECT g.rid AS a, p.b FROM ({pairs}) p JOIN given g ON g.place = p.a"
        engine.keep("pairs", f"SELECT DISTINCT a, b FROM ({pairs})")
        rows = int(engine.number("SELECT count(*) FROM pairs"))
        if not rows:
            return []
        self.folder.index.mkdir(parents=True, exist_ok=True)
        paths = [
            engine.write("SELECT a, b FROM pairs", way, self.folder.index / f"{name}.{way}", None, distinct=False)
            for way in ("backward", "forward")
        ]
        size = sum(path.stat().st_size for path in paths)
        inside = [self.folder.home.relative(path) for path in paths]
        return [
            HopRecord(
                self.folder.run_id,
                self._space_of_this_run(source),
                self._space_of_this_run(target),
                int(role),
                HopForm.PAIRS,
                rows,
                size,
                *inside,
            )
        ]

    def _absence_hops(self, engine: DuckIndexEngine, edge: SpaceEdge, start: Space, name: str) -> list[HopRecord]:
        if edge.everything:
            ends = self._space_of_this_run(edge.source), self._space_of_this_run(edge.target)
            return [HopRecord(self.folder.run_id, *ends, int(edge.role), HopForm.EVERYTHING, 0, 0, None, None)]
        if edge.target.is_window:
            self._influencing.add(edge.target)
        return self._pair_hops(engine, edge.source, edge.target, edge.role, pairs_of(edge), start, name)

    def _space_of_this_run(self, space: Space) -> Space:
        """Renames groups and sides, so that they differ from those of the previous run."""
        return space if space.is_dataset else Space(f"{space} of {self.folder.run_id}")
