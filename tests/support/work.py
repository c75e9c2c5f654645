"""How much work something is, counted instead of timed: the same on every machine, however busy it is."""

import sys
from collections.abc import Callable
from typing import Any


class TooMuch(BaseException):
    """Nobody catches it by chance."""


def calls_of(work: Callable[[], Any], most: int) -> int:
    """How many functions are called by this thread, ours and those of C; stopped where they are more than `most`."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1
            if calls > most:
                raise TooMuch(f"more than {most:,} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
