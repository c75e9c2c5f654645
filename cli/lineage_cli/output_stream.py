"""Where results are written: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lineage_service.render.safe_text import escape_text


class OutputStream:
    """A binary stream whose write errors become user errors. A broken pipe stays a BrokenPipeError."""

    closed = False  # pyarrow reads this

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, data: bytes | memoryview) -> int:
        """Writes all of the data."""
        with self._clear_errors():
            self._stream.write(data)
        return len(data)

    def write_text(self, text: str) -> None:
        """Writes text as UTF-8."""
        self.write(text.encode("utf-8"))

    def flush(self) -> None:
        """Flushes the buffer."""
        with self._clear_errors():
            self._stream.flush()

    def close(self) -> None:
        """Does nothing: `open_output` closes the stream."""

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(self._name, error) from error


@contextlib.contextmanager
def open_output(out: Path | None = None) -> Iterator[OutputStream]:
    """Opens standard output, or the file `out`, which is written under another name and renamed when complete."""
    if out is None:
        sys.stdout.flush()
        output = OutputStream(sys.stdout.buffer, "standard output")
        yield output
        output.flush()
        return
    from lineage_service.store.out_file import check_out_file

    target, is_device = check_out_file(out)
    if is_device:
        with _open_file(target, out) as stream:  # a device or a pipe is written to, never replaced
            output = OutputStream(stream, str(out))
            yield output
            output.flush()
        return
    draft = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        with _open_file(draft, out) as stream:
            output = OutputStream(stream, str(out))
            yield output
            output.flush()
        try:
            draft.replace(target)
        except OSError as error:
            raise _cannot_write(str(out), error) from error
    finally:
        draft.unlink(missing_ok=True)


def print_text(text: str, *, styled: bool = False) -> None:
    """Prints a result on standard output. `styled` text contains colour codes, and is already escaped otherwise."""
    whole = text if text.endswith("\n") else f"{text}\n"
    with open_output() as output:
        output.write_text(whole if styled else escape_text(whole))


@contextlib.contextmanager
def _open_file(path: Path, shown: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("wb")
    except OSError as error:
        raise _cannot_write(str(shown), error) from error
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):  # the flush before has reported it
            stream.close()


def _cannot_write(name: str, error: OSError | RuntimeError) -> Exception:
    from lineage_service.store.out_file import cannot_write

    return cannot_write(name, error)
