"""Runs programs with and without us, and compares what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds

from tests.oracle.reference_values import canonical
from tests.programs.data import write_data

EVERY = Path(__file__).parent / "every_program.py"


def environment() -> dict[str, str]:
    """Small plans, and a Connect server of its own for each process."""
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    words = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    return {
        **os.environ, "SPARK_API_MODE": "connect", "SPARK_TESTING": "1", "PYTHONWARNINGS": "ignore",
        "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip


def run(folder: Path, *words: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """`smoke-lineage run` in a folder, with its home there."""
    command = [sys.executable, "-m", "lineage_cli.main", "run", "--home", "home", *words]
    return _run(folder, command, expected)


def run_plainly(folder: Path, *words: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    return _run(folder, [sys.executable, *words], expected)


def _run(folder: Path, command: Sequence[str], expected: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == expected, done.stderr[-3000:]
    return done


def run_with_and_without(folder: Path, programs: Sequence[Path]) -> dict:
    """All programs one after the other over data of their own, with us and without. Returns our report."""
    for side in ("with", "without"):
        (folder / f"data_{side}").mkdir()
        write_data(folder / f"data_{side}")
    names = [str(each) for each in programs]
    ours = run(folder, "--out", "report.json", str(EVERY), "data_with", "with", *names)
    plain = run_plainly(folder, str(EVERY), "data_without", "without", *names)
    assert ours.stdout == plain.stdout
    return json.loads((folder / "report.json").read_text())


def assert_same_rows(folder: Path, output: str) -> None:
    """The same columns, types and rows, in as many files."""
    ours, plain = (ds.dataset(_files(folder / side / output), partitioning="hive") for side in ("with", "without"))
    assert len(ours.files) == len(plain.files)
    ours, plain = ours.to_table(), plain.to_table()
    assert ours.schema.names == plain.schema.names
    assert ours.schema.types == plain.schema.types
    assert _bag(ours.to_pylist()) == _bag(plain.to_pylist())
    assert ours.num_rows > 0


def _files(folder: Path) -> str:
    assert folder.is_dir(), folder
    return str(folder)


def _bag(rows: list[dict]) -> Counter:
    return Counter(canonical(list(row.values())) for row in rows)
