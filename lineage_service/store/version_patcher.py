"""A version made from another: its files are shared, rows that went are left out, rows that came are added."""

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
    """A file of rows that came: positions in it of those that count, and the rids that they have."""

    file: VersionFile
    positions: Ids
    rids: Ids


@dataclass(frozen=True)
class Patcher:
    """Makes versions for one run: what tells them from the versions before lies in the run's folder."""

    folder: RunFolder

    def patch_version(
        self, version: Version, gone: Ids, came: Sequence[AddedFile], *, all_gone: bool = False
    ) -> Version:
        """The version without the rows that went, with those that came."""
        files = [] if all_gone else [left for file in version.files if (left := self._without(file, gone)) is not None]
        files += [self.with_rids(each) for each in came if len(each.rids)]
        if not files and (came or version.files):  # without rows there must still be columns
            file = came[0].file if came else version.files[0]
            files = [self.with_rids(AddedFile(file, _no_ids(), _no_ids()))]
        top = max([version.end, *(int(each.rids.max(initial=-1)) + 1 for each in came)])
        marks = [f"{file.path} {file.without} {file.only}" for file in files]
        identity = hashlib.sha256("\n".join([version.id, self.folder.run_id, *marks]).encode()).hexdigest()[:32]
        corrections = tuple(
            each for old in version.corrections if (each := _correction_without_rows(old, gone)) is not None
        )
        return replace(
            version, id=identity, files=tuple(files), top=top, copies=copies_of(version, files), corrections=corrections
        )

    def replace_files(self, version: Version, files: Sequence[VersionFile]) -> Version:
        """The version with other files, which say themselves which rids their rows have."""
        top = max([version.end, *(file.end for file in files)])
        marks = [f"{file.path} {file.mtime_ns} {file.base}" for file in files]
        identity = hashlib.sha256("\n".join([version.id, self.folder.run_id, *marks]).encode()).hexdigest()[:32]
        return replace(version, id=identity, files=tuple(files), top=top)

    def with_positions(self, version: Version, numbers: Ids, rids: Ids) -> Version:
        """The version, with a file that says which records of its original files these rids are."""
        path = self._unused_path()
        write_positions(path, _array(numbers), _array(rids))
        return replace(version, positions=self.folder.home.relative(path))

    def rids(self, path: str) -> Ids:
        """The rids that a file of them holds."""
        return self._read(path, AS)

    def positions(self, path: str) -> Ids:
        """The positions that a file of them holds."""
        return self._read(path, AT)

    def _without(self, file: VersionFile, gone: Ids) -> VersionFile | None:

        if file.only is not None:
            at, rids = self._read(file.only, AT), self._read(file.only, AS)
            stay = ~np.isin(rids, gone)
            if stay.all():
                return file
            return self.with_rids(AddedFile(file, at[stay], rids[stay])) if stay.any() else None
        here = gone[(gone >= file.base) & (gone < file.base + file.rows)] - file.base
        if not len(here):
            return file
        if file.without is not None:
            here = np.union1d(here, self._read(file.without, AT))
        if len(here) == file.rows and not Path(file.path).is_absolute():
            return None  # a user's own file stays known: one that is not would be read again
        path = self._unused_path()
        write_positions(path, _array(here))
        return replace(file, without=self.folder.home.relative(path), left_out=len(here))

    def with_rids(self, came: AddedFile) -> VersionFile:
        """A file whose rows have these rids, which lie in a file beside it."""
        path = self._unused_path()
        write_positions(path, _array(came.positions), _array(came.rids))
        left_out, top = came.file.rows - len(came.rids), int(came.rids.max(initial=-1)) + 1
        only = self.folder.home.relative(path)
        return replace(came.file, base=0, without=None, only=only, left_out=left_out, top=top)

    def write_mask(self, rids: Ids) -> str:
        """A file (column a) of ids whose lineage is kept elsewhere."""
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
    """Where the files of a version that is made from another were copied from, as far as that one knows."""
    copies = version.copies
    if version.origins and version.is_dense:
        copies = (SnapshotCopy(version.origins, version.reading, {file.path: file.base for file in version.files}),)
    paths = {file.path for file in files}
    return tuple(each for each in copies if not paths.isdisjoint(each.bases))


def _correction_without_rows(correction: Correction, gone: Ids) -> Correction | None:
    """A correction without rows that went; None where all did."""
    runs = list[tuple[int, int, int]]()
    for first, end, shift in correction.runs:
        cuts = np.sort(gone[(gone >= first + shift) & (gone < end + shift)]) - shift
        bounds = [first - 1, *cuts.tolist(), end]
        runs += [(low + 1, high, shift) for low, high in pairwise(bounds) if low + 1 < high]
    return replace(correction, runs=tuple(runs)) if runs else None


def _no_ids() -> Ids:
    return np.array([], np.int64)


def _array(ids: Ids) -> pa.Array:
    return pa.array(ids, pa.int64())
