"""What does capture of a pk-fk join cost? 10 million rows, each with its one partner; the result is written."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Query, workflow
from benchmarks.data import Zipf, joined_folder

ROWS = 10_000_000
GROUPS = (5_000, 1_000_000)  # partners that Spark broadcasts, and that it shuffles

# Both tables have a column id; a result has room for one.
QUERY = Query(("gids", "zipf"), "FROM {gids}, {zipf} WHERE id = z", renames={"zipf": {"id": "zipf_id"}})
WORKFLOW = workflow("pkfk", QUERY, ["{name: joined, op: join, left: gids, right: zipf, on: id = z}"], "joined")


def cases(data: Path, scale: float) -> list[Case]:
    return [_joined(data, Zipf(int(ROWS * scale), groups)) for groups in GROUPS]


def _joined(data: Path, table: Zipf) -> Case:
    return Case("pkfk", str(table.groups), QUERY, WORKFLOW, lambda part: joined_folder(data, table.sized(part)))
