"""How long what users write may run, and how much memory it may take."""

from __future__ import annotations

import os

TIMEOUT_VARIABLE = "SMOKE_TIMEOUT"
SECONDS = 60.0
MOST_SECONDS = 31_536_000  # a year; much more than that no clock can wait
SLACK = 64_000_000  # bytes beside DuckDB's own limit
SPILL = 4  # times the memory limit: what a question may spill to disk, and give
ROW = 8  # part of the memory limit that one row of an answer may have


def time_limit() -> float:
    """Seconds that a question may take that does not say so itself; what cannot be read counts as the default."""
    try:
        found = float(os.environ.get(TIMEOUT_VARIABLE, SECONDS))
    except ValueError:
        return SECONDS
    return found if 0 < found <= MOST_SECONDS else SECONDS


def allowance(memory: int) -> int:
    """Bytes that a process may have beside those it starts with. DuckDB keeps within `memory` where it can count; what
    it does not count is in there too."""
    return memory + memory // 4 + SLACK


def format_bytes(memory: int) -> str:
    """A number of bytes as users write it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if memory >= size:
            return f"{memory / size:.4g} {unit}"
    return f"{memory} bytes"
