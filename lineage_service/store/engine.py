"""DuckDB over our files: a connection within limits, and scans that know each row's position.

Text only where it must be (file names, column names), always quoted; values are bound by the callers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import StoreError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_VARIABLE = "SMOKE_MEMORY"
DEFAULT_MEMORY = "1GB"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def file_literal(path: str) -> str:
    """A file name that DuckDB takes literally: it would read these characters as a glob."""
    return literal("".join(f"[{char}]" if char in "*?[" else char for char in path))


def parquet_scan(files: Sequence[str], bases: Sequence[int] | None = None) -> tuple[str, str]:
    """A scan of Parquet files, and the expression for a row's position in all of them, in this order.

    `bases` are the files' first positions; without them the files are counted from their footers.
    """
    names = ", ".join(file_literal(file) for file in files)
    scan = (
        f"read_parquet([{names}], union_by_name = {'true' if len(files) > 1 else 'false'}, hive_partitioning = false)"
    )
    if len(files) == 1:
        return scan, f"(file_row_number + {bases[0] if bases else 0})"
    if bases is None:
        bases = _bases(files)
    numbers = ", ".join(str(base) for base in bases)
    return scan, f"(file_row_number + ([{numbers}])[(file_index + 1)::BIGINT])"


def _bases(files: Sequence[str]) -> list[int]:
    from lineage_service.store.versions import parquet_rows

    bases, base = [], 0
    for file in files:
        bases.append(base)
        base += parquet_rows(file)
    return bases


@contextmanager
def open_duckdb(spill: Path) -> Iterator[DuckDBPyConnection]:
    """A connection that stays within its memory and spills inside the home."""
    connection = connect_duckdb(spill)
    try:
        yield connection
    finally:
        connection.close()


def connect_duckdb(spill: Path) -> DuckDBPyConnection:
    import duckdb

    try:
        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": os.environ.get(MEMORY_VARIABLE, DEFAULT_MEMORY),
                "temp_directory": str(spill),
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        connection.execute("SET parquet_metadata_cache = true")
        return connection
    except duckdb.Error as error:
        raise StoreError(f"DuckDB could not be opened: {str(error).splitlines()[0]}") from None
