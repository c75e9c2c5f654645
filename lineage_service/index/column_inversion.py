"""Inverts a dataset's own column of ids into a forward index, in memory if it fits.

Rows are sorted by id with a radix sort of 16 bits per pass, which is several times faster for row ids than a general
sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.index.id_columns import batches_of
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.store.arrays import arrow_ids, numpy_ids
from lineage_service.store.duckdb_engine import memory_limit

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BYTES_A_ROW = 48  # ids, positions and their order, at most
DIGIT = 16


def fits_in_memory(rows: int) -> bool:
    return rows * BYTES_A_ROW <= memory_limit()


def write_inverted_column(files: Sequence[str], column: str, path: Path) -> Path:
    """Writes pairs (a, b) of positions in the files and non-null ids in the column, sorted by b, then a."""
    import numpy as np

    ids, rows = _read(files, column)
    if len(ids) and ids.max() < np.iinfo(np.int32).max:
        ids = ids.astype(np.int32)  # halves the number of bytes to move
    order = radix_order(ids)
    ids, rows = ids[order], order if rows is None else rows[order]

    def batches() -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for begin in range(0, len(ids), ROW_GROUP):
            part = slice(begin, begin + ROW_GROUP)
            yield pa.RecordBatch.from_arrays([arrow_ids(each[part]) for each in (rows, ids)], names=["a", "b"])

    return write_pairs(path, batches())


def _read(files: Sequence[str], column: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The ids and their positions; None if they are at all positions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = pa.chunked_array([batch for file in files for batch in batches_of(file, column)], pa.int64())
    if not arrays.null_count:
        return numpy_ids(arrays), None
    there = pa.chunked_array([pc.indices_nonzero(arrays.is_valid())])
    return numpy_ids(arrays.drop_null()), numpy_ids(there)


def radix_order(ids: np.ndarray) -> np.ndarray:
    """The stable sort order of non-negative ids."""
    import numpy as np

    # NumPy's stable sort of 16-bit integers is a radix sort.
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    largest = int(ids.max()) if len(ids) else 0
    for shift in range(DIGIT, largest.bit_length(), DIGIT):
        order = order[np.argsort((ids >> shift).astype(np.uint16)[order], kind="stable")]
    return order
