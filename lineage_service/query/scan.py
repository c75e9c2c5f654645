"""SQL over a version's rows: the user's columns and `_rid`. Pure text; file and column names are quoted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_service.store.engine import column, file_literal, literal, parquet_scan
from lineage_service.store.versions import Version, VersionFile

# Names that DuckDB's Parquet scan gives to positions: a user's column of such a name hides them.
POSITION_NAMES = frozenset({"file_row_number", "file_index"})
RID = "_rid"


@dataclass(frozen=True)
class VersionScan:
    """A version with its files' real paths."""

    version: Version
    paths: tuple[str, ...]

    @property
    def hides_positions(self) -> bool:
        return any((c.stored or c.name).lower() in POSITION_NAMES for c in self.version.columns)

    def select(self, columns: Sequence[str] | None = None) -> str:
        """All rows: the given columns (all without), then `_rid`."""
        if not self.version.files:
            return self._nothing(columns)
        if any(file.partitions for file in self.version.files):
            parts = [self._one_file(index, columns, None) for index in range(len(self.paths))]
            return self._with_gaps(" UNION ALL ".join(parts))
        scan, position = parquet_scan(self.paths, [file.base for file in self.version.files])
        return self._with_gaps(f"SELECT {self._columns(columns)}{position} AS {RID} FROM {scan}")

    def select_positions(self, positions: Sequence[int], columns: Sequence[str] | None = None) -> str:
        """Just the rows at these positions, each file asked for its own: row groups without any are not read."""
        by_file: dict[int, list[int]] = {}
        for position in positions:
            index = _file_of(self.version.files, position)
            by_file.setdefault(index, []).append(position - self.version.files[index].base)
        if not by_file:
            return self._nothing(columns)
        return self._with_gaps(
            " UNION ALL ".join(self._one_file(index, columns, rows) for index, rows in by_file.items())
        )

    def files_of(self, positions: Sequence[int]) -> list[int]:
        """Numbers of the files that hold these positions."""
        return sorted({_file_of(self.version.files, position) for position in positions})

    def _one_file(self, index: int, columns: Sequence[str] | None, rows: Sequence[int] | None) -> str:
        file = self.version.files[index]
        scan = f"read_parquet({file_literal(self.paths[index])}, hive_partitioning = false)"
        where = f" WHERE file_row_number IN ({', '.join(map(str, rows))})" if rows is not None else ""
        return f"SELECT {self._columns(columns, file)}(file_row_number + {file.base}) AS {RID} FROM {scan}{where}"

    def _columns(self, wanted: Sequence[str] | None, file: VersionFile | None = None) -> str:
        parts = []
        for each in self.version.columns:
            if wanted is not None and each.name not in wanted:
                continue
            if each.stored is not None:
                parts.append(f"{column(each.stored)} AS {column(each.name)}")
            else:
                value = file.partitions.get(each.name) if file else None
                text = "NULL" if value is None else literal(value)
                parts.append(f"CAST({text} AS {duckdb_type(each.type)}) AS {column(each.name)}")
        return "".join(f"{part}, " for part in parts)

    def _with_gaps(self, select: str) -> str:
        rids = self.version.rids
        if rids.dense:
            return select
        segments = ", ".join(f"({start}, {ahead})" for start, ahead in rids.segments)
        return (
            f"SELECT t.* REPLACE (t.{RID} + g.ahead AS {RID}) FROM ({select}) t "
            f"ASOF JOIN (VALUES {segments}) g(start, ahead) ON t.{RID} >= g.start"
        )

    def all_rids(self) -> str:
        """Every rid of the version, as column b, without touching its files."""
        rids = self.version.rids
        if rids.dense:
            return f"SELECT range AS b FROM range({rids.rows})"
        segments = ", ".join(f"({start}, {ahead})" for start, ahead in rids.segments)
        return (
            f"SELECT t.range + g.ahead AS b FROM range({rids.rows}) t "
            f"ASOF JOIN (VALUES {segments}) g(start, ahead) ON t.range >= g.start"
        )

    def _nothing(self, columns: Sequence[str] | None) -> str:
        names = [each for each in self.version.columns if columns is None or each.name in columns]
        parts = "".join(f"CAST(NULL AS {duckdb_type(each.type)}) AS {column(each.name)}, " for each in names)
        return f"SELECT {parts}CAST(NULL AS BIGINT) AS {RID} WHERE false"


def _file_of(files: Sequence[VersionFile], position: int) -> int:
    index = bisect_right([file.base for file in files], position) - 1
    while not files[index].rows:  # an empty file shares its base with the one behind it
        index -= 1
    return index


_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ", "binary": "BLOB",
    "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip


def duckdb_type(spark_type: str) -> str:
    """A Spark type in DuckDB's words, for the simple types that partition columns can have; else text."""
    if spark_type.startswith("decimal("):
        return spark_type.upper()
    return _TYPES.get(spark_type, "VARCHAR")
