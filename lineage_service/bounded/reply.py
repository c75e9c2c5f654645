"""Rows from a child: read as a stream, or buffered at once so that the child can answer the next request."""

from __future__ import annotations

import struct
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

HELD = 16_000_000  # bytes of an unread answer held in memory; more are written to disk
_LENGTH = struct.Struct("<Q")


class Reply:
    """A streaming answer. `left` is its remaining time in seconds; the time of the reader does not count."""

    def __init__(self, following: Callable[[Reply], bytearray | None], seconds: float) -> None:
        self.left = seconds
        self.spill: Path | None = None
        self._following = following
        self._held: deque[bytearray] = deque()
        self._file: IO[bytes] | None = None
        self._error: BaseException | None = None
        self._first: Any = None
        self._schema: pa.Schema | None = None

    def begin(self) -> None:
        """Waits for the first rows."""
        payload = self._following(self)
        assert payload is not None
        self._first = _batch(payload)
        self._schema = self._first.schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows. They can be read once."""
        first, self._first = self._first, None
        if first is not None and first.num_rows:
            yield first
        del first
        while (payload := self._following(self)) is not None:
            yield _batch(payload)

    def take_all(self) -> None:
        """Buffers all remaining rows. Errors are raised when the rows are read."""
        size = 0
        try:
            while (payload := self._following(self)) is not None:
                size += len(payload)
                if size <= HELD or not self._keep_on_disk(payload):
                    self._held.append(payload)
        except Exception as error:
            self._error = error
        if self._file is not None:
            self._file.seek(0)

    def fail(self, error: Exception) -> None:
        """Ends the answer with an error for the reader."""
        self._error = error

    def next_buffered(self) -> bytearray | None:
        """The next buffered rows."""
        if self._held:
            return self._held.popleft()
        if self._file is not None:
            length = self._file.read(_LENGTH.size)
            if length:
                return bytearray(self._file.read(_LENGTH.unpack(length)[0]))
            self._file.close()
            self._file = None
        if self._error is not None:
            raise self._error
        return None

    def _keep_on_disk(self, payload: bytearray) -> bool:
        """Writes to an unnamed file, which disappears with the process; returns whether there was room."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.spill)  # noqa: SIM115 - it is open as long as the answer is
                weakref.finalize(self, self._file.close)
            self._file.write(_LENGTH.pack(len(payload)))
            self._file.write(payload)
        except OSError:
            if self._file is not None:
                raise
            return False
        return True


def _batch(payload: bytearray) -> pa.RecordBatch:
    import pyarrow as pa

    reader = pa.ipc.open_stream(pa.py_buffer(payload))
    return next(reader, None) or pa.RecordBatch.from_pylist([], schema=reader.schema)
