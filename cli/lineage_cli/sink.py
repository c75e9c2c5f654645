"""Where bytes go: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lineage_cli.messages import visible


class Sink:
    """A place to write to. Its own failures are a user's errors; a reader who has gone stays a broken pipe."""

    closed = False  # pyarrow asks

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, data: bytes | memoryview) -> int:
        """Writes all of it."""
        with self._clear_errors():
            self._stream.write(data)
        return len(data)

    def write_text(self, text: str) -> None:
        """Writes text, as UTF-8."""
        self.write(text.encode("utf-8"))

    def flush(self) -> None:
        """Hands on what is still buffered."""
        with self._clear_errors():
            self._stream.flush()

    def close(self) -> None:
        """Nothing: who opened the stream closes it."""

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(self._name, error) from error


@contextlib.contextmanager
def open_sink(out: Path | None = None) -> Iterator[Sink]:
    """Standard output, or `out`: written beside it first, and moved there once all is written."""
    if out is None:
        sys.stdout.flush()
        sink = Sink(sys.stdout.buffer, "standard output")
        yield sink
        sink.flush()
        return
    from lineage_service.store.out_file import check_out_file

    target, is_device = check_out_file(out)
    if is_device:
        with _open_stream(target, out) as stream:  # a device or a pipe is written to, never replaced
            sink = Sink(stream, str(out))
            yield sink
            sink.flush()
        return
    draft = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        with _open_stream(draft, out) as stream:
            sink = Sink(stream, str(out))
            yield sink
            sink.flush()
        try:
            draft.replace(target)
        except OSError as error:
            raise _cannot_write(str(out), error) from error
    finally:
        draft.unlink(missing_ok=True)


def print_text(text: str, *, styled: bool = False) -> None:
    """A result as one text on standard output. A `styled` text has colours, and all else in it is safe already."""
    whole = text if text.endswith("\n") else f"{text}\n"
    with open_sink() as sink:
        sink.write_text(whole if styled else visible(whole))


@contextlib.contextmanager
def _open_stream(path: Path, shown: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("wb")
    except OSError as error:
        raise _cannot_write(str(shown), error) from error
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):  # the flush before has told already
            stream.close()


def _cannot_write(name: str, error: OSError | RuntimeError) -> Exception:
    from lineage_service.store.out_file import cannot_write

    return cannot_write(name, error)
