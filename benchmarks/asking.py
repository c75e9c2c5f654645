"""Questions timed one by one, and the ways to answer them in plain DuckDB that ours are held against."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from benchmarks.rivals import ENCODING

if TYPE_CHECKING:
    import pyarrow as pa

Start = TypeVar("Start")


def asked(starts: Sequence[Start], ask: Callable[[Start], object]) -> list[float]:
    """Seconds of each question; the answer has been read to its end."""
    took = []
    for start in starts:
        began = time.perf_counter()
        ask(start)
        took.append(time.perf_counter() - began)
    return took


def interleaved(ways: Mapping[str, Callable[[], pa.Table]], repeats: int, rows: int) -> dict[str, list[float]]:
    """Each way in turn, after one try each that does not count. All of them must find as many rows."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for name, way in ways.items():
        found = way().num_rows
        if found != rows:
            raise AssertionError(f"{name} finds {found} rows of {rows}")
    for _ in range(repeats):
        for name, way in ways.items():
            took[name] += asked([way], lambda each: each())
    return took


def figures_of(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and 95th percentile; of fewer than twenty the highest stands for it."""
    p95 = statistics.quantiles(seconds, n=20)[-1] if len(seconds) >= 20 else max(seconds)
    p50 = statistics.median(seconds)
    return {"p50_ms": 1000 * p50, "p95_ms": 1000 * p95, "total_s": p50, "rounds": len(seconds)}


@dataclass(frozen=True)
class Plain:
    """An open DuckDB connection, and the files: the source, its pairs sorted by group, what the rivals left."""

    connection: duckdb.DuckDBPyConnection
    source: Path
    pairs: Path
    folder: Path

    @classmethod
    @contextmanager
    def opened(cls, source: Path, folder: Path) -> Iterator[Plain]:
        pairs = folder / "pairs.parquet"
        with duckdb.connect() as connection:
            connection.execute("SET parquet_metadata_cache = true")
            if not pairs.is_file():
                select = f"SELECT z AS a, file_row_number AS b FROM '{source}' ORDER BY a, b"
                connection.execute(f"COPY ({select}) TO '{pairs}' ({ENCODING})")
            yield cls(connection, source, pairs, folder)

    def fetch(self, key: int) -> pa.Table:
        """The group's rids from its pairs, then the rows at these positions."""
        return self._arrow(
            f"SELECT *, file_row_number AS _rid FROM read_parquet('{self.source}') t "
            f"SEMI JOIN (SELECT b FROM read_parquet('{self.pairs}') WHERE a = ?) p ON t.file_row_number = p.b",
            key,
        )

    def scan(self, key: int) -> pa.Table:
        """The paper's Lazy: the source, filtered by the group's key."""
        return self._arrow(f"SELECT *, file_row_number AS _rid FROM read_parquet('{self.source}') WHERE z = ?", key)

    def logic_rids(self, key: int) -> pa.Table:
        return self._arrow(f"SELECT rid_zipf FROM '{self.folder}/logic-rid/*.parquet' WHERE z = ?", key)

    def logic_tuples(self, key: int) -> pa.Table:
        return self._arrow(f"SELECT in_id, in_z, in_v FROM '{self.folder}/logic-tup/*.parquet' WHERE z = ?", key)

    def _arrow(self, query: str, key: int) -> pa.Table:
        return self.connection.sql(query, params=[key]).to_arrow_table()
