"""Rows that a child gives: read as they come, or taken all at once so that the child can be asked again."""

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

HELD = 16_000_000  # bytes of an answer that are held in memory while nobody reads them; more are put on disk
_LENGTH = struct.Struct("<Q")


class Reply:
    """An answer on its way. `left` is what it may still take, in seconds; the reader's own time does not count."""

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
        """The rows, once."""
        first, self._first = self._first, None
        if first is not None and first.num_rows:
            yield first
        del first
        while (payload := self._following(self)) is not None:
            yield _batch(payload)

    def take_all(self) -> None:
        """Takes all that is to come; what goes wrong is told to whoever reads it."""
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
        """There is no more to come, and whoever reads on is told so."""
        self._error = error

    def next_buffered(self) -> bytearray | None:
        """The next of what was taken."""
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
        """Whether there is room for it, in a file without a name: it goes with the process."""
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
