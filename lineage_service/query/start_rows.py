"""Finds the rows that questions start from, by row ids, keys or a predicate, and caches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import NotFound, join_names
from lineage_service.query.changed_files import changed_files, files_holding, refuse_changed
from lineage_service.query.guarded_session import Session
from lineage_service.query.masks import Masks
from lineage_service.query.partition_pruning import may_hold
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.selection import HELD, Selection, rids_where
from lineage_service.query.walk_sql import FEW, Start
from lineage_service.store.version_scan import VersionScan

if TYPE_CHECKING:
    import pyarrow as pa


MOST_TAKEN = 1000  # number of cached predicates
MOST_TRIED = 10_000  # rids that are looked up to name the first one in a message


class StartRows:
    """Finds the rows of a dataset that a selection matches."""

    def __init__(
        self, engine: QueryEngine, session: Session, masks: Masks, scan: Callable[[DatasetRecord], VersionScan]
    ) -> None:
        self.engine, self.session, self.masks, self.scan = engine, session, masks, scan
        self._taken: dict[tuple[object, ...], pa.Array] = {}

    def find(self, dataset: DatasetRecord, selection: Selection) -> Start:
        if not selection.is_specified or selection.all:
            return Start()
        scan = self.scan(dataset)
        if selection.rid is not None:
            self._refuse_unknown_rids(dataset, scan, selection.rid)
        if not selection.reads_rows:
            return Start(rids=selection.rid)
        return self.start_of(
            self._rids_by_predicate(dataset, self._scan_for_predicate(dataset, scan, selection), selection)
        )

    def _scan_for_predicate(self, dataset: DatasetRecord, scan: VersionScan, selection: Selection) -> VersionScan:
        """The files that a predicate must read. Raises SourceError if one of them has changed."""
        import pyarrow as pa

        changed, held = changed_files(scan), None
        if changed and selection.rid is not None:
            held = files_holding(scan, pa.array(sorted(selection.rid), pa.int64()))
        elif changed:
            masked = self.masks.over(dataset, reveal=selection.reveal)
            held = {index: int(may_hold(self.engine, scan, index, selection, masked)) for index in changed}
        if held is not None and not any(held.get(index) for index in changed):
            return scan.without_files(changed)
        refuse_changed(dataset, scan, changed, held if selection.rid is not None else None)
        return scan

    def _rids_by_predicate(self, dataset: DatasetRecord, scan: VersionScan, selection: Selection) -> pa.Array:
        """The rids that a predicate matches. Versions never change, so results of few rows are cached, separately for
        questions that reveal.
        """
        masked = self.masks.over(dataset, reveal=selection.reveal)
        key = (dataset.version_id, dataset.run_id, dataset.name, selection)
        if key in self._taken:
            return self._taken[key]
        found = rids_where(self.engine, self.session, dataset, scan, selection, masked)
        if scan.version.rows <= HELD and "current" not in (selection.where or "").lower():
            if len(self._taken) >= MOST_TAKEN:
                self._taken.clear()
            self._taken[key] = found
        return found

    def start_of(self, ids: pa.Array) -> Start:
        """A start at these rids. A few rids are named individually, so that scans can skip the rest."""
        if 0 < len(ids) <= FEW:
            return Start(rids=tuple(ids.to_pylist()))
        return Start(table=self.engine.keep_ids(ids))

    def _refuse_unknown_rids(self, dataset: DatasetRecord, scan: VersionScan, rids: Sequence[int]) -> None:
        missing = [rid for rid in rids if rid < 0 or scan.position(rid) is None]
        if missing:
            end = scan.version.end
            first = _first_existing(scan, range(end))
            last = _first_existing(scan, range(end - 1, -1, -1))
            exists = f"rids run from {first} to {last}" if scan.version.rows else "it has no rows"
            gaps = "" if scan.version.is_dense else ", with gaps where rows were removed"
            raise NotFound(
                f"no row {join_names([str(rid) for rid in missing], 5)} in '{dataset.full_name}': {exists}{gaps}"
            )


def _first_existing(scan: VersionScan, rids: range) -> int | None:
    """The first of these rids that a row has. Stops after some that were removed: it is for a message only."""
    tried = rids[:MOST_TRIED]
    return next((rid for rid in tried if scan.position(rid) is not None), rids[0] if rids else None)
