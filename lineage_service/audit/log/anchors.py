"""Anchors: copies of the log's head, stored where a person with write access to the database may not be able to write.

An anchor is always written to a file, and to a URL and syslog if configured. It holds the number and hash of the last
entry, which cover all earlier entries through the chain. If an anchor fails, nothing is lost: the next one covers the
same entries.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lineage_catalog.audit import LogRecord, Seal

from lineage_service.errors import StoreError
from lineage_service.store.home_key import HomeKey
from lineage_service.store.layout import HomeLayout

NAME = "audit.anchors"
FILE_VARIABLE = "SMOKE_ANCHOR_FILE"
URL_VARIABLE = "SMOKE_ANCHOR_URL"
SYSLOG_VARIABLE = "SMOKE_ANCHOR_SYSLOG"
TIMEOUT = 5.0  # timeout of a URL, in seconds
PORT = 514  # maximum length of a syslog message


class AnchorFailed(Exception):
    """An anchor could not be written. The message is for the user and contains no URL, which may include a password."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head of the log. `log` is the id of its key; `seal` proves that the writer had that key."""

    log: str
    number: int
    hash: str
    at: str
    seal: str = ""

    def expected_seal(self, seal: Seal) -> str:
        """The seal that this anchor must have."""
        fields = [self.log, self.number, self.hash, self.at]
        return seal(f"log anchor\n{json.dumps(fields)}".encode())

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def anchor(home: HomeLayout, head: LogRecord, key: HomeKey) -> list[str]:
    """Writes a committed head to all configured anchors, and returns the failures as messages for the user."""
    bare = Anchor(key.id, head.number, head.hash, head.at)
    line = Anchor(key.id, head.number, head.hash, head.at, bare.expected_seal(key.seal)).to_json()
    ways: list[Callable[[], None]] = [lambda: _to_file(anchor_file(home), line)]
    url, syslog = os.environ.get(URL_VARIABLE), os.environ.get(SYSLOG_VARIABLE)
    if url:
        ways.append(lambda: _to_url(url, line))
    if syslog:
        ways.append(lambda: _to_syslog(syslog, line))
    return [reason_text for way in ways if (reason_text := _try_anchor(way, head.number)) is not None]


def anchor_file(home: HomeLayout) -> Path:
    """The path of a home's anchor file."""
    given = os.environ.get(FILE_VARIABLE)
    return Path(given).expanduser().absolute() if given else home.path / NAME


def _try_anchor(way: Callable[[], None], number: int) -> str | None:
    try:
        way()
    except AnchorFailed as error:
        return f"entry {number} of the audit log is written, but not anchored: {error}; the next anchor covers it"
    return None


def _to_file(path: Path, line: str) -> None:
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # a power failure while a line was written
            os.write(handle, f"{chr(10) if torn else ''}{line}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise AnchorFailed(f"cannot write '{path}': {_reason(error)}") from error


def _to_url(url: str, line: str) -> None:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Straight(HTTPRedirectHandler):
        """Rejects redirects: a redirected POST becomes a GET, which succeeds without storing the anchor."""

        def redirect_request(self, *_: object) -> None:
            return None

    if not url.startswith(("https://", "http://")):
        raise AnchorFailed(f"{URL_VARIABLE} is not an http or https URL")
    try:
        request = Request(url, line.encode(), {"Content-Type": "application/json"}, method="POST")
        with build_opener(Straight).open(request, timeout=TIMEOUT):
            pass  # any 2xx response is accepted
    except HTTPError as error:
        error.close()
        raise AnchorFailed(f"the server of {URL_VARIABLE} answered {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)  # urllib wraps the socket's error
        reason_text = _reason(reason) if isinstance(reason, OSError) else type(error).__name__
        raise AnchorFailed(f"{URL_VARIABLE} cannot be reached: {reason_text}") from error


def _to_syslog(address: str, line: str) -> None:
    import logging
    from logging.handlers import SysLogHandler

    class Handler(SysLogHandler):
        """A handler that raises errors instead of hiding them."""

        def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging calls it so
            error = sys.exc_info()[1]
            assert error is not None
            raise error

    try:
        handler = Handler(address if address.startswith("/") else _host_and_port(address), SysLogHandler.LOG_AUTHPRIV)
        try:
            handler.ident = "smoke-lineage: audit anchor "
            handler.emit(logging.makeLogRecord({"msg": line, "levelno": logging.INFO, "levelname": "INFO"}))
        finally:
            handler.close()
    except (OSError, ValueError) as error:
        reason_text = _reason(error) if isinstance(error, OSError) else "not an address (host:port, or /dev/log)"
        raise AnchorFailed(f"{SYSLOG_VARIABLE} cannot be reached: {reason_text}") from error


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):  # an IPv6 address without a port
        host, port = address, str(PORT)
    return host.strip("[]"), int(port)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


# --- reading --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnchorLine:
    """A line of an anchor file, by its number; `anchor` is None if it cannot be read."""

    number: int
    anchor: Anchor | None


def read_anchors(path: Path) -> list[AnchorLine] | None:
    """The lines of an anchor file, in order; None if there is no file. Lines may have a prefix, as in a syslog file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return list(_lines(lines))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read the anchors '{path}': {_reason(error)}") from error


def _lines(lines: Iterable[str]) -> Iterator[AnchorLine]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield AnchorLine(number, _anchor(line))


def _anchor(line: str) -> Anchor | None:
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(line[line.index("{") : line.rindex("}") + 1])
        read = Anchor(found["log"], found["number"], found["hash"], found["at"], found["seal"])
        texts = (read.log, read.hash, read.at, read.seal)
        if isinstance(read.number, int) and all(isinstance(text, str) for text in texts):
            return read
    return None
