"""What does capture of an m:n join cost? 1,000 rows against up to 100,000, with up to 10 million results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Query, workflow
from benchmarks.data import Zipf, zipf_folder

LEFT_ROWS, RIGHT_VALUES = 1_000, 100
LEFT_VALUES = (10, 100)
RIGHT_ROWS = {"1e3": 1_000, "1e4": 10_000, "1e5": 100_000}

QUERY = Query(
    ("zipf1", "zipf2"),
    "FROM {zipf1}, {zipf2} WHERE z1 = z2",
    renames={f"zipf{side}": {name: f"{name}{side}" for name in ("id", "z", "v")} for side in (1, 2)},
)
WORKFLOW = workflow("mn", QUERY, ["{name: joined, op: join, left: zipf1, right: zipf2, on: z1 = z2}"], "joined")


def cases(data: Path, scale: float) -> list[Case]:
    """`z10-1e3`: left values up to 10, 1,000 rows on the right. Only the right side is scaled."""
    return [
        _joined(data, f"z{values}-{label}", values, Zipf(int(rows * scale), RIGHT_VALUES, salt=1))
        for values in LEFT_VALUES
        for label, rows in RIGHT_ROWS.items()
    ]


def _joined(data: Path, label: str, values: int, right: Zipf) -> Case:
    left = Zipf(LEFT_ROWS, values)
    return Case("mn", label, QUERY, WORKFLOW, lambda part: zipf_folder(data, zipf1=left, zipf2=right.sized(part)))
