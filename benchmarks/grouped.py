"""A home with one group-by over many narrow rows: rows in random groups, so that a group's rows lie everywhere."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import duckdb

from benchmarks.figures import Figure
from lineage_service import Home

FLOW = """\
version: 1
name: grouped
sources:
  rows: {path: rows.parquet}
steps:
  - {name: totals, op: aggregate, input: rows, by: [k], measures: {total: sum(v), n: count(*)}}
outputs:
  totals:
"""


def rows_folder(folder: Path, rows: int, groups: int) -> Path:
    """A folder with the rows and the workflow."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT (hash(range) % {groups})::BIGINT AS k, (range % 1000)::INTEGER AS v FROM range({rows})) "
            f"TO '{folder / 'rows.parquet'}' (FORMAT parquet)"
        )
    (folder / "grouped.yml").write_text(FLOW, encoding="utf-8")
    return folder


def grouped_home(folder: Path, rows: int, groups: int) -> tuple[Path, list[Figure]]:
    """The home below `folder`, made unless it is there; and what making it took."""
    home, known = folder / "home", folder / "figures.json"
    if known.is_file():
        return home, [Figure(**each) for each in json.loads(known.read_text(encoding="utf-8"))]
    rows_folder(folder, rows, groups)
    with Home.open(home) as opened:
        began = time.monotonic()
        report = opened.run(folder / "grouped.yml")
        took = time.monotonic() - began
    _stop_spark()  # so that nothing else is at work while questions are asked
    pairs = report.capture["totals"]["rows"]
    figures = [
        Figure("rows", rows, "rows"),
        Figure("groups", groups, "rows"),
        Figure("run, with Spark's start", took, "s"),
        *(Figure(f"run: {phase}", seconds, "s") for phase, seconds in report.seconds.items()),
        Figure("index, both directions", pairs["bytes"] / 2**20, "MiB"),
        Figure("index per pair and direction", pairs["bytes"] / pairs["pairs"] / 2, "bytes"),
    ]
    known.write_text(json.dumps([asdict(figure) for figure in figures]), encoding="utf-8")
    return home, figures


def _stop_spark() -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
