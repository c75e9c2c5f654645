"""The place of a source's row in the file that it was read from: file, row, and for CSV and JSON the line.

A line is given only if it is verified: the file must be unchanged, and our count of its records must equal Spark's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lineage_service.store.formats.format_registry import record_lines
from lineage_service.store.original_text import UnknownReading
from lineage_service.store.patched_rids import CAME
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import OriginalFile, Version, VersionFile, file_of, has_changed


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row's place: `row` counts from 0 in the file (without headers), `line` from 1.

    `line` is None for Parquet, and if it is uncertain. `changed`: the file was changed or removed since.
    """

    file: str
    row: int
    line: int | None
    changed: bool

    @property
    def is_there(self) -> bool:
        return Path(self.file).exists()


GIVEN = "a row that was given to a refresh"
UNKNOWN = "a file that is not known any more; the home has a copy of the row"


def row_places(scan: VersionScan, rids: Sequence[int]) -> list[RowPlace | str]:
    """The places of a source's rows, in the order given; or, as text, what is known instead of a row's origin.

    Every file is examined once, and read once if lines are needed, so ask for all rows together. For a snapshot without
    origins (of an older home, or after rows were removed) places are those in the copy.
    """
    version = scan.version
    if not version.is_patched:
        positions = [int(scan.position(rid) or 0) for rid in rids]
        return [*places_at(version, positions, scan.absolute)]
    found: dict[int, RowPlace | str] = {}
    copied: dict[int, dict[int, int]] = {}  # by the number of a copy: position, rid
    for rid in rids:
        place = scan.file_and_row(rid)
        if place is None:
            found[rid] = UNKNOWN
            continue
        file, row = version.files[place[0]], place[1]
        number = next((number for number, each in enumerate(version.copies) if file.path in each.bases), None)
        if number is not None:
            copied.setdefault(number, {})[version.copies[number].bases[file.path] + row] = rid
        elif Path(file.path).is_absolute():
            found[rid] = RowPlace(file.path, row, None, has_changed(file, file.path))
        else:
            found[rid] = GIVEN if Path(file.path).name.startswith(CAME) else UNKNOWN
    for number, at in copied.items():
        copy = version.copies[number]
        placed = _places_in_files(copy.origins, list(at), scan.absolute, copy.reading)
        found |= {at[position]: place for position, place in placed.items()}
    return [found[rid] for rid in rids]


def places_at(version: Version, positions: Sequence[int], absolute: Callable[[str], str]) -> list[RowPlace]:
    """The places of the rows at these positions of a version whose rids are positions."""
    original = bool(version.origins) and version.is_dense
    if original:
        found = _places_in_files(version.origins, positions, absolute, version.reading)
    else:
        found = _places_in_files(version.files, positions, absolute, None)
    return [found[position] for position in positions]


def _places_in_files(
    files: Sequence[VersionFile | OriginalFile],
    positions: Sequence[int],
    absolute: Callable[[str], str],
    reading: Mapping[str, str] | None,
) -> dict[int, RowPlace]:
    """The place of each position, with its line if it is known how the files were read."""
    by_file: dict[int, list[int]] = {}
    for position in positions:
        by_file.setdefault(file_of(files, position), []).append(position)
    found: dict[int, RowPlace] = {}
    for number, held in by_file.items():
        file = files[number]
        path = absolute(file.path)
        changed = has_changed(file, path)
        rows = {position - file.base for position in held}
        lines = _verified_lines(reading, path, rows, file.rows) if reading is not None and not changed else {}
        found |= {
            position: RowPlace(path, position - file.base, lines.get(position - file.base), changed)
            for position in held
        }
    return found


def _verified_lines(reading: Mapping[str, str], path: str, rows: Collection[int], expected: int) -> dict[int, int]:
    """The lines on which these records of an original file begin; none if they are uncertain."""
    found: dict[int, int] = {}
    wanted, count = sorted(rows, reverse=True), 0
    try:
        for portion in record_lines(path, reading):
            while wanted and wanted[-1] < count + len(portion):
                row = wanted.pop()
                found[row] = portion[row - count]
            count += len(portion)
    except (UnknownReading, OSError, EOFError, zlib.error):
        return {}
    return found if count == expected else {}
