"""Looks up one id in an index file: reads only the row groups that contain it, without a query engine.

An index that is used often is loaded into memory, within a memory limit; a look-up is a binary search then. Loading
happens in the background while questions continue to use the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_service.errors import StoreError
from lineage_service.store.checksums import verify, verify_groups
from lineage_service.store.duckdb_engine import memory_limit

if TYPE_CHECKING:
    import pyarrow as pa

HOT = 8  # an index is loaded after this many look-ups
SHARE = 0.5  # share of the memory limit that loaded indexes may take


@dataclass
class Lookups:
    """The index files of a home that were used, and the ones loaded into memory."""

    limit: int = field(default_factory=lambda: int(memory_limit() * SHARE))
    _files: dict[tuple[str, ...], _Pairs] = field(default_factory=dict)
    _held: int = 0

    def ids(self, files: Sequence[str], near: str, far: str, rid: int) -> pa.Array:
        """The far ids paired with one near id, ascending. The files are sorted by the near side."""
        pairs = self._pairs(files, near, far)
        found = pairs.ids(rid)
        if pairs.asked == HOT and pairs.bytes + self._held <= self.limit:
            self._held += pairs.bytes
            threading.Thread(target=pairs.load, daemon=True, name="smoke-index").start()
        return found

    def at_least(self, files: Sequence[str], near: str, far: str, rid: int) -> int:
        """A lower bound for the number of ids paired with one id, computed from metadata only."""
        return self._pairs(files, near, far).at_least(rid)

    def _pairs(self, files: Sequence[str], near: str, far: str) -> _Pairs:
        key = (*files, near)
        if key not in self._files:
            self._files[key] = _Pairs(files, near, far)
        return self._files[key]


class _Pairs:
    """Pairs in files, sorted by one side."""

    def __init__(self, files: Sequence[str], near: str, far: str) -> None:
        import pyarrow.parquet as pq

        self.paths, self.near, self.far = tuple(files), near, far
        self.asked = 0
        self._reading = threading.Lock()
        for file in files:
            verify_groups(file)  # file metadata; row groups are verified when they are read
        self.files = [pq.ParquetFile(file, memory_map=True) for file in files]
        self.groups: list[tuple[int, int]] = []  # (file, row group)
        self.low: list[int] = []
        self.high: list[int] = []
        self.rows: list[int] = []
        self.loaded: tuple[Any, Any, Any] | None = None
        rows = 0
        for number, file in enumerate(self.files):
            metadata = file.metadata
            place = metadata.schema.names.index(near)
            rows += metadata.num_rows
            for group in range(metadata.num_row_groups):
                if not metadata.row_group(group).num_rows:
                    continue  # Arrow writes one, without statistics, for a table without rows
                statistics = metadata.row_group(group).column(place).statistics
                self.groups.append((number, group))
                self.low.append(statistics.min)
                self.high.append(statistics.max)
                self.rows.append(metadata.row_group(group).num_rows)
        self.bytes = rows * 9  # the far ids, and where the run of each near id ends

    def at_least(self, rid: int) -> int:
        """The number of rows in row groups that contain only this id."""
        first, last = bisect_left(self.high, rid), bisect_right(self.low, rid)
        return sum(self.rows[place] for place in range(first, last) if self.low[place] == self.high[place])

    def ids(self, rid: int) -> pa.Array:
        import pyarrow as pa

        self.asked += 1
        if self.loaded is not None:
            values, ends, ids = self.loaded
            at = bisect_left(values, rid)
            if at == len(values) or values[at] != rid:
                return ids.slice(0, 0)
            begin = ends[at - 1] if at else 0
            return ids.slice(begin, ends[at] - begin)
        first, last = bisect_left(self.high, rid), bisect_right(self.low, rid)
        parts = [self._ids_in_row_group(*self.groups[place], rid) for place in range(first, last)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())

    def _ids_in_row_group(self, file: int, group: int, rid: int) -> pa.Array:
        verify_groups(self.paths[file], [group])
        with self._reading:
            table = self.files[file].read_row_group(group, columns=[self.near, self.far], use_threads=False)
        near, far = (_single_chunk(table.column(name)) for name in (self.near, self.far))
        begin = bisect_left(near, rid, key=_value)
        return far.slice(begin, bisect_right(near, rid, lo=begin, key=_value) - begin)

    def load(self) -> None:
        """Loads all pairs into memory. If that fails, look-ups continue on the files and report the error."""
        import pyarrow as pa

        with suppress(OSError, pa.ArrowException, StoreError):
            self.loaded = self._read_all_pairs()

    def _read_all_pairs(self) -> tuple[Any, Any, Any]:
        """The far ids, and for each near id the end of its run."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        verify(*self.paths)
        # Opened separately: an open file can be read by only one thread at a time.
        files = [pq.ParquetFile(path, memory_map=True) for path in self.paths]
        values, ends, ids, before = [], [], [], 0
        for number, group in self.groups:
            table = files[number].read_row_group(group, columns=[self.near, self.far], use_threads=False)
            runs = pc.run_end_encode(_single_chunk(table.column(self.near)))
            values += runs.values.to_pylist()
            ends += [before + end for end in runs.run_ends.to_pylist()]
            ids.append(_single_chunk(table.column(self.far)))
            before += table.num_rows
        merged_values, merged_ends = _merge_runs(values, ends)
        return merged_values, merged_ends, pa.concat_arrays(ids) if ids else pa.array([], pa.int64())


def _merge_runs(values: list[int], ends: list[int]) -> tuple[list[int], list[int]]:
    """Merges runs that continue over row groups."""
    kept: list[int] = []
    last: list[int] = []
    for value, end in zip(values, ends, strict=True):
        if kept and kept[-1] == value:
            last[-1] = end
        else:
            kept.append(value)
            last.append(end)
    return kept, last


def _value(scalar: Any) -> int:
    return int(scalar.as_py())


def _single_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
