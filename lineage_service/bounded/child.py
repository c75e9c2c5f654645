"""The child process: a DuckDB of its own that does what it is told over a socket, until it is closed.

It limits itself: memory by the operating system, time by an interrupt and, where that does not act, by an alarm; the
parent ends it as well. Whatever it dies of, the parent lives, and starts another.
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
GROWN = b"grown"  # told at the end of an answer where much memory is still held: another process answers next
ALARM = 5.0  # seconds after its time at which a question ends the process by itself
PIECE = 16_000_000  # bytes that are sent at once, where rows are not larger
ADDRESSES = 2**30  # address space that is reserved and not used: stacks and arenas of threads
# What DuckDB calls its errors in their texts, where Arrow tells them.
_KINDS = {
    "Out of Memory": "OutOfMemoryException", "Conversion": "ConversionException", "INTERRUPT": "InterruptException",
    "Out of Range": "OutOfRangeException", "Invalid Input": "InvalidInputException", "IO": "IOException",
    "Permission": "PermissionException", "Binder": "BinderException", "Catalog": "CatalogException",
    "Mismatch Type": "TypeMismatchException", "INTERNAL": "InternalException",
}  # fmt: skip


class AnswerTooLarge(Exception):
    """An answer, or one row of it, that is larger than it may be."""


class ChildEngine:
    """A connection, and what questions do with it."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.connection: DuckDBPyConnection | None = None
        self.spill: Path | None = None
        self.over = False  # whether the question at hand was interrupted

    def answer(self, asked: dict[str, Any]) -> None:
        getattr(self, f"do_{asked['do']}")(asked)

    def do_open(self, asked: dict[str, Any]) -> None:
        """Another connection in the place of the one before: it may read other files."""
        import duckdb

        if self.connection is not None:
            self.connection.close()
        self.spill = Path(asked["config"]["temp_directory"])
        self.connection = duckdb.connect(":memory:", config=asked["config"])
        for statement in asked["setup"]:
            self.connection.execute(statement)
        limit_memory(asked["allowance"])
        self.send_done()

    def do_forget(self, _: dict[str, Any]) -> None:
        """Nothing of what it was opened for is kept."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.spill = None, None
        self.send_done()

    def do_run(self, asked: dict[str, Any]) -> None:
        cursor = self.cursor()
        with self.interrupt_after(cursor, asked["seconds"]):
            cursor.execute(asked["sql"], asked["parameters"])
        self.send_done()

    def do_values(self, asked: dict[str, Any]) -> None:
        """A few rows of plain values."""
        cursor = self.cursor()
        with self.interrupt_after(cursor, asked["seconds"]):
            rows = cursor.execute(asked["sql"], asked["parameters"]).fetchall()
        send(self.line, VALUES, json.dumps(rows).encode())
        self.send_done()

    def do_keep(self, asked: dict[str, Any]) -> None:
        """A table of rows that follow."""
        import pyarrow as pa

        received = self._receive_batches()
        try:
            first = next(received)
            reader = pa.RecordBatchReader.from_batches(first.schema, _prepend(first, received))
            cursor = self.cursor()
            cursor.register("rows_given", reader)
            cursor.execute(f"CREATE TABLE {asked['name']} AS SELECT * FROM rows_given")
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

    def do_rows(self, asked: dict[str, Any]) -> None:
        """Rows as they come, at most so many; columns of sums as whole numbers of 64 bits, where they fit."""
        cursor, began, left = self.cursor(), time.monotonic(), asked["seconds"]
        with self.interrupt_after(cursor, left):
            relation = cursor.sql(asked["sql"], params=asked["parameters"])
            huge = [place for place, kind in enumerate(relation.types) if str(kind) == "HUGEINT"]
            reader = relation.to_arrow_reader(asked["batch"])
            if huge:
                reader = narrow_huge_integers(reader, huge, asked["rows"], asked["batch"])
        left -= time.monotonic() - began
        given = size = 0
        while given <= asked["rows"]:
            began = time.monotonic()
            with self.interrupt_after(cursor, max(left, 0.001)):
                batch = next(reader, None)
            left -= time.monotonic() - began
            if batch is None:
                break
            given += batch.num_rows
            for piece in split_batch(batch, asked["value"]):
                size += piece.nbytes
                if size > asked["bytes"]:
                    raise AnswerTooLarge(f"answer {asked['bytes']}")
                send(self.line, ROWS, ipc_stream(piece))
            if select.select([self.line], [], [], 0)[0]:
                break  # nobody wants the rest
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
    """Sums of whole numbers have 128 bits in DuckDB, which Arrow has as decimals: as whole numbers where they fit.

    That is known when all of them are there.
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
    """A batch in pieces small enough to be sent; AnswerTooLarge for one row of more than `most` bytes."""
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
    """A batch as a stream of its own, with its schema and dictionaries."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema if batch is None else batch.schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()


# --- limits ---------------------------------------------------------------------------------------------------------


def limit_memory(allowance: int) -> None:
    """No more memory than now and `allowance` bytes. Once: limits can only be made smaller."""
    if _GROWTH:
        return
    _GROWTH.append(_data_bytes() + allowance // 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold rows
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        now = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        data, space = now["VmData"] + allowance, now["VmSize"] + allowance + ADDRESSES
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    except (OSError, LookupError, ValueError):
        # Where the system does not count like that, the process looks at its own size.
        largest = _peak_bytes() + allowance
        threading.Thread(target=_watch_size, args=[largest], daemon=True).start()


_GROWTH: list[int] = []  # bytes from which on the process has grown too much


def _data_bytes() -> int:
    """Bytes of memory that count; 0 where the system does not tell."""
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
    """Ends the process as soon as the parent has gone, whatever runs."""
    poll = select.poll()
    poll.register(line, 0)  # a hang-up is always told
    poll.poll()
    _clean_up_and_exit(engine)


def _clean_up_and_exit(engine: ChildEngine) -> None:
    if engine.spill is not None:
        shutil.rmtree(engine.spill, ignore_errors=True)
    os._exit(0)


# --- the process ----------------------------------------------------------------------------------------------------


def encode_error(error: BaseException, over: bool) -> bytes:
    """An error as the parent raises it again."""
    kind, text = type(error).__name__, str(error)
    if isinstance(error, OSError | RuntimeError):
        kind = next((its for word, its in _KINDS.items() if text.startswith(f"{word} Error")), kind)
    if isinstance(error, MemoryError) or kind == "ArrowMemoryError":
        kind = "OutOfMemoryException"
    grown = kind == "OutOfMemoryException" or has_grown()
    return json.dumps({"kind": kind, "text": text[:10_000], "over": over, "grown": grown}).encode()


def main(number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's
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
                continue  # a stop that came too late
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
