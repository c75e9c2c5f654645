"""Checksums of one file: of each row group of a Parquet file and of the rest; of other files as a whole."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

WHOLE = 1 << 20  # bytes up to which a file has one sum: comparing all of it takes less than finding out what is needed
CHUNK = 1 << 22
THREADS = 4
REST = -1  # the number of the part that is around the row groups


@dataclass(frozen=True, slots=True)
class Sums:
    """A file's size, the crc32 of everything outside its row groups, and the offset, length, rows and crc32 of each row
    group.
    """

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
        """The row groups that contain these rows of the file."""
        if not self.groups:
            return set()
        ends = list(accumulate(rows_ for _, _, rows_, _ in self.groups))
        found = {bisect_right(ends, row) for row in rows}
        return {group for group in found if group < len(ends)}

    def sum_of(self, part: int, content: memoryview) -> tuple[int, int]:
        """The crc32 of a part as it is now, and as recorded."""
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


def sums_of(path: Path) -> Sums:
    """The checksums of a file as it is now."""
    with FileContent(path) as content:
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
    """The crc32 of a whole file as it is now."""
    with FileContent(path) as content:
        return _crc(content)


def crcs_of(paths: Sequence[Path]) -> list[int]:
    """The crc32 of each of these files, computed concurrently."""
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


class FileContent:
    """The bytes of a file, memory-mapped so that only the parts that are used are read."""

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
