"""Rewrites the files of a superseding run so that they contain only live rows and the lineage between them.

A refresh shares files with the previous run. Removed rows remain in those files, and their ids in index files. Here the
shared files are rewritten without them, before the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Space
from lineage_service.index.index_engine import sorted_pairs
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.query.home_files import HomeFiles, body_of
from lineage_service.query.hop_sql import (
    exclude_refreshed_rows,
    pairs_relation,
    positions_in,
    refreshed_row_files,
    way_ranges,
)
from lineage_service.query.lineage_graph import Place, Way
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.walk_sql import way_pairs
from lineage_service.store.checksums import verify
from lineage_service.store.compaction import compact_version
from lineage_service.store.duckdb_engine import literal
from lineage_service.store.layout import RunFolder, translate_disk_errors
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.versions import Version
from lineage_service.subjects.source_indexing import scan_of

_NO_IDS = "SELECT 0::BIGINT AS b WHERE false"
PAIRED = (HopForm.PAIRS, HopForm.COLUMN, HopForm.KEYED)


@dataclass
class RunPurge:
    """Rewrites the files of one run. `versions` are the new versions by space; `changed` are the spaces whose rows
    changed.
    """

    engine: QueryEngine
    folder: RunFolder
    versions: Mapping[Space, Version]
    changed: frozenset[Space]
    _written: int = field(default=0)

    # --- lineage ----------------------------------------------------------------------------------------------

    def purge_hops(self, hops: Iterable[HopRecord]) -> list[HopRecord]:
        """Rewrites hops that mention removed rows. Keeps one hop between two spaces."""
        paired: dict[tuple[Space, Space, int], list[HopRecord]] = {}
        found: list[HopRecord] = []
        for hop in dict.fromkeys(hops):
            if hop.form in PAIRED and self._mentions_removed_rows(hop):
                paired.setdefault((hop.from_space, hop.to_space, hop.role), []).append(hop)
            elif hop.form is HopForm.INTERVAL:
                found.append(hop)
            elif (kept := self._merge_masks(hop)) is not None:
                found.append(kept)
        # Unaffected pairs of the same two spaces are merged with the rewritten ones.
        for key, group in paired.items():
            same = [
                hop for hop in found if hop.form is HopForm.PAIRS and (hop.from_space, hop.to_space, hop.role) == key
            ]
            found = [hop for hop in found if hop not in same]
            found.append(self._merge_pairs(key, [*same, *group]))
        found = _reachable(_drop_redundant_empty_hops(found))
        with self._reached_ids(found) as reached:
            found = [self._intervals(hop, reached) if hop.form is HopForm.INTERVAL else hop for hop in found]
        return _reachable(_drop_redundant_empty_hops(found))

    def _mentions_removed_rows(self, hop: HopRecord) -> bool:
        if refreshed_row_files(hop) or hop.from_space in self.changed or hop.to_space in self.changed:
            return True
        # Handles in a dataset's own files are removed when the file is rewritten.
        return hop.form is HopForm.COLUMN and _version_has_excluded_rows(self.versions[hop.from_space])

    def _merge_pairs(self, key: tuple[Space, Space, int], hops: Sequence[HopRecord]) -> HopRecord:
        run_id = self.folder.run_id
        ends = Place(run_id, key[0]), Place(run_id, key[1])
        files = self._files()
        parts = [f"SELECT a, b FROM ({pairs_relation(Way(*ends, hop), 'backward', files)})" for hop in hops]
        text = " UNION ALL ".join(parts)
        for space, side in ((key[0], "a"), (key[1], "b")):
            if space in self.changed:
                rids = scan_of(self.folder, self.versions[space]).all_rids()
                text = f"SELECT p.* FROM ({text}) p SEMI JOIN ({rids}) r ON r.b = p.{side}"
        table = self.engine.keep(f"SELECT DISTINCT a, b FROM ({text})")
        try:
            rows = self.engine.scalar(f"SELECT count(*) FROM {table}")
            if not rows:
                return HopRecord(run_id, *key, HopForm.EMPTY, 0, 0, None, None)
            paths = []
            with translate_disk_errors(self.folder.home.path):
                self.folder.index.mkdir(parents=True, exist_ok=True)
                for way in ("backward", "forward"):
                    pairs = sorted_pairs(f"SELECT a, b FROM {table}", way, None, distinct=False)
                    reader = self.engine.connection.sql(pairs).to_arrow_reader(ROW_GROUP)
                    paths.append(write_pairs(self.folder.index / f"kept-{self._written}.{way}", reader))
        finally:
            self.engine.drop(table)
        self._written += 1
        size = sum(path.stat().st_size for path in paths)
        inside = [self.folder.home.relative(path) for path in paths]
        return HopRecord(run_id, *key, HopForm.PAIRS, rows, size, *inside)

    def _intervals(self, hop: HopRecord, reached: Callable[[Space], str]) -> HopRecord:
        """The intervals of window rows that still exist or that an existing row derives from."""
        rows = self._unmasked_rows(hop)
        left = f"SELECT i.* FROM ({rows}) i SEMI JOIN {reached(hop.from_space)} r ON r.b = i.a"
        number = self.engine.scalar(f"SELECT count(*) FROM ({left})")
        # Some positions no longer exist, so counting by interval length would count too many.
        body = json.dumps({"frames": body_of(hop)["frames"]})
        if number == self.engine.scalar(f"SELECT count(*) FROM {self._files().index(hop.backward)}"):
            return replace(hop, body=body) if refreshed_row_files(hop) else hop
        if not number:
            return HopRecord(hop.run_id, hop.from_space, hop.to_space, hop.role, HopForm.EMPTY, 0, 0, None, None)
        with translate_disk_errors(self.folder.home.path):
            self.folder.index.mkdir(parents=True, exist_ok=True)
            path = self.folder.index / f"kept-{self._written}.intervals.parquet"
            options = f"FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
            self.engine.connection.execute(f"COPY ({left} ORDER BY a) TO {literal(str(path))} ({options})")
        self._written += 1
        inside, size = self.folder.home.relative(path), path.stat().st_size
        return replace(hop, rows=number, bytes=size, backward=inside, body=body)

    def _unmasked_rows(self, hop: HopRecord) -> str:
        files = self._files()
        return exclude_refreshed_rows(hop, f"SELECT * FROM {files.index(hop.backward)}", "a", files)

    def _files(self) -> HomeFiles:
        return HomeFiles(self.folder.home.absolute, lambda place: scan_of(self.folder, self.versions[place.space]))

    @contextmanager
    def _reached_ids(self, hops: Sequence[HopRecord]) -> Iterator[Callable[[Space], str]]:
        """Per space a table (column b) of its ids that are reachable from rows of datasets."""
        tables: dict[str, str] = {}
        kept: list[str] = []

        def keep(query: str) -> str:
            kept.append(self.engine.keep(query))
            return kept[-1]

        def ids_in_space(space: Space) -> str:
            if space not in tables:
                rids = scan_of(self.folder, self.versions[space]).all_rids() if space in self.versions else None
                leading = [hop for hop in hops if hop.to_space == space and hop.form is not HopForm.EMPTY]
                parts = [ids_behind(hop) for hop in leading] if rids is None else [rids]
                tables[space] = keep(f"SELECT DISTINCT b FROM ({' UNION ALL '.join(parts or [_NO_IDS])})")
            return tables[space]

        def ids_behind(hop: HopRecord) -> str:
            before = ids_in_space(hop.from_space)
            if hop.form is HopForm.INTERVAL:
                return positions_in(keep(way_ranges(hop, before, self._files())))
            way = Way(Place(self.folder.run_id, hop.from_space), Place(self.folder.run_id, hop.to_space), hop)
            return f"SELECT b FROM ({way_pairs(way, before, 'backward', self._files())})"

        try:
            yield ids_in_space
        finally:
            for table in kept:
                self.engine.drop(table)

    def _merge_masks(self, hop: HopRecord) -> HopRecord | None:
        """For a hop computed from row numbers, one file of the rows it does not cover; None if it covers none."""
        masks = refreshed_row_files(hop)
        if not masks and not (hop.form is HopForm.FORMULA and hop.to_space in self.changed):
            return hop
        absolute = self.folder.home.absolute
        removed = np.unique(np.concatenate([_no_ids(), *(_column(absolute(path), "a") for path in masks)]))
        own = self._rids(hop.from_space) if hop.from_space in self.versions else None
        if own is not None and not len(np.setdiff1d(own, removed)):
            return None
        if own is not None:
            removed = np.union1d(removed, self._orphaned_rows(hop, np.setdiff1d(own, removed)))
        mask = Patcher(self.folder).write_mask(removed)
        return replace(hop, body=json.dumps({**body_of(hop), "without": [mask]}))

    def _orphaned_rows(self, hop: HopRecord, own: Ids) -> Ids:
        """Rows that stay although the row they derive from is gone, because they are kept on a legal ground."""
        if hop.form is not HopForm.FORMULA or hop.to_space not in self.changed:
            return _no_ids()
        body = body_of(hop)
        shift, div, mod, low, high = (int(body[key]) for key in ("shift", "div", "mod", "low", "high"))
        inside = own[(own >= low) & (own < high)]
        there = (inside + shift) // div
        there = there % mod if mod else there
        return inside[~np.isin(there, self._rids(hop.to_space))]

    def _rids(self, space: Space) -> Ids:
        found: Ids = self.engine.id_array(scan_of(self.folder, self.versions[space]).all_rids()).to_numpy(
            zero_copy_only=False
        )
        return found.astype("int64")

    # --- rows -------------------------------------------------------------------------------------------------

    def purge_version(self, space: Space) -> Version:
        """A dataset's version rewritten without excluded rows."""
        target: Path = self.folder.snapshot(space.name) if space.is_source else self.folder.dataset(space.name)
        return compact_version(self.versions[space], Patcher(self.folder), target)


def has_excluded_rows(versions: Iterable[Version]) -> bool:
    """Whether files of the home contain rows that are excluded from these versions."""
    return any(_version_has_excluded_rows(version) for version in versions)


def _version_has_excluded_rows(version: Version) -> bool:
    return any(file.left_out and not Path(file.path).is_absolute() for file in version.files)


def _drop_redundant_empty_hops(hops: Sequence[HopRecord]) -> list[HopRecord]:
    """Drops empty hops if there are other hops between the same spaces."""
    ends = {(hop.from_space, hop.to_space) for hop in hops if hop.form is not HopForm.EMPTY}
    found = [hop for hop in hops if hop.form is not HopForm.EMPTY or (hop.from_space, hop.to_space) not in ends]
    return list(dict.fromkeys(found))


def _reachable(hops: Sequence[HopRecord]) -> list[HopRecord]:
    """Hops of groups and sides that are reachable from some dataset."""
    reached, pending = set[Space](), [hop.from_space for hop in hops if hop.from_space.is_dataset]
    while pending:
        space = pending.pop()
        if space not in reached:
            reached.add(space)
            pending += [hop.to_space for hop in hops if hop.from_space == space and hop.form is not HopForm.EMPTY]
    return [hop for hop in hops if hop.from_space in reached]


def _column(path: str, name: str) -> Ids:
    verify(path)
    found: Ids = pq.read_table(path, columns=[name]).column(0).to_numpy().astype("int64")
    return found


def _no_ids() -> Ids:
    return np.array([], np.int64)
