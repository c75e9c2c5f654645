"""How long is one look-up? A group-by of 10 million rows in 5,000 groups; one row asked for at a time."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, measured, median_and_p95
from benchmarks.grouped import grouped_home
from lineage_service import Home
from lineage_service.query.answer import Answer

ROWS, GROUPS = 10_000_000, 5_000
ASKED, COMMANDS = 200, 10
IN_PROCESS, AS_COMMAND = 5.0, 0.8  # bars: milliseconds in an open home, seconds as a command


def measure(folder: Path, scale: float) -> list[Figure]:
    rows = int(ROWS * scale)
    path, figures = grouped_home(folder, rows, GROUPS)
    chance = random.Random(7)
    with Home.open(path) as home:
        began = time.perf_counter()
        home.backward("totals", to="rows", rid=0, rids=True).arrow()
        figures.append(Figure("first look-up after opening a home", 1000 * (time.perf_counter() - began), "ms"))
        outs = [chance.randrange(GROUPS) for _ in range(ASKED)]
        rids = [chance.randrange(rows) for _ in range(ASKED)]
        figures += _asked("backward --rids", outs, lambda n: home.backward("totals", to="rows", rid=n, rids=True))
        figures += _asked("forward --rids", rids, lambda n: home.forward("rows", to="totals", rid=n, rids=True))
        figures += _asked(
            "backward --count", outs, lambda n: home.backward("totals", to="rows", rid=n, count=True), bar=False
        )
        figures += _asked("forward, rows", rids, lambda n: home.forward("rows", to="totals", rid=n), bar=False)
    for verb in (["backward", "totals", "--to", "rows"], ["forward", "rows", "--to", "totals"]):
        took = [measured(*verb, "--rid", str(chance.randrange(GROUPS)), "--rids", "--home", str(path)).seconds
                for _ in range(COMMANDS)]  # fmt: skip
        figures.append(Figure(f"command: {verb[0]} --rids, median", statistics.median(took), "s", AS_COMMAND))
    return figures


def _asked(name: str, starts: list[int], ask: Callable[[int], Answer], *, bar: bool = True) -> list[Figure]:
    took = []
    for start in starts:
        began = time.perf_counter()
        ask(start).arrow()
        took.append(time.perf_counter() - began)
    return median_and_p95(name, took, IN_PROCESS if bar else None)
