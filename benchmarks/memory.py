"""How much memory do answers need? An index of 100 million pairs, and questions about all of it, as commands."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import Figure, measured
from benchmarks.grouped import grouped_home

ROWS, GROUPS = 100_000_000, 1_000
BAR = 2.0  # GiB

BACKWARD = ("backward", "totals", "--to", "rows", "--all")
FORWARD = ("forward", "rows", "--to", "totals", "--all")
QUESTIONS = {
    "backward --all --pairs, csv": (*BACKWARD, "--pairs", "--format", "csv"),
    "backward --all --count": (*BACKWARD, "--count"),
    "backward --all --rids, csv": (*BACKWARD, "--rids", "--format", "csv"),
    "backward --all, rows, csv": (*BACKWARD, "--format", "csv"),
    "forward --all --pairs, csv": (*FORWARD, "--pairs", "--format", "csv"),
    "forward --all --count": (*FORWARD, "--count"),
}


def measure(folder: Path, scale: float) -> list[Figure]:
    path, figures = grouped_home(folder, int(ROWS * scale), GROUPS)
    for name, arguments in QUESTIONS.items():
        took = measured(*arguments, "--home", str(path))
        figures += [
            Figure(f"{name}: peak memory", took.peak_bytes / 2**30, "GiB", BAR, took.failure),
            Figure(f"{name}: time", took.seconds, "s"),
        ]
    return figures
