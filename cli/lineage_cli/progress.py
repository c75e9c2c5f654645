"""How a run tells what it does: one line that changes on a terminal, a line per stage when asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from lineage_cli.messages import tell, visible

if TYPE_CHECKING:
    from lineage_service.progress import Began, Ended, Event

CLEAR_LINE = "\r\x1b[2K"
PATIENCE = 2.0  # seconds that nobody needs to be told about
TICK = 0.5


@contextlib.contextmanager
def progress_line(*, verbose: bool, quiet: bool) -> Iterator[Callable[[Event], None] | None]:
    """What to call with each event; None where nobody wants to see it."""
    if verbose:
        yield _tell_ends
    elif quiet or not _is_live():
        yield None
    else:
        with _Line() as line:
            yield line.tell


@contextlib.contextmanager
def waiting_line(label: str) -> Iterator[Callable[[Event], None] | None]:
    """A line on a terminal while the body takes longer than two seconds: what goes on, and for how long.

    Gives what to call with events of that body, None where nobody wants to see them.
    """
    if not _is_live():
        yield None
        return
    with _Line(label) as line:
        yield line.tell


def _is_live() -> bool:
    from lineage_cli.options import is_terminal

    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


class _Line:
    """The one line at the bottom. It is drawn twice a second, so that its clock goes on."""

    def __init__(self, label: str | None = None) -> None:
        self._running: list[Began] = []
        self._last: Began | None = None
        self._finished = 0
        self._announced: int | None = None
        self._label = label
        self._tasks = self._rate = ""
        self._since = time.monotonic()
        self._drawn = False
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True, name="smoke-progress")

    def __enter__(self) -> _Line:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:  # who draws just now comes first, and nobody after us
            if self._drawn:
                sys.stderr.write(CLEAR_LINE)
                sys.stderr.flush()
        self._ticker.join(timeout=TICK)

    def tell(self, event: Event) -> None:
        from lineage_service.progress import Began, Ended, Moved

        with self._lock:
            match event:
                case Began():
                    self._announced = self._announced or event.of
                    self._running.append(event)
                    self._last = event
                    self._tasks = ""
                case Moved():
                    self._tasks = f"{event.done}/{event.tasks} tasks"
                case Ended():
                    self._finished += 1
                    ended = next((each for each in self._running if each.label == event.label), None)
                    self._running = [each for each in self._running if each is not ended]
                    # Where nothing runs for a moment, the stage that has just ended is still told.
                    self._last = self._running[-1] if self._running else self._last
                    self._tasks = self._tasks if self._running else ""
                    self._rate = _rate(event) or self._rate
        self._draw()

    def _tick(self) -> None:
        while not self._stop.wait(TICK):
            self._draw()

    def _stage(self) -> str:
        """How far it is: the stages that have ended, and one that runs. Side by side, their own numbers would jump."""
        begun = self._finished + len(self._running)
        # Where more stages come than were announced, nobody knows how many there will be.
        of = f"/{self._announced}" if self._announced and begun <= self._announced else ""
        return f"{self._finished + bool(self._running)}{of}"

    def _draw(self) -> None:
        from lineage_cli.tables import safe

        now = time.monotonic()
        if self._label is not None and now - self._since < PATIENCE:
            return
        with self._lock:
            if self._stop.is_set():
                return
            parts = [self._label] if self._label else []
            if self._last:
                parts += [f"[{self._stage()}] {self._last.label}", self._tasks]
            parts.append(self._rate)
            line = safe(" · ".join([*(part for part in parts if part), f"{now - self._since:.0f} s"]))
            width = shutil.get_terminal_size().columns - 1
            seen = visible(line)
            sys.stderr.write(CLEAR_LINE + (seen if len(seen) <= width else seen[: width - 1] + "…"))
            sys.stderr.flush()
            self._drawn = True


def _rate(event: Ended) -> str:
    if not event.rows or event.seconds < 0.1:
        return ""
    return f"{event.rows / event.seconds:,.0f} rows/s"


def _tell_ends(event: Event) -> None:
    """One line per stage that has ended: rows, bytes, seconds, rows a second."""
    from lineage_service.progress import Ended, format_bytes

    if isinstance(event, Ended):
        rows = [] if event.rows is None else [f"{event.rows:,} rows"]
        size = [] if event.bytes is None else [format_bytes(event.bytes)]
        rate = f" ({_rate(event)})" if _rate(event) else ""
        tell(f"{event.label}: {', '.join([*rows, *size, f'{event.seconds:.1f} s'])}{rate}")


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """A polite kill is treated as Ctrl-C, so that a run can clean up behind itself."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
