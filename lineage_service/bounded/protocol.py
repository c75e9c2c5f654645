"""What goes between the two processes: frames, each a letter, a length and bytes."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

REQUEST, ROWS, VALUES, DONE, ERROR, READY, STOP = b"Q", b"A", b"J", b"Z", b"E", b"R", b"C"
_HEAD = struct.Struct("<cQ")
_LARGE = 65_536  # bytes from which on a frame is not copied to be sent at once


class ConnectionClosed(Exception):
    """The other process has gone."""


def send(line: socket.socket, kind: bytes, payload: Any = b"") -> None:
    """Sends a frame. Closed where nobody is there; TimeoutError as the socket says."""
    view = memoryview(payload).cast("B")
    head = _HEAD.pack(kind, len(view))
    try:
        if len(view) < _LARGE:
            line.sendall(head + bytes(view))
        else:
            line.sendall(head)
            line.sendall(view)
    except (BrokenPipeError, ConnectionError) as error:
        raise ConnectionClosed from error


def receive(line: socket.socket, until: float | None = None) -> tuple[bytes, bytearray]:
    """The next frame. Closed where the other has gone, TimeoutError where it is not there `until` then (monotonic)."""
    kind, length = _HEAD.unpack(_receive_bytes(line, _HEAD.size, until))
    return kind, _receive_bytes(line, length, until)


def _receive_bytes(line: socket.socket, size: int, until: float | None) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        if until is not None:
            line.settimeout(max(until - time.monotonic(), 0.001))
        try:
            count = line.recv_into(view[at:])
        except ConnectionError as error:
            raise ConnectionClosed from error
        if not count:
            raise ConnectionClosed
        at += count
    return found
