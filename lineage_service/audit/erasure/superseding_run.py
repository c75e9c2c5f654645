"""What is changed by an erasure or a correction, and the runs that take the place of others for it."""

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

REDACTED = "a value in its text was erased, so that it cannot be computed anew"
CHANGED_SOURCES = "its sources have changed since, so that it cannot be computed anew"


@dataclass(frozen=True)
class RequestedChanges:
    """What is to be done, by source version: rids that go; corrected rows (`_rid` and the columns that change).
    `held`: sources of runs, by run and name, that a legal hold lets nothing be taken out of. `drop`: runs that cannot
    be traced may go as a whole."""

    gone: Mapping[str, Ids] = field(default_factory=dict)
    corrected: Mapping[str, pa.Table] = field(default_factory=dict)
    held: frozenset[tuple[str, str]] = frozenset()
    drop: bool = False


@dataclass(frozen=True)
class VersionChange:
    """A version before and after; rids that went and came, a row that changed did both."""

    before: Version
    after: Version
    gone: Ids
    came: Ids

    @property
    def counts(self) -> dict[str, int]:
        both = len(np.intersect1d(self.gone, self.came))
        return {"removed": len(self.gone) - both, "changed": both, "added": len(self.came) - both}


@dataclass(frozen=True)
class DatasetChange:
    """What happens to a dataset of a run: how (`source`, or the way of a refresh), and how many rows.

    reason: why rows are taken out that others are in too, or stay
    all_because: why all rows are computed anew, and not only those concerned
    """

    dataset: DatasetRecord
    way: str
    counts: Mapping[str, int]
    rows: int
    reason: str | None = None
    gone: Ids = field(default_factory=lambda: np.array([], np.int64), compare=False)
    came: Ids = field(default_factory=lambda: np.array([], np.int64), compare=False)
    kept: int = 0  # rows that stay on a ground of their own, although made from rows that went
    all_because: str | None = None


@dataclass(frozen=True)
class SupersedingRun:
    """A run that takes another's place; `commit` None: the run goes, and nothing comes."""

    old: RunRecord
    commit: Commit | None
    folder: RunFolder | None = None
    datasets: tuple[DatasetChange, ...] = ()
    publications: tuple[Publication, ...] = ()
    warnings: tuple[Problem, ...] = ()
