"""The parent's side: a child process that is reused, killed at the deadline, and restarted for the next question."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.bounded.child import GROWN, OUT_OF_MEMORY
from lineage_service.bounded.protocol import (
    DONE,
    ERROR,
    READY,
    REQUEST,
    ROWS,
    STOP,
    VALUES,
    ConnectionClosed,
    receive,
    send,
)
from lineage_service.bounded.reply import Reply
from lineage_service.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

GRACE = 0.5  # seconds after the time limit at which a child is killed, if its own interrupt had no effect
START = 60.0  # seconds that a child may take to start
# The environment variables that a child gets; it must not see others.
_KEPT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV")
_KEPT_KINDS = ("LC_", "LD_", "DYLD_", "PYTHON", "MALLOC_")

# Reserved memory counts: Arrow's own allocator reserves a gigabyte at once, DuckDB's keeps freed memory.
_ALLOCATORS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:100,muzzy_decay_ms:0",
}


class ChildDied(Exception):
    """The child died during a question. `memory`: it ran out of memory."""

    def __init__(self, *, memory: bool) -> None:
        super().__init__("memory" if memory else "crash")
        self.memory = memory


class ChildClosed(Exception):
    """The child was closed before the answer was read."""


class TookTooLong(Exception):
    """A question exceeded its time limit."""


class ChildError(Exception):
    """An error in the child: DuckDB's name of the error, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        self.kind, self.text = kind, text


class Child:
    """One child process. It is started here and waits for requests."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        mine.set_inheritable(False)
        self.line, self.owner = mine, os.getpid()
        environment = {
            name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_KINDS)
        }
        environment |= _ALLOCATORS
        environment["PYTHONPATH"] = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        # -P: modules are imported from where this process imports them, not from the current folder.
        command = [sys.executable, "-P", "-m", "lineage_service.bounded.child", str(its.fileno())]
        try:
            self.process = subprocess.Popen(
                command, pass_fds=[its.fileno()], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            mine.close()
            raise _start_error() from error
        finally:
            its.close()
        self._end = weakref.finalize(self, _end, mine, self.process, self.owner)
        self._ready = False
        self.allowance: int | None = None  # bytes; a child sets its limit once, when it is first opened

    @property
    def usable(self) -> bool:
        """Whether it accepts requests. After a fork, the copy of this process has no child of its own."""
        return self._end.alive and self.owner == os.getpid()

    def wait_ready(self) -> None:
        if not self._ready:
            try:
                kind, _ = receive(self.line, time.monotonic() + START)
                assert kind == READY
            except (ConnectionClosed, TimeoutError) as error:
                self.end()
                raise _start_error() from error
            self._ready = True

    def end(self) -> None:
        self._end()

    def exit_code(self) -> int | None:
        """The exit code, after the socket is closed."""
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None


def _end(line: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    line.close()
    if owner == os.getpid():
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _start_error() -> StoreError:
    return StoreError(
        "the process that answers predicates and queries cannot be started",
        hint="it is Python itself, with duckdb and pyarrow: is there memory, and may processes be started?",
    )


_spare: list[Child] = []


def start_ahead() -> None:
    """Starts a child for the first question in advance, in parallel with other work."""
    if not _spare:
        _spare.append(Child())


def _new_child(allowance: int | None) -> Child:
    while _spare:
        found = _spare.pop()
        if found.usable and found.process.poll() is None and found.allowance in (None, allowance):
            return found
        found.end()
    return Child()


class ChildClient:
    """Sends requests to a child, one at a time. `generation` changes with each start, when the state of the child is
    lost.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._child: Child | None = None
        self._grown = False  # whether the child still holds much memory, so that another one answers next
        self._lock = threading.RLock()
        self._open: weakref.ref[Reply] | None = None  # the answer that the child is currently streaming

    def ensure(self, allowance: int | None = None) -> None:
        """Ensures that a child is available. First reads the remaining rows of a streaming answer. A new child gets
        this allowance.
        """
        with self._lock:
            self._take_rest()
            usable = self._child is not None and self._child.usable and self._child.process.poll() is None
            if self._child is None or not usable or self._grown:
                self.close()
                self._child = _new_child(allowance)
                self._grown = False
                self.generation += 1
            self._child.wait_ready()

    def ask(self, request: dict[str, Any], seconds: float, rows: Iterable[pa.Buffer] = ()) -> list[list[Any]] | None:
        """A request without rows, or with a few values; `rows` are sent after it. Call `ensure` before."""
        with self._lock:
            self._send(request, seconds, rows)
            found = None
            until = time.monotonic() + seconds + GRACE
            while True:
                kind, payload = self._receive(until)
                if kind == DONE:
                    return found
                assert kind == VALUES
                found = json.loads(payload)

    def rows(self, request: dict[str, Any], seconds: float) -> Reply:
        """A request with rows. They are streamed; the next request reads the rest into a buffer first."""
        with self._lock:
            self._send(request, seconds)
            reply = Reply(self._next_rows, seconds)
            self._open = weakref.ref(reply)
            reply.begin()
            return reply

    def take_rest(self) -> None:
        """Reads the remaining rows of a streaming answer, so that they are available after the child has ended."""
        with self._lock:
            self._take_rest()

    def release(self) -> None:
        """Releases the child. An idle child is kept for the next user in this process, because starting one takes 0.2
        s.
        """
        with self._lock:
            child = self._child
            if child is None or self._open is not None or self._grown or _spare or not child.usable:
                self.close()
                return
            try:
                self.ask({"do": "forget"}, 5)
            except (ChildDied, ChildError, TookTooLong):
                self.close()
                return
            if self._grown:
                self.close()
            else:
                self._child = None
                _spare.append(child)

    def close(self) -> None:
        with self._lock:
            reply = None if self._open is None else self._open()
            if reply is not None:
                reply.fail(ChildClosed())  # otherwise it would appear to have no more rows
            self._open = None
            if self._child is not None:
                self._child.end()
                self._child = None

    @property
    def pid(self) -> int | None:
        """The process id of the current child."""
        return None if self._child is None else self._child.process.pid

    def _send(self, request: dict[str, Any], seconds: float, rows: Iterable[pa.Buffer] = ()) -> None:
        assert self._child is not None
        line = self._child.line
        if request["do"] == "open":
            self._child.allowance = request["allowance"]
        try:
            line.settimeout(max(seconds, START))
            send(line, REQUEST, json.dumps({**request, "seconds": seconds}).encode())
            if request["do"] == "keep":
                for each in rows:
                    send(line, ROWS, each)
                send(line, DONE)
        except ConnectionClosed:
            raise self._exit_error() from None
        except TimeoutError:
            self.close()
            raise TookTooLong from None
        except BaseException:
            self.close()  # an incomplete request
            raise

    def _receive(self, until: float) -> tuple[bytes, bytearray]:
        assert self._child is not None
        try:
            kind, payload = receive(self._child.line, until)
        except ConnectionClosed:
            raise self._exit_error() from None
        except TimeoutError:
            self.close()
            raise TookTooLong from None
        except BaseException:
            self.close()
            raise
        if kind == DONE:
            self._grown = payload == GROWN
        if kind == ERROR:
            failure = json.loads(payload)
            self._grown = failure["grown"]
            if failure["over"]:
                raise TookTooLong
            raise ChildError(failure["kind"], failure["text"])
        return kind, payload

    def _exit_error(self) -> Exception:
        assert self._child is not None
        code = self._child.exit_code()
        self.close()
        if code == -signal.SIGALRM:
            return TookTooLong()
        return ChildDied(memory=code in (OUT_OF_MEMORY, -signal.SIGABRT, -signal.SIGKILL, -signal.SIGBUS, None))

    def _next_rows(self, reply: Reply) -> bytearray | None:
        """The next rows of an answer; None after the last."""
        with self._lock:
            if self._open is None or self._open() is not reply:
                return reply.next_buffered()
            began = time.monotonic()
            try:
                kind, payload = self._receive(began + max(reply.left, 0) + GRACE)
            except BaseException:
                self._open = None
                raise
            reply.left -= time.monotonic() - began
            if kind == DONE:
                self._open = None
                return None
            return payload

    def _take_rest(self) -> None:
        """Reads the remaining rows of the current answer: into a buffer if they may still be read, otherwise to discard
        them.
        """
        if self._open is None:
            return
        reply = self._open()
        if reply is not None:
            reply.take_all()
            self._open = None
            return
        self._open = None
        assert self._child is not None
        try:
            send(self._child.line, STOP)
            until = time.monotonic() + GRACE
            while self._receive(until)[0] != DONE:
                pass
        except (ConnectionClosed, TookTooLong, ChildDied, ChildError):
            self.close()


def serialize_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterable[pa.Buffer]:
    """Rows in the form in which they are sent to the child: at least one batch, so that their type is known."""
    import pyarrow as pa

    from lineage_service.bounded.child import ipc_stream

    sent = False
    for batch in batches:
        for at in range(0, batch.num_rows, rows):
            sent = True
            yield ipc_stream(batch.slice(at, rows))
    if not sent:
        yield ipc_stream(pa.RecordBatch.from_pylist([], schema=schema))
