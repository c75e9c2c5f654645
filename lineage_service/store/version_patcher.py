"""Makes a version from another: shares its files, leaves out removed rows, and adds new ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_service.store.checksums import verify
from lineage_service.store.layout import RunFolder
from lineage_service.store.patched_rids import AS, AT, write_positions
from lineage_service.store.versions import Correction, SnapshotCopy, Version, VersionFile

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AddedFile:
    """A file of added rows: the positions of those that count, and their rids."""

    file: VersionFile
    positions: Ids
    rids: Ids


@dataclass(frozen=True)
class Patcher:
    """Makes versions for one run. Positions and rids that distinguish them from earlier versions are in the run's
    folder.
    """

    folder: RunFolder

    def patch_version(
        self, version: Version, removed: Ids, added: Sequence[AddedFile], *, all_gone: bool = False
    ) -> Version:
        """The version without removed rows and with added ones."""
        files = (
            [] if all_gone else [left for file in version.files if (left := self._without(file, removed)) is not None]
        )
        files += [self.with_rids(each) for each in added if len(each.rids)]
        if not files and (added or version.files):  # without rows there must still be columns
            file = added[0].file if added else version.files[0]
            files = [self.with_rids(AddedFile(file, _no_ids(), _no_ids()))]
        top = max([version.end, *(int(each.rids.max(initial=-1)) + 1 for each in added)])
        marks = [f"{file.path} {file.without} {file.only}" for file in files]
        identity = hashlib.sha256("\n".join([version.id, self.folder.run_id, *marks]).encode()).hexdigest()[:32]
        corrections = tuple(
            each for old in version.corrections if (each := _correction_without_rows(old, removed)) is not None
        )
        return replace(
            version, id=identity, files=tuple(files), top=top, copies=copies_of(version, files), corrections=corrections
        )

    def replace_files(self, version: Version, files: Sequence[VersionFile]) -> Version:
        """The version with other files, which have their own rids."""
        top = max([version.end, *(file.end for file in files)])
        marks = [f"{file.path} {file.mtime_ns} {file.base}" for file in files]
        identity = hashlib.sha256("\n".join([version.id, self.folder.run_id, *marks]).encode()).hexdigest()[:32]
        return replace(version, id=identity, files=tuple(files), top=top)

    def with_positions(self, version: Version, numbers: Ids, rids: Ids) -> Version:
        """The version, with a file that maps these rids to records of its original files."""
        path = self._unused_path()
        write_positions(path, _array(numbers), _array(rids))
        return replace(version, positions=self.folder.home.relative(path))

    def rids(self, path: str) -> Ids:
        """The rids in a file of positions and rids."""
        return self._read(path, AS)

    def positions(self, path: str) -> Ids:
        """The positions in a file of positions and rids."""
        return self._read(path, AT)

    def _without(self, file: VersionFile, removed: Ids) -> VersionFile | None:

        if file.only is not None:
            at, rids = self._read(file.only, AT), self._read(file.only, AS)
            stay = ~np.isin(rids, removed)
            if stay.all():
                return file
            return self.with_rids(AddedFile(file, at[stay], rids[stay])) if stay.any() else None
        here = removed[(removed >= file.base) & (removed < file.base + file.rows)] - file.base
        if not len(here):
            return file
        if file.without is not None:
            here = np.union1d(here, self._read(file.without, AT))
        if len(here) == file.rows and not Path(file.path).is_absolute():
            return None  # a user's own file stays known: one that is not would be read again
        path = self._unused_path()
        write_positions(path, _array(here))
        return replace(file, without=self.folder.home.relative(path), left_out=len(here))

    def with_rids(self, added: AddedFile) -> VersionFile:
        """A file whose rows have these rids, which are written to a file beside it."""
        path = self._unused_path()
        write_positions(path, _array(added.positions), _array(added.rids))
        left_out, top = added.file.rows - len(added.rids), int(added.rids.max(initial=-1)) + 1
        only = self.folder.home.relative(path)
        return replace(added.file, base=0, without=None, only=only, left_out=left_out, top=top)

    def write_mask(self, rids: Ids) -> str:
        """Writes a file (column a) of ids whose lineage is stored elsewhere."""
        path = self._unused_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": _array(rids)}), path, compression="zstd")
        return self.folder.home.relative(path)

    def _read(self, path: str, name: str) -> Ids:
        verify(self.folder.home.absolute(path))
        found: Ids = pq.read_table(self.folder.home.absolute(path), columns=[name]).column(0).to_numpy()
        return found

    def _unused_path(self) -> Path:
        paths = (self.folder.path / "patches" / f"{number}.parquet" for number in count())
        return next(path for path in paths if not path.exists())


def copies_of(version: Version, files: Sequence[VersionFile]) -> tuple[SnapshotCopy, ...]:
    """Where the files of a version made from another were copied from, as far as the other records it."""
    copies = version.copies
    if version.origins and version.is_dense:
        copies = (SnapshotCopy(version.origins, version.reading, {file.path: file.base for file in version.files}),)
    paths = {file.path for file in files}
    return tuple(each for each in copies if not paths.isdisjoint(each.bases))


def _correction_without_rows(correction: Correction, removed: Ids) -> Correction | None:
    """A correction without removed rows; None if all were removed."""
    runs = list[tuple[int, int, int]]()
    for first, end, shift in correction.runs:
        cuts = np.sort(removed[(removed >= first + shift) & (removed < end + shift)]) - shift
        bounds = [first - 1, *cuts.tolist(), end]
        runs += [(low + 1, high, shift) for low, high in pairwise(bounds) if low + 1 < high]
    return replace(correction, runs=tuple(runs)) if runs else None


def _no_ids() -> Ids:
    return np.array([], np.int64)


def _array(ids: Ids) -> pa.Array:
    return pa.array(ids, pa.int64())
