"""The drill-down of TPC-H Q1, bar by bar: what consume, skipping and cube share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.asking import figures_of
from benchmarks.cases import workflow
from benchmarks.data import tpch_folder
from benchmarks.declared import OUTPUT
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from benchmarks.tpch import QUERIES, STEPS
from lineage_service import Home

if TYPE_CHECKING:
    import pyarrow as pa

SHIPPED = "l_shipdate <= DATE '1998-09-02'"
BY_MONTH = (
    "SELECT year(l_shipdate) AS y, month(l_shipdate) AS m, sum(l_quantity) AS qty, count(*) AS n FROM {rows}{where} "
    "GROUP BY ALL"
)
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
ROWS = f"{{name: rows, backward: {OUTPUT}, to: lineitem}}"


@dataclass(frozen=True)
class Bar:
    """A row of Q1, by its key: a predicate on it, and on the rows behind it."""

    flag: str
    status: str
    rows: int

    @property
    def label(self) -> str:
        return f"{self.flag}{self.status}"

    @property
    def start(self) -> str:
        return f"l_returnflag = ''{self.flag}'' AND l_linestatus = ''{self.status}''"

    @property
    def lazy(self) -> str:
        """The same rows by the paper's lazy rewrite: the query's own predicate and the bar's key."""
        return f"{SHIPPED} AND l_returnflag = '{self.flag}' AND l_linestatus = '{self.status}'"

    def lineage(self) -> str:
        return f"backward('{OUTPUT}', 'lineitem', '{self.start}')"


def build(folder: Path, options: Options, name: str, entries: Sequence[str]) -> tuple[Path, Path]:
    """A home with Q1 under a workload, and the data; used again where it is there."""
    from benchmarks.session import running_spark

    data = tpch_folder(folder / "data", options.scale)
    home, file = folder / f"home-{name}-{options.scale:g}", folder / f"q1-{name}.yml"
    if not (home / "built").exists():
        tell(f"building the home '{name}'")
        lines = "".join(f"    - {each}\n" for each in entries)
        text = workflow("q1", QUERIES["Q1"], STEPS["Q1"], OUTPUT)
        file.write_text(text + (f"lineage:\n  workload:\n{lines}" if lines else ""), encoding="utf-8")
        with running_spark(), Home.open(home) as opened:
            opened.run(file, vars={"data": str(data)})
        (home / "built").touch()
    return home, data / "lineitem.parquet"


def bars_of(home: Home) -> list[Bar]:
    """The bars of Q1, smallest first."""
    found = home.rows(OUTPUT, all=True, columns=["l_returnflag", "l_linestatus", "count_order"]).to_pylist()
    bars = [Bar(row["l_returnflag"], row["l_linestatus"], row["count_order"]) for row in found]
    return sorted(bars, key=lambda bar: bar.rows)


@contextmanager
def plain() -> Iterator[Callable[[str], pa.Table]]:
    """Plain DuckDB, with its cache of footers as ours has it."""
    with duckdb.connect() as connection:
        connection.execute("SET parquet_metadata_cache = true")
        yield lambda sql: connection.sql(sql).to_arrow_table()


def interleaved(ways: Mapping[str, Callable[[], pa.Table]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, in turn; all must give the same rows."""
    tables = {name: sorted(map(repr, way().to_pylist())) for name, way in ways.items()}
    first = next(iter(tables.values()))
    for name, table in tables.items():
        if table != first:
            raise AssertionError(f"'{name}' gives other rows than '{next(iter(tables))}'")
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            took[name].append(time.perf_counter() - began)
    return took


def asked(
    experiment: str, case: str, took: Mapping[str, Sequence[float]], base: Sequence[str], rows: int, scale: float
) -> list[Result]:
    """A result for each way; ratios are to the best of `base`."""
    best = min(statistics.median(took[name]) for name in base)
    return [
        Result(experiment=experiment, case=case, technique=name, base_s=best, scale=scale, rows=rows,
               ratio=statistics.median(seconds) / best, **_figures(seconds))
        for name, seconds in took.items()
    ]  # fmt: skip


def _figures(seconds: Sequence[float]) -> dict[str, Any]:
    return figures_of(seconds)
