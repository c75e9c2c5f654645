"""The protocol between the two processes: frames of a letter, a length and bytes."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

REQUEST, ROWS, VALUES, DONE, ERROR, READY, STOP = b"Q", b"A", b"J", b"Z", b"E", b"R", b"C"
_HEAD = struct.Struct("<cQ")
_LARGE = 65_536  # larger frames are sent without copying them into one buffer


class ConnectionClosed(Exception):
    """The other process is gone."""


def send(line: socket.socket, kind: bytes, payload: Any = b"") -> None:
    """Sends a frame. Raises ConnectionClosed if the other process is gone, TimeoutError as the socket does."""
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
    """Receives a frame. Raises ConnectionClosed if the other process is gone, TimeoutError if no frame arrives `until`
    then (monotonic).
    """
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
