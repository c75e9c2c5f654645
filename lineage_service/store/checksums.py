"""Checksums of the files in a home: noted in the catalog when a run's files are finished, compared before reading.

DuckDB does not look at the checksums that Parquet has, and a flipped bit can give another number without an error. So
every file of a run has sums of our own, of each row group and of all that is around them (the footer above all). What
is read is compared first, once per process and as long as the file is not touched: a look-up compares the row groups
that it reads, found by the statistics in a footer that was compared before; a scan compares the whole file. Files that
no run noted (those of older homes, and what is still being made) are read as they are.
"""

from __future__ import annotations

import json
import mmap
import os
import weakref
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

from lineage_catalog.records import FileRecord

from lineage_service.errors import DamagedFile
from lineage_service.settings import command
from lineage_service.store.layout import COMMITTED, PUBLICATIONS, HomeLayout, RunFolder

WHOLE = 1 << 20  # bytes up to which a file has one sum: comparing all of it takes less than finding out what is needed
CHUNK = 1 << 22
THREADS = 4
REST = -1  # the number of the part that is around the row groups
NOT_NOTED = (".lock", COMMITTED, PUBLICATIONS, "_SUCCESS")


@dataclass(frozen=True, slots=True)
class Sums:
    """A file's size, the crc32 of what is outside its row groups, and offset, length, rows, crc32 of each of these."""

    size: int
    rest: int
    groups: tuple[tuple[int, int, int, int], ...] = ()

    def to_json(self) -> str:
        return json.dumps([self.size, self.rest, self.groups], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Sums:
        size, rest, groups = json.loads(text)
        return cls(size, rest, tuple((offset, length, rows, crc) for offset, length, rows, crc in groups))

    @property
    def parts(self) -> range:
        return range(REST, len(self.groups))

    def groups_of_rows(self, rows: Iterable[int]) -> set[int]:
        """The row groups in which these rows of the file are."""
        if not self.groups:
            return set()
        ends = list(accumulate(rows_ for _, _, rows_, _ in self.groups))
        found = {bisect_right(ends, row) for row in rows}
        return {group for group in found if group < len(ends)}

    def sum_of(self, part: int, content: memoryview) -> tuple[int, int]:
        """The crc32 of a part as the file now is, and what it was."""
        if part != REST:
            offset, length, _, crc = self.groups[part]
            return _crc(content[offset : offset + length]), crc
        found, before = 0, 0
        for offset, length, _, _ in self.groups:
            found, before = _crc(content[before:offset], found), offset + length
        return _crc(content[before:], found), self.rest


def _crc(content: memoryview, before: int = 0) -> int:
    for begin in range(0, len(content), CHUNK):
        before = zlib.crc32(content[begin : begin + CHUNK], before)
    return before


# --- noting ---------------------------------------------------------------------------------------------------


def noted_files(
    folder: RunFolder, *, known: Iterable[FileRecord] = (), without: Path | None = None
) -> list[FileRecord]:
    """The files of a run's folder with their sums, those of `known` as they were noted; without what is temporary, and
    what is below `without`."""
    before = {each.path: each for each in known}
    inside = {str(path.relative_to(folder.path)): path for path in _permanent_files(folder, without)}
    fresh = [name for name in inside if name not in before]
    with ThreadPoolExecutor(THREADS) as pool:
        made = dict(zip(fresh, pool.map(lambda name: sums_of(inside[name]).to_json(), fresh), strict=True))
    return [before.get(name) or FileRecord(name, made[name]) for name in sorted(inside)]


def _permanent_files(folder: RunFolder, without: Path | None) -> Iterator[Path]:
    for path in sorted(folder.path.rglob("*")):
        left_out = path.is_relative_to(folder.temporary) or (without is not None and path.is_relative_to(without))
        if path.is_file() and path.name not in NOT_NOTED and path.suffix != ".crc" and not left_out:
            yield path


def sums_of(path: Path) -> Sums:
    """The sums of a file as it is."""
    with _content(path) as content:
        size = len(content)
        groups = _row_groups(path) if size > WHOLE and path.suffix == ".parquet" else []
        bounds = [(offset, offset + length) for offset, length, _ in groups]
        ends = [0, *(end for _, end in bounds)]
        if any(begin < end for (begin, _), end in zip(bounds, ends, strict=False)) or ends[-1] > size:
            groups = []  # not one after the other: then the file is one part
        summed = tuple(
            (offset, length, rows, _crc(content[offset : offset + length])) for offset, length, rows in groups
        )
        return Sums(size, Sums(size, 0, summed).sum_of(REST, content)[0], summed)


def crc_of(path: Path) -> int:
    """The crc32 of a whole file as it is."""
    with _content(path) as content:
        return _crc(content)


def crcs_of(paths: Sequence[Path]) -> list[int]:
    """The crc32 of each of these files, several at a time."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(crc_of, paths))


def _row_groups(path: Path) -> list[tuple[int, int, int]]:
    """Offset, length and rows of each row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        begins, ends = [], []
        for place in range(group.num_columns):
            chunk = group.column(place)
            first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
            begin = min(offset for offset in (first, chunk.data_page_offset) if offset)
            begins.append(begin)
            ends.append(begin + chunk.total_compressed_size)
        if begins:
            found.append((min(begins), max(ends) - min(begins), group.num_rows))
    return found if len(found) == metadata.num_row_groups else []


class _content:  # noqa: N801 (reads as a noun at its uses)
    """The bytes of a file, without reading those that nobody looks at."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> memoryview:
        with self.path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            self._mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self._view = memoryview(self._mapped or b"")
        return self._view

    def __exit__(self, *_: object) -> None:
        with suppress(BufferError):
            self._view.release()
            if self._mapped is not None:
                self._mapped.close()


# --- comparing ------------------------------------------------------------------------------------------------


class ChecksumCatalog(Protocol):
    """Who knows the sums that were noted: the catalog of a home."""

    def recorded_sums(self, run_id: str) -> dict[str, str]: ...


_State = tuple[int, int, int]  # of a file: when it was changed, size, number


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file is: the home, the run in whose folder, the path in there."""

    home: str
    run_id: str
    path: str


@dataclass(slots=True)
class _VerifiedParts:
    """What of a file, in the state in which it was, is as noted; everything where nothing was noted."""

    state: _State
    parts: set[int] = field(default_factory=set)
    whole: bool = False


_catalogs: dict[str, list[weakref.ref[ChecksumCatalog]]] = {}
_sums: dict[tuple[str, str], dict[str, Sums]] = {}
_compared: dict[str, _VerifiedParts] = {}
_read_bounds: dict[tuple[str, str], tuple[_State | None, list[tuple[int, int]]]] = {}


def register(home: HomeLayout, catalog: ChecksumCatalog) -> None:
    """From here on files of this home are compared with what this catalog noted, as long as it is in use."""
    alive = [each for each in _catalogs.get(str(home.path), ()) if each() is not None]
    _catalogs[str(home.path)] = [weakref.ref(catalog), *alive]


def unregister(home: HomeLayout, catalog: ChecksumCatalog) -> None:
    """A catalog that was closed is not asked any more."""
    alive = [each for each in _catalogs.get(str(home.path), ()) if each() not in (None, catalog)]
    _catalogs[str(home.path)] = alive


def forget() -> None:
    """As in a new process: everything is compared again."""
    _sums.clear()
    _compared.clear()
    _read_bounds.clear()


def verify(*paths: str) -> None:
    """Compares whole files. StoreError where one is not as it was noted, or gone."""
    for path in paths:
        _verify(path, None)


def verify_groups(path: str, groups: Iterable[int] = ()) -> None:
    """Compares just these row groups of a file, and what is around all of them."""
    _verify(path, lambda _: groups)


def verify_rows(path: str, rows: Iterable[int]) -> None:
    """Compares just the row groups in which these rows are, and what is around all of them."""
    _verify(path, lambda sums: sums.groups_of_rows(rows))


def verify_touched(path: str, touches: Callable[[int, int], bool]) -> None:
    """Compares just the row groups that are read: `touches` tells it of the rows from one number to before another."""

    def groups_read(sums: Sums) -> Iterator[int]:
        ends = list(accumulate((rows for _, _, rows, _ in sums.groups), initial=0))
        return (number for number, (first, end) in enumerate(pairwise(ends)) if touches(first, end))

    _verify(path, groups_read)


def verify_values(path: str, column: str, values: Sequence[int]) -> list[tuple[int, int]] | None:
    """Compares just the row groups that can hold one of the values, by the statistics of a column of numbers.

    Gives the rows that these are, each from one number to before another, and nobody must believe any other row of the
    file; None where all of it was compared.
    """
    verify_groups(path)  # the statistics are believed from here on
    place = _place(path)
    sums = None if place is None else _sums_of_file(place)
    bounds = None if sums is None or not sums.groups else _bounds(path, column)
    if sums is None or bounds is None or len(bounds) != len(sums.groups):
        verify(path)
        return None
    wanted = sorted(values)
    groups = [
        number for number, (low, high) in enumerate(bounds) if bisect_left(wanted, low) < bisect_right(wanted, high)
    ]
    verify_groups(path, groups)
    ends = list(accumulate((rows for _, _, rows, _ in sums.groups), initial=0))
    found: list[tuple[int, int]] = []
    for number in groups:
        begins_here = not found or found[-1][1] != ends[number]
        found.append((ends[number] if begins_here else found.pop()[0], ends[number + 1]))
    return found


def _bounds(path: str, column: str) -> list[tuple[int, int]] | None:
    """The least and the largest number of a column in each row group; None where a file does not say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    key, state = (path, column), _state(path)
    if key in _read_bounds and _read_bounds[key][0] == state:
        return _read_bounds[key][1]
    found = []
    try:
        metadata = pq.read_metadata(path)
        place = metadata.schema.names.index(column)
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(place).statistics
            if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
                return None
            found.append((statistics.min, statistics.max))
    except (pa.ArrowException, OSError, ValueError):
        return None
    _read_bounds[key] = state, found
    return found


def verify_below(folder: str) -> None:
    """Compares all files that were noted in a folder, where who reads them takes whatever is there."""
    verify(*noted_below(folder))


def refuse_missing(folder: str, files: Iterable[str]) -> None:
    """StoreError where a file that was noted in a folder is not among these."""
    found = set(files)
    if not found.issuperset(noted_below(folder)):
        for path in sorted({*noted_below(folder, again=True)} - found):
            raise damaged_file_error(path, str(getattr(_place(path), "home", "")))


def noted_below(folder: str, *, again: bool = False) -> list[str]:
    """The files in a folder of a run that have sums."""
    place = _place(folder)
    if place is None:
        return []
    inside = f"{place.path}/"
    known = _sums.get((place.home, place.run_id), {})
    if again or not any(path.startswith(inside) for path in known):
        known = _sums[place.home, place.run_id] = _sums_of_run(place)
    return [f"{place.home}/runs/{place.run_id}/{path}" for path in known if path.startswith(inside)]


def noted_before(folder: RunFolder, *parts: str) -> list[FileRecord]:
    """What is noted of a run's files below these folders of it."""
    noted = _sums_of_run(_Place(str(folder.home.path), folder.run_id, ""))
    return [FileRecord(path, sums.to_json()) for path, sums in noted.items() if path.partition("/")[0] in parts]


def is_noted(path: str) -> bool:
    """Whether there are sums that the file can be compared with."""
    place = _place(path)
    return place is not None and _sums_of_file(place) is not None


def read_note(path: Path) -> str | None:
    """The text of a small file of a run; None where there never was one. StoreError where it is lost or damaged."""
    verify(str(path))
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        place = _place(str(path))
        raise damaged_file_error(str(path), "" if place is None else place.home) from None


def parsed_note(text: str, path: Path) -> dict[str, Any]:
    """What a small file of ours says, as JSON. StoreError where it does not."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        place = _place(str(path))
        raise damaged_file_error(str(path), "" if place is None else place.home)
    return found


def damaged_file_error(path: str, home: str) -> DamagedFile:
    """What is told of a file that is not as it was written."""
    inside = path.removeprefix(f"{home}/") if home else path
    told = f"a file of the home '{home}' is missing or damaged: '{inside}'" if home else f"'{path}' is damaged"
    return DamagedFile(told, hint=f"look closer: {command(Path(home or '.'), 'doctor')}")


def _verify(path: str, needed: Callable[[Sums], Iterable[int]] | None) -> None:
    place = _place(path)
    if place is None:
        return
    state = _state(path)
    known = _compared.get(path)
    if known is not None and known.state == state:
        if known.whole:
            return
    else:
        known = None
    sums = _sums_of_file(place)
    if sums is None:
        if state is not None:
            _compared[path] = _VerifiedParts(state, whole=True)
        return
    parts = set(sums.parts) if needed is None else {REST, *needed(sums)} & set(sums.parts)
    if known is not None and parts <= known.parts:
        return
    if not _is_same(path, sums, parts - (known.parts if known is not None else set())):
        sums = _sums_of_file(
            place, again=True
        )  # lineage that was finished since has other files of the same name, or none
        if sums is None:
            return
        parts = set(sums.parts)
        if not _is_same(path, sums, parts):
            raise damaged_file_error(path, place.home)
    if state is not None:
        if known is None:
            known = _compared[path] = _VerifiedParts(state)
        known.parts |= parts
        known.whole = len(known.parts) == len(sums.parts)


def _is_same(path: str, sums: Sums, parts: Iterable[int]) -> bool:
    try:
        with _content(Path(path)) as content:
            if len(content) != sums.size:
                return False
            found = [sums.sum_of(part, content) for part in sorted(parts)]
    except OSError:
        return False
    return all(now == then for now, then in found)


def _state(path: str) -> _State | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _place(path: str) -> _Place | None:
    for home in [*_catalogs]:  # another thread may open a home meanwhile
        if path.startswith(f"{home}/runs/"):
            run_id, _, inside = path[len(home) + len("/runs/") :].partition("/")
            return _Place(home, run_id, inside)
    return None


def _sums_of_file(place: _Place, *, again: bool = False) -> Sums | None:
    """The sums of a file; what is not known yet may have been noted since."""
    key = place.home, place.run_id
    if again or place.path not in _sums.get(key, {}):
        _sums[key] = _sums_of_run(place)
    return _sums[key].get(place.path)


def _sums_of_run(place: _Place) -> dict[str, Sums]:
    for each in _catalogs.get(place.home, ()):
        catalog = each()
        noted = {} if catalog is None else catalog.recorded_sums(place.run_id)
        if noted:
            return {path: Sums.from_json(text) for path, text in noted.items()}
    return {}
