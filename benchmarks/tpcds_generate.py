"""Writes the tables of TPC-DS as Parquet: run by the Python of an environment that has DuckDB's extension for it."""

import importlib.util
import sys
from pathlib import Path

import duckdb


def main(scale: str, folder: Path) -> None:
    package = importlib.util.find_spec("duckdb_extension_tpcds")
    assert package is not None and package.submodule_search_locations is not None
    (extension,) = Path(package.submodule_search_locations[0]).rglob("tpcds.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dsdgen(sf = {float(scale)})")
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
