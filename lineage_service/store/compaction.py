"""Rewrites the files of a version with its live rows only.

A version made from another shares its files, which still contain removed rows. If they must not be kept, the live rows
are copied. Their rids stay the same, in a small file beside. Our own columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_service.errors import StoreError
from lineage_service.store.checksums import verify
from lineage_service.store.layout import translate_disk_errors
from lineage_service.store.version_patcher import AddedFile, Ids, Patcher
from lineage_service.store.versions import Version, VersionFile, file_state, parquet_footer

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 122_880
BATCH = 65_536
# What Spark says of a file's columns: no longer true where one is left out, and not needed.
_COLUMNS_KEY = b"org.apache.spark.sql.parquet.row.metadata"


def compact_version(version: Version, patcher: Patcher, target: Path) -> Version:
    """The version without removed rows in files of the home; the same version if there are none.

    Partition folders are kept. Small files that earlier changes added are merged.
    """
    inside = [file for file in version.files if not Path(file.path).is_absolute()]
    if not any(file.left_out for file in inside):
        return version
    anew = [file for file in inside if file.left_out or file.only is not None]
    stay = [file for file in version.files if file not in anew]
    groups: dict[tuple[tuple[str, str | None], ...], list[VersionFile]] = {}
    for file in anew:
        groups.setdefault(tuple(sorted(file.partitions.items())), []).append(file)
    writing = _CompactionWriter(version, patcher, target)
    with translate_disk_errors(patcher.folder.home.path):
        target.mkdir(parents=True, exist_ok=True)
        files = [made for group in groups.values() for made in writing.files(group)]
        if not files and not stay:  # without rows there must still be columns
            files = [writing.empty(anew[0])]
    return replace(version, files=(*stay, *(patcher.with_rids(each) for each in files)))


@dataclass
class _CompactionWriter:
    version: Version
    patcher: Patcher
    target: Path
    made: int = 0

    def files(self, group: Iterable[VersionFile]) -> Iterator[AddedFile]:
        """The live rows of these files, in as few files as their types allow."""
        open_: _OpenFile | None = None
        for file in group:
            positions, rids = self._live_rows(file)
            if not len(positions):
                continue
            schema, batches = self._rows(file, positions)
            if open_ is not None and not open_.schema.equals(schema):
                yield self._close_file(open_)
                open_ = None
            if open_ is None:
                open_ = self._open_file(schema, file.partitions)
            for batch in batches:
                open_.writer.write_batch(batch, row_group_size=ROW_GROUP)
            open_.rids.append(rids)
        if open_ is not None:
            yield self._close_file(open_)

    def empty(self, file: VersionFile) -> AddedFile:
        schema, _ = self._rows(file, np.array([], np.int64))
        return self._close_file(self._open_file(schema, file.partitions))

    def _live_rows(self, file: VersionFile) -> tuple[Ids, Ids]:
        """Positions of the live rows, in order, and their rids."""
        if file.only is not None:
            positions, rids = self.patcher.positions(file.only), self.patcher.rids(file.only)
            order = np.argsort(positions, kind="stable")
            return positions[order], rids[order]
        positions = np.arange(file.rows, dtype=np.int64)
        if file.without is not None:
            positions = np.setdiff1d(positions, self.patcher.positions(file.without))
        return positions, positions + file.base

    def _rows(self, file: VersionFile, positions: Ids) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.patcher.folder.home.absolute(file.path)
        verify(path)
        opened = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        wanted = {str(each.stored).lower() for each in self.version.columns if each.stored is not None}
        names = [name for name in opened.schema_arrow.names if name.lower() in wanted] or opened.schema_arrow.names[:1]
        moments = _int96_columns(opened)
        fields = [
            field.with_type(pa.timestamp("us", "UTC")) if field.name in moments else field
            for field in (opened.schema_arrow.field(name) for name in names)
        ]
        known = {key: text for key, text in (opened.schema_arrow.metadata or {}).items() if key != _COLUMNS_KEY}
        schema = pa.schema(fields, metadata=known or None)

        def batches() -> Iterator[pa.RecordBatch]:
            first = 0
            for batch in opened.iter_batches(BATCH, columns=names):
                begin, end = np.searchsorted(positions, [first, first + batch.num_rows])
                if end > begin:
                    yield batch.take(pa.array(positions[begin:end] - first)).cast(schema)
                first += batch.num_rows

        return schema, batches()

    def _open_file(self, schema: pa.Schema, partitions: Mapping[str, str | None]) -> _OpenFile:
        import pyarrow.parquet as pq

        paths = (self.target / f"stay-{number:05d}.parquet" for number in range(self.made, 1_000_000))
        path = next(path for path in paths if not path.exists())
        self.made += 1
        return _OpenFile(path, schema, pq.ParquetWriter(path, schema), dict(partitions), [])

    def _close_file(self, open_: _OpenFile) -> AddedFile:
        open_.writer.close()
        rids = np.concatenate([np.array([], np.int64), *open_.rids])
        state, footer = file_state(str(open_.path)), parquet_footer(str(open_.path))
        if footer.rows != len(rids):
            raise StoreError(f"a file of the home has other rows than it was written with: '{open_.path}'")
        stored = [each.stored for each in self.version.columns if each.stored is not None]
        file = VersionFile(
            self.patcher.folder.home.relative(open_.path),
            state.size,
            state.mtime_ns,
            state.fingerprint,
            footer.rows,
            0,
            open_.partitions,
            footer.is_odd(stored),
        )
        return AddedFile(file, np.arange(len(rids), dtype=np.int64), rids)


@dataclass
class _OpenFile:
    """A file that is being written, and the rids of its rows so far."""

    path: Path
    schema: pa.Schema
    writer: Any
    partitions: dict[str, str | None]
    rids: list[Ids]


def _int96_columns(opened: Any) -> set[str]:
    """Columns with timestamps in the old 96-bit form, which has no time zone and always means UTC."""
    columns = (opened.schema.column(number) for number in range(len(opened.schema)))
    return {each.path for each in columns if each.physical_type == "INT96"}
