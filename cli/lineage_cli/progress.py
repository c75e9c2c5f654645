"""Progress of a run: one line that is updated on a terminal, or one line per stage with --verbose."""

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

from lineage_cli.messages import tell
from lineage_service.render.safe_text import escape_line, escape_text

if TYPE_CHECKING:
    from lineage_service.progress import Began, Ended, Event

CLEAR_LINE = "\r\x1b[2K"
PATIENCE = 2.0  # seconds before a line is shown
TICK = 0.5


@contextlib.contextmanager
def progress_line(*, verbose: bool, quiet: bool) -> Iterator[Callable[[Event], None] | None]:
    """Yields the function to call with each event; None if no progress is shown."""
    if verbose:
        yield _tell_ends
    elif quiet or not _is_live():
        yield None
    else:
        with _Line() as line:
            yield line.tell


@contextlib.contextmanager
def waiting_line(label: str) -> Iterator[Callable[[Event], None] | None]:
    """Shows a line with label and seconds on a terminal once the body takes longer than two seconds.

    Yields the function to call with events; None if no progress is shown.
    """
    if not _is_live():
        yield None
        return
    with _Line(label) as line:
        yield line.tell


def clear_line() -> None:
    """Removes the progress line, before something else is printed. It comes back with the next event."""
    if _is_live():
        sys.stderr.write(CLEAR_LINE)
        sys.stderr.flush()


def _is_live() -> bool:
    from lineage_cli.options import is_terminal

    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


class _Line:
    """The progress line. It is redrawn twice a second, so that the seconds advance."""

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
        with self._lock:  # waits for a redraw in progress; none follows
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
                    # Between two stages, the one that has just ended stays on the line.
                    self._last = self._running[-1] if self._running else self._last
                    self._tasks = self._tasks if self._running else ""
                    self._rate = _rate(event) or self._rate
        self._draw()

    def _tick(self) -> None:
        while not self._stop.wait(TICK):
            self._draw()

    def _stage(self) -> str:
        """Returns the number of stages ended, plus one if any runs. Stages run in parallel and end in any order."""
        begun = self._finished + len(self._running)
        # If there are more stages than announced, the total is unknown.
        of = f"/{self._announced}" if self._announced and begun <= self._announced else ""
        return f"{self._finished + bool(self._running)}{of}"

    def _draw(self) -> None:

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
            line = escape_line(" · ".join([*(part for part in parts if part), f"{now - self._since:.0f} s"]))
            width = shutil.get_terminal_size().columns - 1
            seen = escape_text(line)
            sys.stderr.write(CLEAR_LINE + (seen if len(seen) <= width else seen[: width - 1] + "…"))
            sys.stderr.flush()
            self._drawn = True


def _rate(event: Ended) -> str:
    if not event.rows or event.seconds < 0.1:
        return ""
    return f"{event.rows / event.seconds:,.0f} rows/s"


def _tell_ends(event: Event) -> None:
    """Prints a line for a stage that has ended: rows, bytes, seconds, rows per second."""
    from lineage_service.progress import Ended, format_bytes

    if isinstance(event, Ended):
        rows = [] if event.rows is None else [f"{event.rows:,} rows"]
        size = [] if event.bytes is None else [format_bytes(event.bytes)]
        rate = f" ({_rate(event)})" if _rate(event) else ""
        tell(f"{event.label}: {', '.join([*rows, *size, f'{event.seconds:.1f} s'])}{rate}")


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treats SIGTERM like Ctrl-C, so that a run can clean up."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone can handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
