"""Data of TPC-DS: a slice that is in the repository, or what DuckDB's extension generates at a scale factor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.data import made_folder

SLICE = Path(__file__).with_name("slices") / "tpcds"
# The extension is built for one version of DuckDB, which is not ours: it gets an environment of its own.
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5")


def tpcds_folder(folder: Path, scale: float) -> Path:
    """A folder with `<table>.parquet` for each table, generated unless it is there."""

    # The packages of this process are on the path of the processes that it starts (session.py).
    apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def install(new: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", new], check=True, env=apart)
        subprocess.run([new / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True, env=apart)

    def write(new: Path) -> None:
        environment = made_folder(folder / "tpcds-environment", install)
        program = Path(__file__).with_name("tpcds_generate.py")
        subprocess.run([environment / "bin" / "python", program, f"{scale:g}", new], check=True, env=apart)

    return made_folder(folder / f"tpcds-{scale:g}", write)
