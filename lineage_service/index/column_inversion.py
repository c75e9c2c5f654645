"""A dataset's own column of ids turned round: the forward index of a column, in memory where it fits.

Rows are ordered by their id, sixteen bits at a time: for ids of rows that is several times faster than a general sort.
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

BYTES_A_ROW = 48  # ids, positions and their order at the most
DIGIT = 16


def fits_in_memory(rows: int) -> bool:
    return rows * BYTES_A_ROW <= memory_limit()


def write_inverted_column(files: Sequence[str], column: str, path: Path) -> Path:
    """Pairs (a, b) of positions in the files and ids in the column, where there is one, sorted by b, then a."""
    import numpy as np

    ids, rows = _read(files, column)
    if len(ids) and ids.max() < np.iinfo(np.int32).max:
        ids = ids.astype(np.int32)  # half as many bytes to move about
    order = radix_order(ids)
    ids, rows = ids[order], order if rows is None else rows[order]

    def batches() -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for begin in range(0, len(ids), ROW_GROUP):
            part = slice(begin, begin + ROW_GROUP)
            yield pa.RecordBatch.from_arrays([arrow_ids(each[part]) for each in (rows, ids)], names=["a", "b"])

    return write_pairs(path, batches())


def _read(files: Sequence[str], column: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The ids, and the positions they are at; None where they are at all of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = pa.chunked_array([batch for file in files for batch in batches_of(file, column)], pa.int64())
    if not arrays.null_count:
        return numpy_ids(arrays), None
    there = pa.chunked_array([pc.indices_nonzero(arrays.is_valid())])
    return numpy_ids(arrays.drop_null()), numpy_ids(there)


def radix_order(ids: np.ndarray) -> np.ndarray:
    """The places of ids, which are not negative, in the order of the ids; of the same id in their own order."""
    import numpy as np

    # Numpy's stable sort of such small numbers is a radix sort.
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    largest = int(ids.max()) if len(ids) else 0
    for shift in range(DIGIT, largest.bit_length(), DIGIT):
        order = order[np.argsort((ids >> shift).astype(np.uint16)[order], kind="stable")]
    return order
