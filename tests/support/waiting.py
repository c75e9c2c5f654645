"""Waiting for what must come, however long it takes on this machine: only where it never comes does time matter."""

import time
from collections.abc import Callable

PATIENCE = 120.0  # seconds


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"after {PATIENCE:.0f} s still not: {what}"
        time.sleep(0.01)
