"""Converts ids between Arrow and numpy over their bytes.

pyarrow's own functions are not used, because a pyarrow that was imported without numpy, as commands do to start faster,
lacks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def numpy_ids(ids: pa.ChunkedArray) -> np.ndarray:
    """64-bit integers without nulls as numpy array."""
    import numpy as np

    kind = np.dtype(str(ids.type))
    parts = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
        for chunk in ids.chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.array([], kind)


def arrow_ids(ids: np.ndarray) -> pa.Array:
    """The same as Arrow array of int64."""
    import numpy as np
    import pyarrow as pa

    whole = np.ascontiguousarray(ids, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])
