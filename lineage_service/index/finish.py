"""From the tables Spark wrote to index files: sorted both ways, encoded, with counts. DuckDB does the work.

Between two datasets lineage is kept end to end where that does not grow, and hop by hop where it would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.capture.handles import Role, Space, Table, is_dataset
from lineage_service.index.compose import (
    composable,
    composed_pairs,
    count_of_ways,
    pairs_of,
    reachable_ids,
    targets_of,
    view_of,
)
from lineage_service.index.edges import Edge, Graph, graph_of, leading_to, through_absence
from lineage_service.store.engine import column, literal, open_duckdb, parquet_scan

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GROWTH = 1.5  # end to end as long as it takes at most so many times the pairs of the hops it replaces
ROW_GROUP = 122_880
MOST_COUNTED = 20_000_000  # distinct pairs are counted up to so many ways


@dataclass(frozen=True)
class Hop:
    """Finished lineage between two spaces. `form`: pairs (in two files), constant, everything, or empty."""

    source: Space
    target: Space
    role: Role
    form: str
    rows: int = 0
    bytes: int = 0
    backward: Path | None = None
    forward: Path | None = None


@dataclass(frozen=True)
class TableFiles:
    """Where a lineage table is: files, its id column (None: the position in the files), its handle columns."""

    files: tuple[str, ...]
    id_column: str | None
    handle_columns: tuple[str, ...]


@dataclass
class Finisher:
    """Builds the index of one run."""

    tables: tuple[Table, ...]
    files: Mapping[Space, TableFiles]
    folder: Path
    spill: Path
    hops: list[Hop] = field(default_factory=list)
    pairs: dict[tuple[Space, Space], int] = field(default_factory=dict)

    def finish(self) -> list[Hop]:
        graph = graph_of(self.tables)
        with open_duckdb(self.spill) as connection:
            self._make_views(connection)
            kept: dict[Edge, None] = {}
            for start in graph.datasets():
                for edge in self._finish_dataset(connection, graph, start):
                    kept[edge] = None
            self._count_pairs(connection, graph)
            self._keep_hops(connection, list(kept))
        return self.hops

    def _make_views(self, connection: DuckDBPyConnection) -> None:
        for space, table in self.files.items():
            columns = [f"{column(name)} AS h{index}" for index, name in enumerate(table.handle_columns)]
            scan, position = parquet_scan(table.files)
            identity = position if table.id_column is None else column(table.id_column)
            connection.execute(
                f"CREATE VIEW {view_of(space)} AS SELECT {', '.join([f'{identity} AS id', *columns])} FROM {scan}"
            )

    def _finish_dataset(self, connection: DuckDBPyConnection, graph: Graph, start: Space) -> list[Edge]:
        """Writes what is kept end to end; gives the edges that must be kept as hops."""
        edges = graph.between(start)
        hops: list[Edge] = []
        for target in targets_of(edges):
            ways = leading_to(composable(edges, start), target)
            if ways and self._worth_composing(connection, ways, start, target):
                self._write_composed(connection, ways, start, target)
            elif ways:
                hops += ways
            hops += through_absence(leading_to(edges, target))
        return hops

    def _worth_composing(self, connection: DuckDBPyConnection, ways: list[Edge], start: Space, target: Space) -> bool:
        if all(edge.source == start for edge in ways):
            return True
        total = _number(connection, count_of_ways(ways, start, target))
        replaced = sum(_number(connection, f"SELECT count(*) FROM ({pairs_of(edge)})") for edge in ways)
        return total <= GROWTH * max(replaced, 1000)

    def _write_composed(self, connection: DuckDBPyConnection, ways: list[Edge], start: Space, target: Space) -> None:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE composed AS {composed_pairs(ways, start, target)}")
        roles = [Role.OWN, Role.PEER] if any(edge.role is Role.PEER for edge in ways) else [Role.OWN]
        for role in roles:
            pairs = f"SELECT a, b FROM composed WHERE role = {int(role)}"
            self._write(connection, Hop(start, target, role, "pairs"), pairs)
        connection.execute("DROP TABLE composed")

    def _count_pairs(self, connection: DuckDBPyConnection, graph: Graph) -> None:
        """How many pairs there are between each dataset and each source, also where they are not kept end to end.

        Where counting would multiply out what the hops are kept for, the number of ways stands for it.
        """
        for start in graph.datasets():
            edges = composable(graph.between(start, beyond=True), start)
            for source in (space for space in targets_of(edges) if space.startswith("source:")):
                ways = leading_to(edges, source)
                if all(edge.source == start or not is_dataset(edge.source) for edge in ways):
                    direct = [hop.rows for hop in self.hops if (hop.source, hop.target) == (start, source)]
                    if direct:
                        self.pairs[start, source] = sum(direct)
                        continue
                total = _number(connection, count_of_ways(ways, start, source))
                if total <= MOST_COUNTED:
                    total = _number(connection, f"SELECT count(*) FROM ({composed_pairs(ways, start, source)})")
                self.pairs[start, source] = int(total)

    def _keep_hops(self, connection: DuckDBPyConnection, edges: list[Edge]) -> None:
        """Hops as they are, less the ids that no dataset reaches."""
        done: set[Space] = set()
        for edge in edges:
            if not is_dataset(edge.source) and edge.source not in done:
                self._reduce(connection, edge.source, [other for other in edges if other.target == edge.source])
                done.add(edge.source)
            hop = Hop(edge.source, edge.target, edge.role, "pairs")
            if edge.everything:
                self.hops.append(Hop(edge.source, edge.target, edge.role, "everything"))
            elif edge.target.startswith("side:") and is_dataset(edge.source) and self._never_null(connection, edge):
                self.hops.append(Hop(edge.source, edge.target, edge.role, "constant"))
            else:
                self._write(connection, hop, f"SELECT DISTINCT a, b FROM ({pairs_of(edge)})")

    def _reduce(self, connection: DuckDBPyConnection, space: Space, incoming: list[Edge]) -> None:
        if space not in self.files or space.startswith("side:"):
            return
        name = view_of(space)
        connection.execute(f"CREATE TEMP TABLE reachable AS {reachable_ids(incoming)}")
        connection.execute(f"CREATE TEMP TABLE reduced AS SELECT t.* FROM {name} t SEMI JOIN reachable USING (id)")
        connection.execute(f"DROP VIEW {name}")
        connection.execute(f"ALTER TABLE reduced RENAME TO {name}")
        connection.execute("DROP TABLE reachable")

    def _never_null(self, connection: DuckDBPyConnection, edge: Edge) -> bool:
        counted = f"SELECT count(*) - count({edge.column}) FROM {view_of(edge.source)}"
        return _number(connection, counted) == 0

    def _write(self, connection: DuckDBPyConnection, hop: Hop, pairs: str) -> None:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE pairs AS {pairs}")
        rows = int(_number(connection, "SELECT count(*) FROM pairs"))
        if rows == 0:
            self.hops.append(Hop(hop.source, hop.target, hop.role, "empty"))
            return
        number = len(self.hops)
        paths = {}
        for direction, order in (("backward", "a, b"), ("forward", "b, a")):
            path = self.folder / f"{number}.{direction}.parquet"
            connection.execute(
                f"COPY (SELECT a, b FROM pairs ORDER BY {order}) TO {literal(str(path))} "
                f"(FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
            )
            paths[direction] = path
        connection.execute("DROP TABLE pairs")
        size = sum(path.stat().st_size for path in paths.values())
        self.hops.append(
            Hop(hop.source, hop.target, hop.role, "pairs", rows, size, paths["backward"], paths["forward"])
        )


def _number(connection: DuckDBPyConnection, query: str) -> float:
    row = connection.execute(query).fetchone()
    return float(row[0]) if row and row[0] is not None else 0.0


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
