"""The data of the experiments: zipf tables by DuckDB, TPC-H by tpchgen-cli, and the first rows of either.

Each data set is a folder of `<table>.parquet`, one file per table; what is there is not made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

TINY = 10  # rows a table of a tiny data set has
# Without DuckDB's Bloom filters: Spark writes none, and with them a scan for one key would be none.
PLAIN = "FORMAT parquet, WRITE_BLOOM_FILTER false"
TPCH = ("customer", "orders", "lineitem", "nation")


@dataclass(frozen=True)
class Zipf:
    """A table zipf(id, z, v): z zipfian with skew `theta` over 1..`groups`, v uniform in [0, 100).

    Values are hashes of the row's number and `salt`: the same on every machine. `clustered`: rows in order of z.
    """

    rows: int
    groups: int
    theta: float = 1.0
    salt: int = 0
    clustered: bool = False

    @property
    def name(self) -> str:
        extra = f"-s{self.salt}" * bool(self.salt) + "-clustered" * self.clustered
        return f"n{self.rows}-g{self.groups}-t{self.theta:g}{extra}"

    def sized(self, part: float) -> Zipf:
        """The same with a part of the rows, at least one."""
        return replace(self, rows=max(1, int(self.rows * part)))

    def write(self, path: Path) -> None:
        """By the inverse of the distribution: a row's value is the last whose values before it weigh at most u."""
        # One number hashed, not several: hashes that are combined of several are alike where those are.
        u, v = (f"(hash(range + {(2 * self.salt + k) << 40})::DOUBLE / 18446744073709551616)" for k in (0, 1))
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE weights AS SELECT range::INTEGER AS z, range ** -{self.theta} AS weight "
                               f"FROM range(1, {self.groups + 1})")  # fmt: skip
            # The first starts at exactly 0: a sum minus itself need not be.
            connection.execute(
                "CREATE TABLE starts AS SELECT z, CASE z WHEN 1 THEN 0.0 ELSE "
                "(sum(weight) OVER (ORDER BY z) - weight) / (SELECT sum(weight) FROM weights) END AS start FROM weights"
            )
            connection.execute(
                f"COPY (SELECT r.id, s.z, r.v FROM (SELECT range AS id, {u} AS u, "
                f"100 * {v} AS v FROM range({self.rows})) r ASOF JOIN starts s ON r.u >= s.start "
                f"ORDER BY {'s.z, ' * self.clustered}r.id) TO '{path}' ({PLAIN})"
            )


def zipf_folder(folder: Path, **tables: Zipf) -> Path:
    """A folder with a zipf table under each name."""
    # No '=' in it: DuckDB would take the folder for a partition.
    name = "_".join(f"{name}-{table.name}" for name, table in tables.items())

    def write(new: Path) -> None:
        for name, table in tables.items():
            table.write(new / f"{name}.parquet")

    return made_folder(folder / name, write)


def joined_folder(folder: Path, table: Zipf) -> Path:
    """A folder with zipf, and gids(id, label): one row for each value that z can have."""

    def write(new: Path) -> None:
        table.write(new / "zipf.parquet")
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT range::INTEGER AS id, 'group ' || range AS label FROM range(1, {table.groups + 1})) "
                f"TO '{new / 'gids.parquet'}' (FORMAT parquet)"
            )

    return made_folder(folder / f"gids_zipf-{table.name}", write)


def tpch_folder(folder: Path, scale: float) -> Path:
    def write(new: Path) -> None:
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        options = ["-s", f"{scale:g}", "--tables", ",".join(TPCH), "--quiet", "--output-dir", str(new)]
        subprocess.run([generator, "parquet", *options], check=True)

    return made_folder(folder / f"tpch-{scale:g}", write)


def whole_tpch_folder(folder: Path, scale: float) -> Path:
    """All eight tables of TPC-H."""

    def write(new: Path) -> None:
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        subprocess.run([generator, "parquet", "-s", f"{scale:g}", "--quiet", "--output-dir", str(new)], check=True)

    return made_folder(folder / f"tpch-all-{scale:g}", write)


def tiny_folder(data: Path) -> Path:
    """The first rows of each table of a data set: what a run costs whatever the data."""

    def write(new: Path) -> None:
        with duckdb.connect() as connection:
            for path in _tables(data):
                target = new / path.name
                connection.execute(f"COPY (SELECT * FROM '{path}' LIMIT {TINY}) TO '{target}' (FORMAT parquet)")

    return made_folder(data.with_name(f"{data.name}-tiny"), write)


def _tables(data: Path) -> Iterable[Path]:
    return sorted(data.glob("*.parquet"))


def made_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder, filled by `write` unless it is there: whole, or not at all."""
    if not folder.is_dir():
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        write(new)
        os.sync()  # so that nothing of it is still being written while something is measured
        new.rename(folder)
    return folder
