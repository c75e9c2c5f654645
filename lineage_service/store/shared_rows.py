"""Rows that two versions of sources share.

A source's row is a record of a file: the file's path, its state when it was read, and the position of the record in it,
under one framing of records. Whatever else a version reads, and however it names or casts columns, such a row is the
same row. `record_files` says which record each row is, and
`shared_records` which rids of one version are which rids of another, as runs of consecutive rids.

A row that was corrected at a person's request is no longer what the file says; versions that were corrected together
have it in common.
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
from lineage_service.store.patched_rids import AS, AT, CAME
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.versions import Correction, OriginalFile, Version, VersionFile, true_path

Absolute = Callable[[str], str]
# Options that decide where a record begins and ends, or whether it counts. Without `multiline` a record is a line.
_FRAMING = ("header", "multiline", "mode", "linesep", "comment", "encoding", "charset")
_FRAMING_OF_JSON = ("singlevariantcolumn", "explodeembeddedarray")  # whether an array is one record
_FRAMING_OVER_LINES = ("quote", "escape", "chartoescapequoteescaping", "sep", "delimiter", "unescapedquotehandling",
                       "ignoreleadingwhitespace", "ignoretrailingwhitespace")  # fmt: skip
_IN_ANY_CASE = {"header", "multiline", "mode", "encoding", "charset", "explodeembeddedarray", "unescapedquotehandling",
                "ignoreleadingwhitespace", "ignoretrailingwhitespace"}  # fmt: skip
_OTHER_NAMES = {"delimiter": "sep", "charset": "encoding"}  # Spark takes the usual name where both are given
_DEFAULTS = {"header": "false", "multiline": "false", "mode": "failfast", "sep": ",", "quote": '"', "escape": "\\",
             "ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordFile:
    """What identifies the records of a file: its path, its state, and how records are told apart in it. `corrected`
    tells records that were corrected from others, and from those that were corrected in another way."""

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    framing: tuple[tuple[str, str], ...]
    corrected: str = ""


@dataclass(frozen=True)
class PairRanges:
    """Pairs of numbers (x, y) as runs: x = first, first + 1, … goes with y = first + shift, … ; sorted by x."""

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
        """All of them, sorted; runs that continue each other become one."""
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
        """Pairs (x, z) of pairs (x, y) of these and (y, z) of the others."""
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
        """Every y, with itself."""
        return PairRanges.merge([PairRanges(self.first + self.shift, self.end + self.shift, self.shift * 0)])

    def without(self, y: Ids) -> PairRanges:
        """The pairs that do not have one of these y."""
        mine = self.pairs()
        stay = ~np.isin(mine[1], y)
        return self if stay.all() else PairRanges.of_pairs(mine[0][stay], mine[1][stay])

    def translate(self, x: Ids) -> Ids:
        """The y of these x, of those that have one."""
        at = np.searchsorted(self.first, x, side="right") - 1
        inside = (at >= 0) & (x < self.end[np.maximum(at, 0)]) if len(self.first) else np.zeros(len(x), bool)
        found: Ids = x[inside] + self.shift[at[inside]]
        return found

    def __len__(self) -> int:
        """How many pairs."""
        return int((self.end - self.first).sum())


@dataclass(frozen=True)
class SharedRows:
    """Which rids of one version are which of another. `all`: every rid is the same row in both."""

    runs: PairRanges
    all: bool = False

    @cached_property
    def inverse(self) -> SharedRows:
        return self if self.all else SharedRows(self.runs.inverse)

    def rid(self, rid: int) -> int | None:
        """The rid that a row of the one has in the other; None where it does not hold it."""
        found = self.translate(np.array([rid], np.int64))
        return int(found[0]) if len(found) else None

    def translate(self, rids: Ids) -> Ids:
        """The rids that rows of the one have in the other, as far as it holds them."""
        return rids if self.all else np.sort(self.runs.translate(rids))


SAME = SharedRows(PairRanges(_empty := np.array([], np.int64), _empty, _empty), all=True)


Records = Mapping[RecordFile, PairRanges]


def shared_records(one: tuple[Version, Records], other: tuple[Version, Records]) -> SharedRows | None:
    """The rows that two versions hold both, by the records that their rows are; None where they share no record."""
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
    """Per file of records, which of its records are which rows: runs of (position in the file, rid)."""
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
        found.setdefault(_record_file(file, {"format": "parquet"}), []).append(runs)
    return {file: PairRanges.merge(parts) for file, parts in found.items()}


def _corrected_by_file(version: Version, absolute: Absolute) -> dict[RecordFile, PairRanges]:
    """Of each file the records that were corrected, as far as the version still has the rows."""
    held = PairRanges.merge(runs.targets for _, runs in _live_positions(version, absolute))
    found = {_corrected_file(each): _runs_of(each).compose(held) for each in version.corrections}
    return {file: runs for file, runs in found.items() if len(runs)}


def corrections_of(before: Version, came: Ids, mark: str, absolute: Absolute) -> tuple[Correction, ...]:
    """What is to be known of rows that are corrected: the records that they were, and stay."""
    found = []
    for file, runs in record_files(before, absolute).items():
        positions, rids = runs.pairs()
        some = np.isin(rids, came)
        if some.any():
            chosen = PairRanges.of_pairs(positions[some], rids[some])
            again = hashlib.sha256(f"{file.corrected} {mark}".encode()).hexdigest()[:32]
            listed = zip(chosen.first.tolist(), chosen.end.tolist(), chosen.shift.tolist(), strict=True)
            found.append(
                Correction(file.path, file.size, file.mtime_ns, file.fingerprint, file.framing, again, tuple(listed))
            )
    return tuple(found)


def corrected_records(version: Version, file: VersionFile | OriginalFile) -> PairRanges:
    """The records of a file that a version has under corrected values: runs of (position in the file, rid)."""
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
    """Of a copy: the number of each row among the records of all its original files, as runs of (number, rid)."""
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


def with_record_numbers(patcher: Patcher, before: Version, after: Version, gone: Ids) -> Version:
    """A copy, made from another by writing files anew, with which records its rows are; without those that went."""
    numbers, rids = record_numbers(before, patcher.folder.home.absolute).pairs()
    stay = ~np.isin(rids, gone)
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
    """Of each file of a version the rows that count: runs of (position in the file, rid)."""
    first = 0
    for file in version.files:
        if file.only is not None:
            yield file, PairRanges.of_pairs(*_columns(absolute(file.only)))
        elif file.without is not None:
            gone = _column(absolute(file.without), AT)
            places = np.setdiff1d(np.arange(file.rows, dtype=np.int64), gone)
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
    return RecordFile(true_path(file), file.size, file.mtime_ns, file.fingerprint, framing(reading))


def framing(reading: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What of a reader's options decides which bytes are a record."""
    if reading.get("format") not in ("csv", "json"):
        return (("format", reading.get("format", "")),)
    is_json = reading["format"] == "json"
    names = [*_FRAMING[1:], *_FRAMING_OF_JSON] if is_json else [*_FRAMING]
    over_lines = reading.get("multiline", "").lower() == "true"
    if over_lines:
        names += _FRAMING_OVER_LINES
    given: dict[str, str] = {}
    for name in names:
        if name in reading:
            value = reading[name].lower() if name in _IN_ANY_CASE else reading[name]
            given.setdefault(_OTHER_NAMES.get(name, name), value)
    if "singlevariantcolumn" in given:
        given["singlevariantcolumn"] = ""  # under whatever name
    # Of JSON over lines Spark finds the encoding out where none is given.
    defaults = _DEFAULTS if is_json and over_lines else {**_DEFAULTS, "encoding": "utf-8"}
    kept = {name: value for name, value in given.items() if defaults.get(name) != value}
    return (("format", reading["format"]), *sorted(kept.items()))


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
