"""What does capture of a selection cost? 5 million rows, of which 1 to 100 % are kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Query, workflow
from benchmarks.data import Zipf, zipf_folder

ROWS, GROUPS = 5_000_000, 5_000
SELECTIVITIES = (1, 5, 10, 25, 50, 100)  # per cent; v is uniform in [0, 100)


def cases(data: Path, scale: float) -> list[Case]:
    return [_kept(data, per_cent, Zipf(int(ROWS * scale), GROUPS)) for per_cent in SELECTIVITIES]


def _kept(data: Path, per_cent: int, table: Zipf) -> Case:
    query = Query(("zipf",), f"FROM {{zipf}} WHERE v < {per_cent}")
    text = workflow("selection", query, [f'{{name: kept, op: filter, input: zipf, where: "v < {per_cent}"}}'], "kept")
    return Case("selection", f"{per_cent}%", query, text, lambda part: zipf_folder(data, zipf=table.sized(part)))
