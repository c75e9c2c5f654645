"""Where a source's row stands in the file that it was read from: file, row, and for CSV and JSON the line.

A line is verified or not given: the file must be what it was, and must hold as many records by our count as Spark
read from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lineage_service.store.records import record_lines
from lineage_service.store.text import UnknownReading
from lineage_service.store.versions import Origin, Version, VersionFile, file_of, has_changed


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row's place: `row` counts from 0 in the file (headers not counted), `line` from 1.

    `line` is None for Parquet, and where it cannot be told surely; `changed` where the file is no longer what it was.
    """

    file: str
    row: int
    line: int | None
    changed: bool


def places(version: Version, positions: Sequence[int], absolute: Callable[[str], str]) -> list[RowPlace]:
    """The places of a source's rows, in the order given; `absolute` makes whole paths of those in the home.

    Every file is looked at once, and read once where lines are wanted of it: ask for all positions together. Of a
    snapshot without origins (one of an older home, or one that rows were removed from) places are those in the copy.
    """
    original = bool(version.origins) and version.is_dense
    files: Sequence[VersionFile | Origin] = version.origins if original else version.files
    by_file: dict[int, list[int]] = {}
    for position in positions:
        by_file.setdefault(file_of(files, position), []).append(position)
    found: dict[int, RowPlace] = {}
    for number, held in by_file.items():
        file = files[number]
        path = absolute(file.path)
        changed = has_changed(file, path)
        rows = {position - file.base for position in held}
        lines = _lines(version, path, rows, file.rows) if original and not changed else {}
        found |= {
            position: RowPlace(path, position - file.base, lines.get(position - file.base), changed)
            for position in held
        }
    return [found[position] for position in positions]


def _lines(version: Version, path: str, rows: Collection[int], expected: int) -> dict[int, int]:
    """The lines on which these records of an original file begin; none where its records are not told surely."""
    found: dict[int, int] = {}
    wanted, count = sorted(rows, reverse=True), 0
    try:
        for portion in record_lines(path, version.reading):
            while wanted and wanted[-1] < count + len(portion):
                row = wanted.pop()
                found[row] = portion[row - count]
            count += len(portion)
    except (UnknownReading, OSError, EOFError, zlib.error):
        return {}
    return found if count == expected else {}
