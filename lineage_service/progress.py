"""Progress events of long operations: stages that begin, advance and end. The listener decides what to show.

An event prints as a line of text, so `home.run(file, progress=print)` works.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Began:
    """A stage began: the `number`-th `of` several, if that is known."""

    label: str
    number: int
    of: int | None = None

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Moved:
    """The number of finished tasks among those that Spark has planned so far."""

    done: int
    tasks: int

    def __str__(self) -> str:
        return f"{self.done} of {self.tasks} tasks"


@dataclass(frozen=True, slots=True)
class Ended:
    """A stage ended. `rows` and `bytes` are the amounts it wrote, if any."""

    label: str
    seconds: float
    rows: int | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows:,} rows"
        return f"{self.label}: {self.seconds:.1f} s{rows}"


Event = Began | Moved | Ended
Tell = Callable[[Event], None]


@dataclass
class StageOutput:
    """What a stage reports before it ends."""

    rows: int | None = None
    bytes: int | None = None


@dataclass
class Stages:
    """Numbers and times the stages of one operation. Stages may run concurrently."""

    tell: Tell
    of: int | None = None
    _begun: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def stage(self, label: str) -> Iterator[StageOutput]:
        with self._lock:
            self._begun += 1
            number = self._begun
        self._notify(Began(label, number, None if self.of is None else max(number, self.of)))
        since, written = time.monotonic(), StageOutput()
        yield written
        self._notify(Ended(label, time.monotonic() - since, written.rows, written.bytes))

    def _notify(self, event: Event) -> None:
        with suppress(Exception):  # a listener that fails must not fail the run
            self.tell(event)


def silent(_: Event) -> None:
    """Ignores events."""


def format_bytes(count: float) -> str:
    """A size in readable form: 1.5 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
