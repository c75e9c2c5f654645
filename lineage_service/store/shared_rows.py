"""Rows that two versions of sources share.

A source's row is a record of a file, identified by the file's path, its state when it was read, the position of the
record, and the framing of records. It is the same row whatever else a version reads, and however it names or casts
columns. `record_files` maps records to rows. `shared_records` maps rids of one version to rids of another, as runs of
consecutive rids.

A row that was corrected at a person's request is no longer the file's record. Versions that were corrected together
share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from lineage_service.store.checksums import verify
from lineage_service.store.formats.format_registry import IN_PLACE, record_framing
from lineage_service.store.patched_rids import AS, AT, CAME
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.versions import Correction, OriginalFile, Version, VersionFile, true_path

Absolute = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RecordFile:
    """What identifies the records of a file: its path, its state, and the framing of records. `corrected` distinguishes
    corrected records from others, and from those of other corrections.
    """

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    framing: tuple[tuple[str, str], ...]
    corrected: str = ""


@dataclass(frozen=True)
class PairRanges:
    """Pairs of numbers (x, y) as runs: x = first, first + 1, … is paired with y = first + shift, …; sorted by x."""

    first: Ids
    end: Ids
    shift: Ids

    @classmethod
    def of_pairs(cls, x: Ids, y: Ids) -> PairRanges:
        if not len(x):
            return cls(_ids(), _ids(), _ids())
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
        breaks = np.flatnonzero((np.diff(x) != 1) | (np.diff(y) != 1)) + 1
        begins = np.concatenate([[0], breaks])
        ends = np.concatenate([breaks, [len(x)]])
        return cls(x[begins], x[ends - 1] + 1, y[begins] - x[begins])

    @classmethod
    def merge(cls, parts: Iterable[PairRanges]) -> PairRanges:
        """The union, sorted. Adjacent runs are merged."""
        found = [each for each in parts if len(each.first)]
        if not found:
            return cls(_ids(), _ids(), _ids())
        first, end, shift = (
            np.concatenate([getattr(each, name) for each in found]) for name in ("first", "end", "shift")
        )
        order = np.argsort(first, kind="stable")
        first, end, shift = first[order], end[order], shift[order]
        begins = np.concatenate([[True], (first[1:] != end[:-1]) | (shift[1:] != shift[:-1])])
        ends = np.concatenate([begins[1:], [True]])
        return cls(first[begins], end[ends], shift[begins])

    def pairs(self) -> tuple[Ids, Ids]:
        """All x in order, and their y."""
        lengths = self.end - self.first
        begins = np.repeat(self.first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        x: Ids = np.arange(int(lengths.sum()), dtype=np.int64) + begins
        return x, x + np.repeat(self.shift, lengths)

    @property
    def inverse(self) -> PairRanges:
        return PairRanges.merge([PairRanges(self.first + self.shift, self.end + self.shift, -self.shift)])

    def compose(self, other: PairRanges) -> PairRanges:
        """Pairs (x, z) for pairs (x, y) of this and (y, z) of the other."""
        y = self.inverse
        found: list[tuple[int, int, int]] = []
        mine = its = 0
        while mine < len(y.first) and its < len(other.first):
            low, high = max(y.first[mine], other.first[its]), min(y.end[mine], other.end[its])
            if low < high:
                back = int(y.shift[mine])
                found.append((int(low) + back, int(high) + back, int(other.shift[its]) - back))
            if y.end[mine] < other.end[its]:
                mine += 1
            else:
                its += 1
        columns = np.array(found, np.int64).reshape(len(found), 3).T
        return PairRanges.merge([PairRanges(columns[0], columns[1], columns[2])])

    @property
    def targets(self) -> PairRanges:
        """Every y, paired with itself."""
        return PairRanges.merge([PairRanges(self.first + self.shift, self.end + self.shift, self.shift * 0)])

    def without(self, y: Ids) -> PairRanges:
        """The pairs without those that have one of these y."""
        mine = self.pairs()
        stay = ~np.isin(mine[1], y)
        return self if stay.all() else PairRanges.of_pairs(mine[0][stay], mine[1][stay])

    def translate(self, x: Ids) -> Ids:
        """The y of these x, without x that have none."""
        at = np.searchsorted(self.first, x, side="right") - 1
        inside = (at >= 0) & (x < self.end[np.maximum(at, 0)]) if len(self.first) else np.zeros(len(x), bool)
        found: Ids = x[inside] + self.shift[at[inside]]
        return found

    def __len__(self) -> int:
        """The number of pairs."""
        return int((self.end - self.first).sum())


@dataclass(frozen=True)
class SharedRows:
    """Which rids of one version are which rids of another. `all`: every rid is the same row in both."""

    runs: PairRanges
    all: bool = False

    @cached_property
    def inverse(self) -> SharedRows:
        return self if self.all else SharedRows(self.runs.inverse)

    @property
    def held_ranges(self) -> tuple[tuple[int, int], ...]:
        """The rids of the first version that the other contains, as half-open ranges. Only where not `all`: versions
        with the same rows need no runs.
        """
        return tuple(zip(self.runs.first.tolist(), self.runs.end.tolist(), strict=True))

    def rid(self, rid: int) -> int | None:
        """The rid in the other version; None if that does not contain the row."""
        found = self.translate(np.array([rid], np.int64))
        return int(found[0]) if len(found) else None

    def translate(self, rids: Ids) -> Ids:
        """The rids in the other version of the rows that it contains."""
        return rids if self.all else np.sort(self.runs.translate(rids))


SAME = SharedRows(PairRanges(_empty := np.array([], np.int64), _empty, _empty), all=True)


Records = Mapping[RecordFile, PairRanges]


def shared_records(one: tuple[Version, Records], other: tuple[Version, Records]) -> SharedRows | None:
    """The rows that two versions share, by the records that they are; None if they share none."""
    (first, mine), (second, its) = one, other
    parts, whole = [], []
    for file in mine.keys() & its.keys():
        a, b = mine[file], its[file]
        if len(a.first) == len(b.first) == 1 and a.first[0] == b.first[0] and a.end[0] == b.end[0]:
            shift = a.shift[0]
            whole.append((a.first[0] + shift, a.end[0] + shift, b.shift[0] - shift))
        else:
            parts.append(a.inverse.compose(b))
    columns = np.array(whole, np.int64).reshape(len(whole), 3).T
    runs = PairRanges.merge([*parts, PairRanges(columns[0], columns[1], columns[2])])
    if not len(runs.first):
        return None
    same = not runs.shift.any() and len(runs) == first.rows == second.rows
    return SharedRows(runs, all=same)


def record_files(version: Version, absolute: Absolute) -> dict[RecordFile, PairRanges]:
    """For each file of records, which record is which row: runs of (position in the file, rid)."""
    if version.kind == "output":
        return {}
    found = _records_of_copy(version, absolute) if version.origins else _records_of_files(version, absolute)
    if not version.corrections:
        return found
    corrected = _corrected_by_file(version, absolute)
    rids = np.concatenate([_ids(), *(runs.pairs()[1] for runs in corrected.values())])
    others = {file: left for file, runs in found.items() if len(left := runs.without(rids))}
    return {**others, **corrected}


def _records_of_files(version: Version, absolute: Absolute) -> dict[RecordFile, PairRanges]:
    found: dict[RecordFile, list[PairRanges]] = {}
    for file, runs in _live_positions(version, absolute):
        # A file in the home holds rows that were given to a refresh; its path tells it from all others.
        found.setdefault(_record_file(file, IN_PLACE), []).append(runs)
    return {file: PairRanges.merge(parts) for file, parts in found.items()}


def _corrected_by_file(version: Version, absolute: Absolute) -> dict[RecordFile, PairRanges]:
    """For each file, the corrected records whose rows the version still contains."""
    held = PairRanges.merge(runs.targets for _, runs in _live_positions(version, absolute))
    found = {_corrected_file(each): _runs_of(each).compose(held) for each in version.corrections}
    return {file: runs for file, runs in found.items() if len(runs)}


def corrections_of(before: Version, added: Ids, mark: str, absolute: Absolute) -> tuple[Correction, ...]:
    """The corrections to record for rows that are corrected: the records that they were."""
    found = []
    for file, runs in record_files(before, absolute).items():
        positions, rids = runs.pairs()
        some = np.isin(rids, added)
        if some.any():
            chosen = PairRanges.of_pairs(positions[some], rids[some])
            again = hashlib.sha256(f"{file.corrected} {mark}".encode()).hexdigest()[:32]
            listed = zip(chosen.first.tolist(), chosen.end.tolist(), chosen.shift.tolist(), strict=True)
            found.append(
                Correction(file.path, file.size, file.mtime_ns, file.fingerprint, file.framing, again, tuple(listed))
            )
    return tuple(found)


def corrected_records(version: Version, file: VersionFile | OriginalFile) -> PairRanges:
    """The records of a file that a version contains with corrected values: runs of (position in the file, rid)."""
    state = true_path(file), file.size, file.mtime_ns, file.fingerprint
    return PairRanges.merge(
        _runs_of(each)
        for each in version.corrections
        if (each.path, each.size, each.mtime_ns, each.fingerprint) == state
    )


def _corrected_file(each: Correction) -> RecordFile:
    return RecordFile(each.path, each.size, each.mtime_ns, each.fingerprint, each.framing, each.mark)


def _runs_of(correction: Correction) -> PairRanges:
    columns = np.array(correction.runs, np.int64).reshape(len(correction.runs), 3).T
    return PairRanges.merge([PairRanges(columns[0], columns[1], columns[2])])


def record_numbers(version: Version, absolute: Absolute) -> PairRanges:
    """For a copy, the number of each row among the records of all its original files, as runs of (number, rid)."""
    if version.positions is not None:
        # What was given to a refresh is no record of an original; what was corrected still is.
        copied = [
            runs for file, runs in _live_positions(version, absolute) if not Path(file.path).name.startswith(CAME)
        ]
        parts = [runs.pairs()[1] for runs in (*copied, *_corrected_by_file(version, absolute).values())]
        rids = np.unique(np.concatenate([_ids(), *parts]))
        held = PairRanges.of_pairs(rids, rids)
        return PairRanges.of_pairs(*_columns(absolute(version.positions))).compose(held)
    if version.is_dense:
        return _single_range(0, version.rows, 0)
    numbers = []
    for copy in version.copies:
        if copy.origins == version.origins and copy.reading == version.reading:
            for file, runs in _live_positions(version, absolute):
                if file.path in copy.bases:
                    base = copy.bases[file.path]
                    numbers.append(PairRanges(runs.first + base, runs.end + base, runs.shift - base))
    return PairRanges.merge(numbers)


def with_record_numbers(patcher: Patcher, before: Version, after: Version, removed: Ids) -> Version:
    """A copy whose files were rewritten, with the numbers of the records that its rows are; without removed rows."""
    numbers, rids = record_numbers(before, patcher.folder.home.absolute).pairs()
    stay = ~np.isin(rids, removed)
    return patcher.with_positions(after, numbers[stay], rids[stay])


def _records_of_copy(version: Version, absolute: Absolute) -> dict[RecordFile, PairRanges]:
    numbers, found = record_numbers(version, absolute), {}
    for origin in version.origins:
        inside = _single_range(0, origin.rows, origin.base).compose(numbers)
        if len(inside.first):
            found[_record_file(origin, version.reading)] = inside
    for file, runs in _live_positions(version, absolute):
        if Path(file.path).name.startswith(CAME):  # rows that were given to a refresh have no original
            found.setdefault(_record_file(file, {"format": "home"}), runs)
    return found


def _live_positions(version: Version, absolute: Absolute) -> Iterable[tuple[VersionFile, PairRanges]]:
    """For each file of a version, its live rows: runs of (position in the file, rid)."""
    first = 0
    for file in version.files:
        if file.only is not None:
            yield file, PairRanges.of_pairs(*_columns(absolute(file.only)))
        elif file.without is not None:
            removed = _column(absolute(file.without), AT)
            places = np.setdiff1d(np.arange(file.rows, dtype=np.int64), removed)
            yield file, PairRanges.of_pairs(places, places + file.base)
        elif version.gaps:
            segments = np.array(version.rids.segments, np.int64)
            begins, ahead = segments[:, 0], segments[:, 1]
            ends = np.append(begins[1:], version.rows)
            low, high = np.maximum(begins, first), np.minimum(ends, first + file.rows)
            some = low < high
            yield file, PairRanges((low - first)[some], (high - first)[some], (ahead + first)[some])
        else:
            yield file, _single_range(0, file.rows, file.base)
        first += file.rows


def _record_file(file: VersionFile | OriginalFile, reading: Mapping[str, str]) -> RecordFile:
    return RecordFile(true_path(file), file.size, file.mtime_ns, file.fingerprint, record_framing(reading))


def _single_range(first: int, rows: int, shift: int) -> PairRanges:
    some = 1 if rows else 0
    return PairRanges(_ids(first)[:some], _ids(first + rows)[:some], _ids(shift)[:some])


def _ids(*numbers: int) -> Ids:
    return np.array(numbers, np.int64)


def _columns(path: str) -> tuple[Ids, Ids]:
    return _column(path, AT), _column(path, AS)


def _column(path: str, name: str) -> Ids:
    verify(path)
    found: Ids = pq.read_table(path, columns=[name]).column(0).to_numpy()
    return found
