"""The child process: a DuckDB that executes requests received over a socket until the socket is closed.

It limits its own memory through the operating system, and its time by an interrupt and, if that has no effect, by an
alarm. The parent kills it as well. If the child dies, the parent survives and starts another.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.bounded.protocol import DONE, ERROR, READY, REQUEST, ROWS, VALUES, ConnectionClosed, receive, send
from lineage_service.bounded.watchdog import WATCH

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

OUT_OF_MEMORY = 86  # exit code
GROWN = b"grown"  # sent at the end of an answer if much memory is still held: another process answers next
ALARM = 5.0  # seconds after the time limit at which the process terminates itself
PIECE = 16_000_000  # bytes sent at once, unless a row is larger
ADDRESSES = 2**30  # address space that is reserved but unused: stacks and arenas of threads
# DuckDB's error names in texts that Arrow reports.
_KINDS = {
    "Out of Memory": "OutOfMemoryException", "Conversion": "ConversionException", "INTERRUPT": "InterruptException",
    "Out of Range": "OutOfRangeException", "Invalid Input": "InvalidInputException", "IO": "IOException",
    "Permission": "PermissionException", "Binder": "BinderException", "Catalog": "CatalogException",
    "Mismatch Type": "TypeMismatchException", "INTERNAL": "InternalException",
}  # fmt: skip


class AnswerTooLarge(Exception):
    """An answer, or one row of it, exceeds the limit."""


class ChildEngine:
    """A DuckDB connection and the requests on it."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.connection: DuckDBPyConnection | None = None
        self.spill: Path | None = None
        self.over = False  # whether the current question was interrupted

    def answer(self, request: dict[str, Any]) -> None:
        getattr(self, f"do_{request['do']}")(request)

    def do_open(self, request: dict[str, Any]) -> None:
        """Replaces the connection by one that may read other files."""
        import duckdb

        if self.connection is not None:
            self.connection.close()
        self.spill = Path(request["config"]["temp_directory"])
        self.connection = duckdb.connect(":memory:", config=request["config"])
        for statement in request["setup"]:
            self.connection.execute(statement)
        limit_memory(request["allowance"])
        self.send_done()

    def do_forget(self, _: dict[str, Any]) -> None:
        """Drops everything that was opened."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.spill = None, None
        self.send_done()

    def do_run(self, request: dict[str, Any]) -> None:
        cursor = self.cursor()
        with self.interrupt_after(cursor, request["seconds"]):
            cursor.execute(request["sql"], request["parameters"])
        self.send_done()

    def do_values(self, request: dict[str, Any]) -> None:
        """A few rows of plain values."""
        cursor = self.cursor()
        with self.interrupt_after(cursor, request["seconds"]):
            rows = cursor.execute(request["sql"], request["parameters"]).fetchall()
        send(self.line, VALUES, json.dumps(rows).encode())
        self.send_done()

    def do_keep(self, request: dict[str, Any]) -> None:
        """Creates a table of the rows that follow."""
        import pyarrow as pa

        received = self._receive_batches()
        try:
            first = next(received)
            reader = pa.RecordBatchReader.from_batches(first.schema, _prepend(first, received))
            cursor = self.cursor()
            cursor.register("rows_given", reader)
            cursor.execute(f"CREATE TABLE {request['name']} AS SELECT * FROM rows_given")
            cursor.unregister("rows_given")
        finally:
            for _ in received:
                pass
        self.send_done()

    def _receive_batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        while True:
            kind, payload = receive(self.line)
            if kind != ROWS:
                return
            yield pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()

    def do_rows(self, request: dict[str, Any]) -> None:
        """Streams rows, at most the requested number. Sums become 64-bit integers if they fit."""
        cursor, began, left = self.cursor(), time.monotonic(), request["seconds"]
        with self.interrupt_after(cursor, left):
            relation = cursor.sql(request["sql"], params=request["parameters"])
            huge = [place for place, kind in enumerate(relation.types) if str(kind) == "HUGEINT"]
            reader = relation.to_arrow_reader(request["batch"])
            if huge:
                reader = narrow_huge_integers(reader, huge, request["rows"], request["batch"])
        left -= time.monotonic() - began
        given = size = 0
        while given <= request["rows"]:
            began = time.monotonic()
            with self.interrupt_after(cursor, max(left, 0.001)):
                batch = next(reader, None)
            left -= time.monotonic() - began
            if batch is None:
                break
            given += batch.num_rows
            for piece in split_batch(batch, request["value"]):
                size += piece.nbytes
                if size > request["bytes"]:
                    raise AnswerTooLarge(f"answer {request['bytes']}")
                send(self.line, ROWS, ipc_stream(piece))
            if select.select([self.line], [], [], 0)[0]:
                break  # the rest is not needed
        if not given:
            send(self.line, ROWS, ipc_stream(schema=reader.schema))
        self.send_done()

    def send_done(self) -> None:
        send(self.line, DONE, GROWN if has_grown() else b"")

    def cursor(self) -> DuckDBPyConnection:
        assert self.connection is not None
        return self.connection.cursor()

    @contextmanager
    def interrupt_after(self, cursor: DuckDBPyConnection, seconds: float) -> Iterator[None]:
        def stop() -> None:
            self.over = True
            cursor.interrupt()

        signal.setitimer(signal.ITIMER_REAL, seconds + ALARM)
        try:
            with WATCH.deadline(stop, seconds):
                yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _prepend(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def narrow_huge_integers(
    reader: pa.RecordBatchReader, huge: list[int], most: int, at_once: int
) -> pa.RecordBatchReader:
    """Converts sums to 64-bit integers if all values fit. DuckDB sums integers in 128 bits, which Arrow represents as
    decimals.

    Whether all fit is only known after the last row.
    """
    import pyarrow as pa

    batches, rows = [], 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        if rows > most:
            break
    table = pa.Table.from_batches(batches, reader.schema)
    for place in huge:
        with suppress(pa.ArrowInvalid):
            table = table.set_column(place, table.schema[place].name, table.column(place).cast(pa.int64()))
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(at_once))


def split_batch(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Splits a batch into pieces that can be sent. Raises AnswerTooLarge for a row of more than `most` bytes."""
    if batch.nbytes <= PIECE:
        yield batch
    elif batch.num_rows == 1:
        if batch.nbytes > most:
            raise AnswerTooLarge(f"row {most}")
        yield batch
    else:
        half = batch.num_rows // 2
        yield from split_batch(batch.slice(0, half), most)
        yield from split_batch(batch.slice(half), most)


def ipc_stream(batch: pa.RecordBatch | None = None, schema: pa.Schema | None = None) -> pa.Buffer:
    """A batch as a separate IPC stream, with its schema and dictionaries."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema if batch is None else batch.schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()


# --- limits ---------------------------------------------------------------------------------------------------------


def limit_memory(allowance: int) -> None:
    """Limits memory to the current amount plus `allowance` bytes. Only the first call has an effect."""
    if _GROWTH:
        return
    _GROWTH.append(_data_bytes() + allowance // 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain rows
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        now = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        data, space = now["VmData"] + allowance, now["VmSize"] + allowance + ADDRESSES
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    except (OSError, LookupError, ValueError):
        # If the system does not enforce this limit, the process monitors its own size.
        largest = _peak_bytes() + allowance
        threading.Thread(target=_watch_size, args=[largest], daemon=True).start()


_GROWTH: list[int] = []  # size in bytes above which the process has grown too much


def _data_bytes() -> int:
    """Bytes of memory that count towards the limit; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except (OSError, LookupError, ValueError):
        return 0


def has_grown() -> bool:
    return bool(_GROWTH) and _data_bytes() > _GROWTH[0]


def _peak_bytes() -> int:
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def _watch_size(largest: int) -> None:
    while _peak_bytes() <= largest:
        time.sleep(0.02)
    os._exit(OUT_OF_MEMORY)


def _end_with_parent(line: socket.socket, engine: ChildEngine) -> None:
    """Terminates the process as soon as the parent is gone, whatever is running."""
    poll = select.poll()
    poll.register(line, 0)  # a hang-up is always reported
    poll.poll()
    _clean_up_and_exit(engine)


def _clean_up_and_exit(engine: ChildEngine) -> None:
    if engine.spill is not None:
        shutil.rmtree(engine.spill, ignore_errors=True)
    os._exit(0)


# --- the process ----------------------------------------------------------------------------------------------------


def encode_error(error: BaseException, over: bool) -> bytes:
    """An error in the form in which the parent raises it again."""
    kind, text = type(error).__name__, str(error)
    if isinstance(error, OSError | RuntimeError):
        kind = next((its for word, its in _KINDS.items() if text.startswith(f"{word} Error")), kind)
    if isinstance(error, MemoryError) or kind == "ArrowMemoryError":
        kind = "OutOfMemoryException"
    grown = kind == "OutOfMemoryException" or has_grown()
    return json.dumps({"kind": kind, "text": text[:10_000], "over": over, "grown": grown}).encode()


def main(number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    for name in ("numpy", "pandas"):
        sys.modules[name] = None  # type: ignore[assignment]  # pyarrow would load them with the first value
    line = socket.socket(fileno=number)
    engine = ChildEngine(line)
    threading.Thread(target=_end_with_parent, args=[line, engine], daemon=True).start()
    import duckdb  # noqa: F401
    import pyarrow.ipc  # noqa: F401

    send(line, READY)
    while True:
        try:
            kind, payload = receive(line)
            if kind != REQUEST:
                continue  # an interrupt that came too late
            engine.over = False
            try:
                engine.answer(json.loads(payload))
            except ConnectionClosed:
                raise
            except Exception as error:
                send(line, ERROR, encode_error(error, engine.over))
        except ConnectionClosed:
            _clean_up_and_exit(engine)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main(int(sys.argv[1]))
