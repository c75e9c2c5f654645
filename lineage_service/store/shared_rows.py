"""Rows that two versions of sources share: those of the same files, whatever else each of them reads, and however it
calls their columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lineage_service.store.patching import Ids
from lineage_service.store.versions import FileState, Origin, Version, VersionFile


def shared_files(one: Version, other: Version) -> list[tuple[int, int, int]]:
    """Of each file that both have read: the rid of its first row in the one and in the other, and how many rows."""
    if one.origins and other.origins and one.reading != other.reading:
        return []  # the same bytes are not surely the same records
    mine, its = _read(one), _read(other)
    both = [(file, its[state]) for state, file in mine.items() if state in its]
    return [(file.base, same.base, file.rows) for file, same in both if file.rows == same.rows]


def shared_rids(one: Version, other: Version, rids: Ids) -> Ids:
    """The rids that rows of the one have in the other, as far as that has read them."""
    if one.id == other.id:
        return rids
    parts = [np.array([], np.int64)]
    for base, its, rows in shared_files(one, other):
        here = rids[(rids >= base) & (rids < base + rows)]
        parts.append(here - base + its)
    return np.unique(np.concatenate(parts))


def _read(version: Version) -> dict[FileState, VersionFile | Origin]:
    """The users' files behind a version, as they were, whose rows have the rids of their positions."""
    files: tuple[VersionFile | Origin, ...] = version.files
    if version.origins:
        files = version.origins if version.is_dense else ()
    return {
        FileState(each.path, each.size, each.mtime_ns, each.fingerprint): each
        for each in files
        if Path(each.path).is_absolute() and not (isinstance(each, VersionFile) and each.only is not None)
    }
