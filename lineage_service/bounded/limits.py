"""Time and memory limits of user-written SQL."""

from __future__ import annotations

import os

TIMEOUT_VARIABLE = "SMOKE_TIMEOUT"
SECONDS = 60.0
MOST_SECONDS = 31_536_000  # a year; timers do not support much longer waits
SLACK = 64_000_000  # bytes in addition to DuckDB's own limit
SPILL = 4  # multiple of the memory limit that a question may spill to disk, and return
ROW = 8  # share of the memory limit that one row of an answer may take


def time_limit() -> float:
    """The default time limit of a question in seconds. An unreadable setting counts as unset."""
    try:
        found = float(os.environ.get(TIMEOUT_VARIABLE, SECONDS))
    except ValueError:
        return SECONDS
    return found if 0 < found <= MOST_SECONDS else SECONDS


def allowance(memory: int) -> int:
    """Bytes that a process may use in addition to those at its start. Includes `memory`, DuckDB's own limit, and memory
    that DuckDB does not account for.
    """
    return memory + memory // 4 + SLACK


def format_bytes(memory: int) -> str:
    """A number of bytes in the notation that users write."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if memory >= size:
            return f"{memory / size:.4g} {unit}"
    return f"{memory} bytes"
