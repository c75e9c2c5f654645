"""Checksums of the files in a home: recorded in the catalog when a run's files are finished, verified before reading.

DuckDB does not verify Parquet's checksums, so a flipped bit could give another number without an error. Therefore every
file of a run has our own checksums, one for each row group and one for everything around the row groups (mainly the
footer). They are verified before the file is read, once per process as long as the file is not modified. A look-up
verifies the row groups that it reads, found by the statistics in a verified footer; a scan verifies the whole file.
Files without recorded checksums (of older homes, or still being written) are read as they are.
"""

from __future__ import annotations

import json
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

from lineage_catalog.records import FileRecord

from lineage_service.errors import DamagedFile
from lineage_service.settings import command
from lineage_service.store.file_sums import (
    REST,
    THREADS,
    FileContent,
    Sums,
    sums_of,
)
from lineage_service.store.layout import COMMITTED, PUBLICATIONS, HomeLayout, RunFolder

NOT_NOTED = (".lock", COMMITTED, PUBLICATIONS, "_SUCCESS")


# --- noting ---------------------------------------------------------------------------------------------------


def noted_files(
    folder: RunFolder, *, known: Iterable[FileRecord] = (), without: Path | None = None
) -> list[FileRecord]:
    """The files of a run's folder with their checksums, reusing those of `known`. Temporary files and files below
    `without` are left out.
    """
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


# --- comparing ------------------------------------------------------------------------------------------------


class ChecksumCatalog(Protocol):
    """The catalog of a home as a source of recorded checksums."""

    def recorded_sums(self, run_id: str) -> dict[str, str]: ...


_State = tuple[int, int, int]  # of a file: when it was changed, size, number


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of a file: the home, the run in whose folder it is, and the path inside."""

    home: str
    run_id: str
    path: str


@dataclass(slots=True)
class _VerifiedParts:
    """The parts of a file, in a certain state, that were verified; all parts if no checksums were recorded."""

    state: _State
    parts: set[int] = field(default_factory=set)
    whole: bool = False


_catalogs: dict[str, list[weakref.ref[ChecksumCatalog]]] = {}
_sums: dict[tuple[str, str], dict[str, Sums]] = {}
_compared: dict[str, _VerifiedParts] = {}
_read_bounds: dict[tuple[str, str], tuple[_State | None, list[tuple[int, int]]]] = {}


def register(home: HomeLayout, catalog: ChecksumCatalog) -> None:
    """From now on files of this home are verified against this catalog."""
    alive = [each for each in _catalogs.get(str(home.path), ()) if each() is not None]
    _catalogs[str(home.path)] = [weakref.ref(catalog), *alive]


def unregister(home: HomeLayout, catalog: ChecksumCatalog) -> None:
    """Removes a catalog that was closed."""
    alive = [each for each in _catalogs.get(str(home.path), ()) if each() not in (None, catalog)]
    _catalogs[str(home.path)] = alive


def forget() -> None:
    """Forgets what was verified, as in a new process."""
    _sums.clear()
    _compared.clear()
    _read_bounds.clear()


def verify(*paths: str) -> None:
    """Verifies whole files. Raises StoreError if one is damaged or missing."""
    for path in paths:
        _verify(path, None)


def verify_groups(path: str, groups: Iterable[int] = ()) -> None:
    """Verifies these row groups of a file, and everything around the row groups."""
    _verify(path, lambda _: groups)


def verify_rows(path: str, rows: Iterable[int]) -> None:
    """Verifies the row groups that contain these rows, and everything around the row groups."""
    _verify(path, lambda sums: sums.groups_of_rows(rows))


def verify_touched(path: str, touches: Callable[[int, int], bool]) -> None:
    """Verifies the row groups that are read. `touches` returns whether any row of a half-open range is read."""

    def groups_read(sums: Sums) -> Iterator[int]:
        ends = list(accumulate((rows for _, _, rows, _ in sums.groups), initial=0))
        return (number for number, (first, end) in enumerate(pairwise(ends)) if touches(first, end))

    _verify(path, groups_read)


def verify_values(path: str, column: str, values: Sequence[int]) -> list[tuple[int, int]] | None:
    """Verifies the row groups that can contain one of the values, by the statistics of a numeric column.

    Returns the half-open ranges of rows in them. No other row of the file may be used. None if the whole file was
    verified.
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
    """The minimum and maximum of a column in each row group; None if the file has no such statistics."""
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
    """Verifies all recorded files in a folder, for readers that read whatever is in it."""
    verify(*noted_below(folder))


def refuse_missing(folder: str, files: Iterable[str]) -> None:
    """Raises StoreError if a recorded file of a folder is not among these."""
    found = set(files)
    if not found.issuperset(noted_below(folder)):
        for path in sorted({*noted_below(folder, again=True)} - found):
            raise damaged_file_error(path, str(getattr(_place(path), "home", "")))


def noted_below(folder: str, *, again: bool = False) -> list[str]:
    """The files in a folder of a run that have recorded checksums."""
    place = _place(folder)
    if place is None:
        return []
    inside = f"{place.path}/"
    known = _sums.get((place.home, place.run_id), {})
    if again or not any(path.startswith(inside) for path in known):
        known = _sums[place.home, place.run_id] = _sums_of_run(place)
    return [f"{place.home}/runs/{place.run_id}/{path}" for path in known if path.startswith(inside)]


def noted_before(folder: RunFolder, *parts: str) -> list[FileRecord]:
    """The recorded checksums of a run's files below these folders."""
    noted = _sums_of_run(_Place(str(folder.home.path), folder.run_id, ""))
    return [FileRecord(path, sums.to_json()) for path, sums in noted.items() if path.partition("/")[0] in parts]


def is_noted(path: str) -> bool:
    """Whether the file has recorded checksums."""
    place = _place(path)
    return place is not None and _sums_of_file(place) is not None


def read_note(path: Path) -> str | None:
    """The text of a small file of a run; None if it never existed. Raises StoreError if it is lost or damaged."""
    verify(str(path))
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        place = _place(str(path))
        raise damaged_file_error(str(path), "" if place is None else place.home) from None


def parsed_note(text: str, path: Path) -> dict[str, Any]:
    """The content of a small JSON file of ours. Raises StoreError if it cannot be parsed."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        place = _place(str(path))
        raise damaged_file_error(str(path), "" if place is None else place.home)
    return found


def damaged_file_error(path: str, home: str) -> DamagedFile:
    """The error for a file that has changed since it was written."""
    inside = path.removeprefix(f"{home}/") if home else path
    message = f"a file of the home '{home}' is missing or damaged: '{inside}'" if home else f"'{path}' is damaged"
    return DamagedFile(message, hint=f"look closer: {command(Path(home or '.'), 'doctor')}")


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
        with FileContent(Path(path)) as content:
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
    """The checksums of a file. Unknown ones are looked up again, because they may have been recorded since."""
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
