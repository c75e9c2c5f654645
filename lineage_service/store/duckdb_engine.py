"""DuckDB over our files: a connection with limits, and scans that return each row's position.

Only file names and column names are part of SQL text, always quoted. Callers bind values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, count
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import StoreError
from lineage_service.store.checksums import verify
from lineage_service.store.versions import Footer, parquet_footer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_VARIABLE = "SMOKE_MEMORY"
DEFAULT_MEMORY = "1GB"
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def memory_limit() -> int:
    """The memory limit in bytes. An unreadable setting counts as unset."""
    for text in (os.environ.get(MEMORY_VARIABLE, DEFAULT_MEMORY), DEFAULT_MEMORY):
        found = re.fullmatch(r"\s*([\d.]+)\s*([kmgt]?)i?b?\s*", text.lower())
        if found:
            return int(float(found[1]) * UNITS[found[2]])
    return 10**9


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def private_column(name: str) -> str:
    """The quoted name of a column of ours beside the user's. It begins with a character that no user's column has."""
    return f'"\ue000{name}"'


def file_literal(path: str) -> str:
    """A file name for DuckDB to read. The file is verified first."""
    verify(path)
    return unverified_file_literal(path)


def unverified_file_literal(path: str) -> str:
    """A file name with glob characters escaped, so that DuckDB takes it literally. For files of which the parts that
    are read were verified.
    """
    return literal("".join(f"[{char}]" if char in "*?[" else char for char in path))


def parquet_scan(
    files: Sequence[str], bases: Sequence[int] | None = None, *, verified: bool = False
) -> tuple[str, str]:
    """A scan of Parquet files, and the expression for a row's position in all of them, in this order.

    bases: the first positions of the files, which must not be odd; without them the footers are read
    verified: the parts that are read were verified
    """
    if not verified:
        verify(*files)
    if bases is None:
        footers = [parquet_footer(file) for file in files]
        bases = list(accumulate((footer.rows for footer in footers[:-1]), initial=0))
        if any(footer.is_odd(()) for footer in footers):
            return _scan_of_odd(files, footers, bases)
    names = ", ".join(unverified_file_literal(file) for file in files)
    scan = (
        f"read_parquet([{names}], union_by_name = {'true' if len(files) > 1 else 'false'}, hive_partitioning = false)"
    )
    if len(files) == 1:
        return scan, f"(file_row_number + {bases[0]})"
    numbers = ", ".join(str(base) for base in bases)
    return scan, f"(file_row_number + ([{numbers}])[(file_index + 1)::BIGINT])"


def numbered_scan(file: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A scan whose columns have numbers as names, so that none hides `file_row_number`; and the name of each column in
    it. The caller has verified the file.
    """
    numbers = [f"c{index}" for index in range(len(names))]
    scan = f"read_parquet({unverified_file_literal(file)}, hive_partitioning = false) t({', '.join(numbers)})"
    return scan, dict(zip(names, numbers, strict=True))


def _scan_of_odd(files: Sequence[str], footers: Sequence[Footer], bases: Sequence[int]) -> tuple[str, str]:
    taken = {name.lower() for footer in footers for name in footer.types}
    position = next(name for number in count() if (name := f"position{number}") not in taken)
    parts = []
    for file, footer, base in zip(files, footers, bases, strict=True):
        scan, numbers = numbered_scan(file, list(footer.types))
        columns = "".join(f"t.{number} AS {column(name)}, " for name, number in numbers.items())
        parts.append(f"SELECT {columns}(t.file_row_number + {base}) AS {position} FROM {scan}")
    return f"({' UNION ALL BY NAME '.join(parts)})", position


@contextmanager
def open_duckdb(spill: Path) -> Iterator[DuckDBPyConnection]:
    """A connection with a memory limit, which spills inside the home. Raises StoreError if the disk fails."""
    import duckdb

    connection = connect_duckdb(spill)
    try:
        yield connection
    except duckdb.IOException as error:
        reason = "the disk is full" if "No space left" in str(error) else str(error).splitlines()[0]
        raise StoreError(f"cannot write to the home: {reason}", hint="it spills to " + str(spill)) from error
    except duckdb.OutOfMemoryException as error:
        raise StoreError(
            "DuckDB needs more memory than it is allowed", hint=f"raise it: {MEMORY_VARIABLE}=4GB"
        ) from error
    finally:
        connection.close()


def duckdb_config(spill: Path) -> dict[str, str]:
    return {
        "memory_limit": os.environ.get(MEMORY_VARIABLE, DEFAULT_MEMORY),
        "temp_directory": str(spill),
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # DuckDB 2.0 fails with an internal error where it fetches columns late by a virtual column such as
        # file_row_number: ORDER BY with LIMIT over some rows of a file.
        "disabled_optimizers": "late_materialization",
    }


def connect_duckdb(spill: Path) -> DuckDBPyConnection:
    import duckdb

    try:
        connection = duckdb.connect(":memory:", config=dict(duckdb_config(spill)))
        connection.execute("SET GLOBAL parquet_metadata_cache = true")  # also of its cursors
        return connection
    except duckdb.Error as error:
        raise StoreError(f"DuckDB could not be opened: {str(error).splitlines()[0]}") from None
