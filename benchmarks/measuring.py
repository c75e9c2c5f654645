"""The clock, and the memory of this process and all below it."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

SAMPLED = 0.05  # seconds between two looks at the memory
LISTED = 10  # looks between two listings of the processes below this one: listing is dear


@dataclass(frozen=True)
class Measured:
    """What a call took, the most memory that was resident meanwhile, and what it returned."""

    seconds: float
    peak_mb: float
    returned: Any


def measured(call: Callable[[], Any], settle: Callable[[], object] = lambda: None) -> Measured:
    """One call. Before the clock starts, rubbish is collected and what others wrote is on the disk."""
    gc.collect()
    settle()
    os.sync()
    with Peak() as peak:
        began = time.perf_counter()
        returned = call()
        seconds = time.perf_counter() - began
    return Measured(seconds, peak.bytes / 2**20, returned)


class Peak:
    """The most memory that this process, the JVM and its workers have resident at once, looked at by a thread."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        processes: list[psutil.Process] = []
        look = 0
        while True:
            if look % LISTED == 0:
                processes = [me, *me.children(recursive=True)]
            look += 1
            self.bytes = max(self.bytes, sum(_resident(process) for process in processes))
            if self._stopped.wait(SAMPLED):
                return


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # it has ended
