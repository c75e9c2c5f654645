"""The changes of an erasure or rectification, and the runs that replace others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from lineage_catalog.records import Commit, DatasetRecord, RunRecord

from lineage_service.errors import Problem
from lineage_service.store.layout import RunFolder
from lineage_service.store.publications import Publication
from lineage_service.store.version_patcher import Ids
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RequestedChanges:
    """Requested changes by source version: removed rids, and corrected rows (`_rid` and the changed columns).

    `held`: sources, by run and name, from which a legal hold forbids removal. `drop`: runs that cannot be traced may be
    removed as a whole.
    """

    removed_rids: Mapping[str, Ids] = field(default_factory=dict)
    corrected: Mapping[str, pa.Table] = field(default_factory=dict)
    held: frozenset[tuple[str, str]] = frozenset()
    drop: bool = False


@dataclass(frozen=True)
class VersionChange:
    """A version before and after, with the rids removed and added. A changed row is in both."""

    before: Version
    after: Version
    removed_rids: Ids
    added_rids: Ids

    @property
    def counts(self) -> dict[str, int]:
        both = len(np.intersect1d(self.removed_rids, self.added_rids))
        return {"removed": len(self.removed_rids) - both, "changed": both, "added": len(self.added_rids) - both}


@dataclass(frozen=True)
class DatasetChange:
    """The change of a dataset of a run: how it was made (`source`, or the way of a refresh), and the numbers of rows.

    reason: why rows with other contributors are deleted, or why they stay
    all_because: why all rows are recomputed, not only the affected ones
    """

    dataset: DatasetRecord
    way: str
    counts: Mapping[str, int]
    rows: int
    reason: str | None = None
    removed_rids: Ids = field(default_factory=lambda: np.array([], np.int64), compare=False)
    added_rids: Ids = field(default_factory=lambda: np.array([], np.int64), compare=False)
    kept: int = 0  # rows that stay on a legal ground although they derive from removed rows
    all_because: str | None = None


@dataclass(frozen=True)
class SupersedingRun:
    """A run that replaces another. If `commit` is None, the run is removed without replacement."""

    old: RunRecord
    commit: Commit | None
    folder: RunFolder | None = None
    datasets: tuple[DatasetChange, ...] = ()
    publications: tuple[Publication, ...] = ()
    warnings: tuple[Problem, ...] = ()
