"""How much memory does lineage need? Questions about all of 100 million pairs, as commands; and an index of 50 million
pairs made beside a Spark driver of 1 GiB, by either engine."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.figures import Figure, measured
from benchmarks.grouped import grouped_home, rows_folder
from lineage_service import Home

ROWS, GROUPS = 100_000_000, 1_000
INDEXED, INDEXED_GROUPS = 50_000_000, 100_000
BAR = 2.0  # GiB
DRIVER = "spark.driver.memory=1g"

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
MADE = tuple((capture, engine) for capture in ("defer", "stage") for engine in ("duckdb", "spark"))


def measure(folder: Path, scale: float) -> list[Figure]:
    return [*_answers(folder, scale), *_indexes(folder / "driver", scale)]


def _answers(folder: Path, scale: float) -> list[Figure]:
    path, figures = grouped_home(folder, int(ROWS * scale), GROUPS)
    for name, arguments in QUESTIONS.items():
        took = measured(*arguments, "--home", str(path))
        figures += [
            Figure(f"{name}: peak memory", took.peak_bytes / 2**30, "GiB", BAR, took.failure),
            Figure(f"{name}: time", took.seconds, "s"),
        ]
    return figures


def _indexes(folder: Path, scale: float) -> list[Figure]:
    """Runs whose driver has 1 GiB. The peak is that of the command itself, DuckDB in it; Java is beside it."""
    rows, figures = int(INDEXED * scale), []
    flow = rows_folder(folder, rows, INDEXED_GROUPS) / "grouped.yml"
    for capture, engine in MADE:
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        words = ("run", str(flow), "--home", str(home), "--conf", DRIVER)
        took = measured(*words, "--capture", capture, "--index-engine", engine)
        name, failure = f"driver of 1 GiB, {capture}, index by {engine}", took.failure or _incomplete(home, rows)
        figures += [
            Figure(f"{name}: peak memory", took.peak_bytes / 2**30, "GiB", BAR, failure),
            Figure(f"{name}: time", took.seconds, "s"),
        ]
    shutil.rmtree(folder / "home", ignore_errors=True)
    return figures


def _incomplete(home: Path, rows: int) -> str | None:
    """What the run's lineage lacks."""
    with Home.open(home) as opened:
        (run,) = opened.runs().to_pylist()
        if run["lineage"] != "complete":
            return f"lineage is {run['lineage']}"
        pairs = opened.backward("totals", to="rows", all=True, count=True).count()
    return None if pairs == rows else f"{pairs:,} of {rows:,} rows have lineage"
