"""Index files: pairs (a, b) of two ids, sorted by one of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 122_880


def write_pairs(path: Path, batches: Iterable[pa.RecordBatch]) -> Path:
    """Streams pairs into a file beside `path`.

    Written by Arrow, which packs 32 deltas to a bit width. DuckDB packs 256, one of which is the jump back to a small
    id.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    path = path.with_name(f"{path.name}.parquet")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    packed = dict.fromkeys(schema.names, "DELTA_BINARY_PACKED")
    with ParquetWriter(path, schema, compression="zstd", use_dictionary=False, column_encoding=packed) as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=ROW_GROUP)
    return path
