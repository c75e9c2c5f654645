"""What does capture of a group-by cost? 10 million rows in few, some and many groups; the paper's query."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Query, workflow
from benchmarks.data import Zipf, zipf_folder

ROWS = 10_000_000
GROUPS = (100, 5_000, 1_000_000)
CLUSTERED = 5_000  # one more case, whose groups' rows lie together
OUTPUT = "groups"

QUERY = Query(
    ("zipf",),
    "FROM {zipf}",
    "z, count(*) AS n, sum(v) AS sum_v, sum(v * v) AS sum_vv, sum(sqrt(v)) AS sum_root, min(v) AS min_v, "
    "max(v) AS max_v",
    ("z",),
)
STEP = (
    f"{{name: {OUTPUT}, op: aggregate, input: zipf, by: [z], measures: {{n: count(*), sum_v: sum(v), "
    "sum_vv: sum(v * v), sum_root: sum(sqrt(v)), min_v: min(v), max_v: max(v)}}"
)
WORKFLOW = workflow("groupby", QUERY, [STEP], OUTPUT)


def cases(data: Path, scale: float) -> list[Case]:
    tables = {str(groups): Zipf(int(ROWS * scale), groups) for groups in GROUPS}
    tables[f"{CLUSTERED}-clustered"] = Zipf(int(ROWS * scale), CLUSTERED, clustered=True)
    return [grouped(data, label, table) for label, table in tables.items()]


def grouped(data: Path, label: str, table: Zipf, experiment: str = "groupby") -> Case:
    return Case(experiment, label, QUERY, WORKFLOW, lambda part: zipf_folder(data, zipf=table.sized(part)))
