"""Writes the files of hops, and collects the hops of one run.

Which form each piece of lineage gets is decided in index_builder.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Role, Space
from lineage_service.capture.workload import Direction
from lineage_service.index.column_inversion import fits_in_memory, write_inverted_column
from lineage_service.index.compose import chained_pairs, composed_pairs, is_chain, pairs_of, stays_distinct, view_of
from lineage_service.index.hops import Hop
from lineage_service.index.id_columns import IdColumnShape
from lineage_service.index.index_engine import Bounds, IndexEngine
from lineage_service.index.space_graph import SpaceEdge
from lineage_service.store.layout import HomeLayout, translate_disk_errors
from lineage_service.store.lineage_tables import bound_name
from lineage_service.store.versions import Version


@dataclass
class HopWriter:
    """The hops of one run as they are written.

    kept: the directions in which pairs are kept, by the two spaces; None where both are kept everywhere
    """

    versions: Mapping[Space, Version]
    home: HomeLayout
    folder: Path
    engine: IndexEngine
    kept: dict[tuple[Space, Space], set[Direction]] | None = None
    hops: list[Hop] = field(default_factory=list)

    def directions(self, source: Space, target: Space) -> set[Direction]:
        """The directions in which pairs of two spaces are kept."""
        return {"backward", "forward"} if self.kept is None else self.kept.get((source, target), set())

    def edge_directions(self, edge: SpaceEdge) -> set[Direction]:
        return self.directions(edge.source, edge.target)

    def add(
        self,
        edge: SpaceEdge,
        form: HopForm,
        rows: int = 0,
        size: int = 0,
        backward: Path | None = None,
        forward: Path | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds the hop of one edge."""
        self.hops.append(Hop(edge.source, edge.target, edge.role, form, rows, size, backward, forward, body))

    def add_composed_pairs(self, ways: list[SpaceEdge], start: Space, target: Space) -> None:
        """Adds the pairs between two spaces, composed from all ways between them; one hop per role."""
        if is_chain(ways, start):
            self.add_pairs(
                Hop(start, target, _combined_role(ways), HopForm.PAIRS),
                chained_pairs(ways),
                distinct=not stays_distinct(ways),
            )
            return
        roles = [Role.OWN, Role.PEER] if any(edge.role is Role.PEER for edge in ways) else [Role.OWN]
        self.engine.keep("composed", composed_pairs(ways, start, target))
        for role in roles:
            self.add_pairs(
                Hop(start, target, role, HopForm.PAIRS), f"SELECT a, b FROM composed WHERE role = {int(role)}"
            )
        self.engine.drop("composed")

    def add_pairs(self, hop: Hop, pairs: str, *, distinct: bool = False) -> None:
        """Adds a hop with the pairs that a query gives; `hop` names its ends and its role."""
        self.engine.keep("pairs", f"SELECT {'DISTINCT ' if distinct else ''}a, b FROM ({pairs}) x")
        rows = int(self.engine.number("SELECT count(*) FROM pairs"))
        if rows == 0:
            self.hops.append(Hop(hop.source, hop.target, hop.role, HopForm.EMPTY))
            return
        bounds = None
        if self.engine.number("SELECT least(min(a), min(b)) FROM pairs") >= 0:
            largest = [int(self.engine.number(f"SELECT max({side}) FROM pairs")) + 1 for side in ("a", "b")]
            bounds = Bounds(*largest)
        wanted = self.directions(hop.source, hop.target)
        paths = {
            direction: self.write_pairs("SELECT a, b FROM pairs", direction, bounds, distinct=False)
            for direction in ("backward", "forward")
            if direction in wanted
        }
        self.engine.drop("pairs")
        size = sum(map(file_size, paths.values()))
        files = paths.get("backward"), paths.get("forward")
        self.hops.append(Hop(hop.source, hop.target, hop.role, HopForm.PAIRS, rows, size, *files))

    def write_pairs(self, pairs: str, direction: str, bounds: Bounds | None, *, distinct: bool) -> Path:
        return self.engine.write(
            pairs, direction, self.folder / f"{len(self.hops)}.{direction}", bounds, distinct=distinct
        )

    def add_intervals(self, edge: SpaceEdge) -> None:
        """Adds the bounds of a window's rows, by position: one file, looked into behind a position and ahead of it."""
        bounds = [bound_name(number) for number in range(2 * edge.frames)]
        read = " OR ".join(f"{name} IS NOT NULL" for name in bounds[::2])
        query = f"SELECT id AS a, {', '.join(bounds)} FROM {view_of(edge.table)} WHERE {read}"
        path = self.engine.write_rows(query, ["a"], self.folder / f"{len(self.hops)}.intervals")
        rows = row_count(path)
        if not rows:
            self.add(edge, HopForm.EMPTY)
            return
        body = {"frames": edge.frames}
        self.add(edge, HopForm.INTERVAL, rows, file_size(path), path, None, body)

    def write_forward_column(self, edge: SpaceEdge, files: list[str], name: str, shape: IdColumnShape) -> Path:
        """Writes the forward index of a dataset's own column of ids."""
        if self.engine.is_near and fits_in_memory(shape.count):
            with translate_disk_errors(self.home.path):
                return write_inverted_column(files, name, self.folder / f"{len(self.hops)}.forward")
        bounds = Bounds(self.versions[edge.source].rows, shape.largest + 1)
        return self.write_pairs(pairs_of(edge), "forward", bounds, distinct=False)


def _combined_role(ways: Sequence[SpaceEdge]) -> Role:
    return max((edge.role for edge in ways), default=Role.OWN)


def file_size(path: Path) -> int:
    """Bytes of a Parquet file, or of all those in a folder."""
    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def row_count(path: Path) -> int:
    """Rows of a Parquet file, or of all those in a folder."""
    from lineage_service.store.versions import parquet_rows

    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(parquet_rows(str(file)) for file in files)
