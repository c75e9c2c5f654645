"""The engine interface for building an index from lineage tables. DuckDB's is here, Spark's in
spark/spark_index_engine.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lineage_service.capture.direct_indexing import DirectLookup
from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.store.duckdb_engine import MEMORY_VARIABLE, column, literal, open_duckdb, parquet_scan
from lineage_service.store.layout import HomeLayout, translate_disk_errors
from lineage_service.store.lineage_tables import TableRows, bound_name
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BITS = 63


@dataclass(frozen=True)
class Bounds:
    """Exclusive upper bounds of the ids of pairs."""

    a: int
    b: int


class IndexEngine(Protocol):
    """Works on views (id, h0, h1, …) with SQL that is the same for all engines. `is_near`: it runs in this process, so
    that small data may be processed without SQL.
    """

    @property
    def is_near(self) -> bool: ...

    def view(self, name: str, rows: TableRows) -> None:
        """Creates a view of a lineage table."""

    def number(self, query: str) -> float:
        """The single number that a query returns; 0 for null."""

    def keep(self, name: str, query: str) -> None:
        """Stores a query's rows in a table, which replaces a view or table of that name."""

    def drop(self, name: str) -> None:
        """Removes such a table."""

    def write(self, pairs: str, direction: str, path: Path, bounds: Bounds | None, *, distinct: bool) -> Path:
        """Writes pairs (a, b), sorted for a direction, and returns the path of the file or folder."""

    def write_rows(self, query: str, order: Sequence[str], path: Path) -> Path:
        """Writes rows in this order."""

    def kinds(self, query: str) -> dict[str, str]:
        """The columns of a query, with their DuckDB types."""

    def rows_of(self, space: Space, columns: Sequence[str] | None = None) -> str:
        """The rows of a dataset in DuckDB: its columns, and `_rid`. Only available if the engine is near."""

    def distinct_values(self, value: str) -> str:
        """The aggregate that lists the distinct non-null values."""

    def whole_sum(self, value: str) -> str:
        """The sum of integers with 38 digits. It must not overflow if it is a partial result."""

    def fault(self, error: Exception) -> str | None:
        """The reason why the data or a limit made the engine fail; None for any other error."""


@dataclass
class DuckIndexEngine:
    """DuckDB within its memory limit; it spills to disk. `versions` are those of sources and datasets, by name."""

    connection: DuckDBPyConnection
    home: HomeLayout
    versions: Mapping[Space, Version]
    is_near: bool = True
    _kept: set[str] = field(default_factory=set)

    def view(self, name: str, rows: TableRows) -> None:
        self.drop(name)
        self.connection.execute(f"CREATE VIEW {name} AS {self._select(rows)}")

    def _select(self, rows: TableRows) -> str:
        if rows.direct is not None and not rows.files:
            assert rows.carrier is not None
            sources = [self._scan(source_space(source)) for source in rows.direct.sources]
            return direct_members(rows.direct, sources, self._scan(step_space(rows.carrier)), {})
        files = [self.home.absolute(file) for file in rows.files]
        if not files:
            names = [bound_name(n) if rows.framed else f"h{n}" for n in range(len(rows.handles))]
            nothing = "".join(f", NULL::BIGINT AS {name}" for name in names)
            return f"SELECT NULL::BIGINT AS id{nothing}, NULL::BIGINT AS checked WHERE false"
        scan, position = parquet_scan(files)
        identity = position if rows.id is None else column(rows.id)
        where = "" if rows.where is None else f" WHERE {rows.where}"
        if rows.nested is not None:
            members = f"SELECT {identity} AS id, unnest({column(rows.nested)}) AS m FROM {scan}{where}"
            handles = "".join(f", m.{column(name)} AS h{index}" for index, name in enumerate(rows.handles))
            return f"SELECT id{handles} FROM ({members})"
        if rows.framed:
            bounds = ", ".join(f"{identity} + {column(name)} AS {bound_name(n)}" for n, name in enumerate(rows.handles))
            return f"SELECT {identity} AS id, {bounds} FROM {scan}{where}"
        handles = "".join(f", {column(name)} AS h{index}" for index, name in enumerate(rows.handles))
        check = "" if rows.check is None else f", {column(rows.check)} AS checked"
        return f"SELECT {identity} AS id{handles}{check} FROM {scan}{where}"

    def _scan(self, space: Space) -> VersionScan:
        version = self.versions[space]
        return VersionScan(version, tuple(self.home.absolute(file.path) for file in version.files), self.home.absolute)

    def number(self, query: str) -> float:
        rows = self.connection.execute(query).fetchall()  # read to the end, because the connection is busy otherwise
        return float(rows[0][0]) if rows and rows[0][0] is not None else 0.0

    def keep(self, name: str, query: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE kept_now AS {query}")
        self.drop(name)
        self.connection.execute(f"ALTER TABLE kept_now RENAME TO {name}")
        self._kept.add(name)

    def drop(self, name: str) -> None:
        self.connection.execute(f"DROP {'TABLE' if name in self._kept else 'VIEW'} IF EXISTS {name}")
        self._kept.discard(name)

    def write(self, pairs: str, direction: str, path: Path, bounds: Bounds | None, *, distinct: bool) -> Path:
        rows = self.connection.sql(sorted_pairs(pairs, direction, bounds, distinct=distinct))
        with translate_disk_errors(self.home.path):
            return write_pairs(path, rows.to_arrow_reader(ROW_GROUP))

    def write_rows(self, query: str, order: Sequence[str], path: Path) -> Path:
        path = path.with_name(f"{path.name}.parquet")
        options = f"FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
        with translate_disk_errors(self.home.path):
            self.connection.execute(f"COPY ({query} ORDER BY {', '.join(order)}) TO {literal(str(path))} ({options})")
        return path

    def kinds(self, query: str) -> dict[str, str]:
        return {row[0]: row[1] for row in self.connection.execute(f"DESCRIBE {query}").fetchall()}

    def rows_of(self, space: Space, columns: Sequence[str] | None = None) -> str:
        return self._scan(space).select(columns)

    def whole_sum(self, value: str) -> str:
        return f"CAST(sum({value}) AS DECIMAL(38,0))"  # DuckDB sums in 128 bits

    def fault(self, error: Exception) -> str | None:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            return f"DuckDB needs more memory than it is allowed ({MEMORY_VARIABLE})"
        if isinstance(error, duckdb.ConversionException | duckdb.InvalidInputException | duckdb.OutOfRangeException):
            return f"DuckDB cannot read or add up its rows ({type(error).__name__})"
        return None

    def distinct_values(self, value: str) -> str:
        return f"list(DISTINCT {value}) FILTER (WHERE {value} IS NOT NULL)"


@contextmanager
def duckdb_index_engine(spill: Path, home: HomeLayout, versions: Mapping[Space, Version]) -> Iterator[DuckIndexEngine]:
    with open_duckdb(spill) as connection:
        yield DuckIndexEngine(connection, home, versions)


def sorted_pairs(pairs: str, direction: str, bounds: Bounds | None, *, distinct: bool) -> str:
    """Pairs sorted for a direction. If both ids fit into one number, they are sorted as one, which is twice as fast."""
    near, far = ("a", "b") if direction == "backward" else ("b", "a")
    word = "DISTINCT " if distinct else ""
    if bounds is None:
        return f"SELECT {word}a, b FROM ({pairs}) ORDER BY {near}, {far}"
    bits = {"a": max(1, bounds.a.bit_length()), "b": max(1, bounds.b.bit_length())}
    if bits["a"] + bits["b"] > BITS:
        return sorted_pairs(pairs, direction, None, distinct=distinct)
    kind = "UINTEGER" if bits["a"] + bits["b"] <= 32 else "UBIGINT"
    shift, mask = bits[far], (1 << bits[far]) - 1
    packed = f"SELECT {word}CAST(({near}::UBIGINT << {shift}) | {far}::UBIGINT AS {kind}) AS x FROM ({pairs})"
    split = {near: f"(x >> {shift})::BIGINT", far: f"(x & {mask})::BIGINT"}
    return f"SELECT {split['a']} AS a, {split['b']} AS b FROM ({packed}) ORDER BY x"


def direct_members(
    direct: DirectLookup, sources: Sequence[VersionScan], dataset: VersionScan, only: Mapping[int | None, Sequence[int]]
) -> str:
    """(id, h0, h1, …): rows of a dataset joined with the source rows that have their keys.

    `only` restricts the positions, of one of the sources (by its number) or of the dataset (None).
    """
    tables = []
    for number, source in enumerate(sources):
        columns = direct_columns(direct, number, source)
        rows = source.select_positions(only[number], columns) if number in only else source.select(columns)
        tables.append(f"({rows}) t{number}")
    shown = (
        dataset.select_positions(only[None], direct.dataset_key_columns)
        if None in only
        else dataset.select(direct.dataset_key_columns)
    )
    # Nulls are equal in a key.
    same = [f"t{number}.{column(own)} IS NOT DISTINCT FROM o.{column(other)}" for number, own, other in direct.keys]
    where = " AND ".join([*direct.conditions, *same]) or "true"
    handles = "".join(f", t{number}.{RID} AS h{number}" for number in range(len(sources)))
    return f"SELECT o.{RID} AS id{handles} FROM {', '.join(tables)}, ({shown}) o WHERE {where}"


def direct_columns(direct: DirectLookup, number: int, source: VersionScan) -> list[str]:
    """The columns of a source that keys and conditions read."""
    text = " ".join(direct.conditions)
    keys = {own for of, own, _ in direct.keys if of == number}
    names = [each.name for each in source.version.columns]
    return [name for name in names if name in keys or f"t{number}.{column(name)}" in text]
