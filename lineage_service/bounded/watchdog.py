"""Stops questions that exceed their time limit, with one thread for all questions of the process.

A thread per question, as in `threading.Timer`, would take longer than many questions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

IDLE = 1.0  # seconds without a question after which the thread sleeps until it is woken


class Watchdog:
    """Calls callbacks at their deadlines. Its thread starts with the first question."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[float, Callable[[], None]]] = {}
        self._changed = threading.Condition()
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._until = 0.0  # when the thread wakes up by itself

    @contextmanager
    def deadline(self, stop: Callable[[], None], seconds: float) -> Iterator[None]:
        """Calls `stop` after this time, unless the block is left before."""
        number, due = next(self._numbers), time.monotonic() + seconds
        with self._changed:
            self._due[number] = (due, stop)
            if self._thread is None:
                self._thread = threading.Thread(target=self._call_due, daemon=True, name="smoke-watch")
                self._thread.start()
            elif due < self._until:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(number, None)

    def _call_due(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                late = [number for number, (due, _) in self._due.items() if due <= now]
                stops = [self._due.pop(number)[1] for number in late]
                if not stops:
                    nearest = min((due for due, _ in self._due.values()), default=None)
                    # The thread polls even if nothing is due for a while: waking it would cost more than polling.
                    wait = IDLE if nearest is None else nearest - now
                    self._until = now + wait
                    self._changed.wait(wait)
            while stops:
                stops.pop()()  # releases references while the thread waits


WATCH = Watchdog()
