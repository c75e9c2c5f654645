"""Where users' SQL runs: a DuckDB of its own that reads named files and nothing else, within limits.

It is kept from question to question as long as the files it may read are enough: opening one takes longer than most
questions do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.errors import QuestionError
from lineage_service.query.engine import translated
from lineage_service.query.watch import WATCH
from lineage_service.store.engine import connect_duckdb, file_literal, literal, memory_limit

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

SPILL = 4  # times the memory limit: what a question may spill to disk
BATCH = 65_536
PLACE = "memory.main"  # where tables of ours are


@dataclass
class Session:
    """The guarded engine of a home."""

    spill: Path
    _connection: DuckDBPyConnection | None = None
    _paths: set[str] = field(default_factory=set)
    _tables: int = 0
    _held: set[str] = field(default_factory=set)

    def allow(self, paths: Sequence[str]) -> None:
        """Lets questions read these files. What was kept for earlier questions goes where a new engine is needed."""
        if self._connection is not None and self._paths.issuperset(paths):
            return
        self._paths.update(paths)
        # Questions whose rows are still being read hold cursors of the old one, which lives as long as they do.
        self._connection = _guarded(self.spill, sorted(self._paths))
        self._held.clear()

    def held(self, query: str) -> str:
        """The name of a table of a query's rows, which are few; made when it is first asked for."""
        name = held_name(query)
        if name not in self._held:
            self.connection.execute(f"CREATE TABLE {name} AS {query}")
            self._held.add(name)
        return name

    @property
    def connection(self) -> DuckDBPyConnection:
        if self._connection is None:
            self.allow(())
        assert self._connection is not None
        return self._connection

    def new_name(self) -> str:
        """A name for a table; with catalog and schema, so that no common table of a question can stand before it."""
        self._tables += 1
        return f"{PLACE}.ids{self._tables}"

    def keep(self, name: str, ids: pa.Array) -> None:
        """A table of ids, column b."""
        import pyarrow as pa

        connection, view = self.connection, f"{name.rpartition('.')[2]}_rows"
        connection.register(view, pa.table({"b": ids}))
        connection.execute(f"CREATE TABLE {name} AS SELECT b FROM {view}")
        connection.unregister(view)

    def drop(self, names: Sequence[str]) -> None:
        if self._connection is not None:
            for name in names:
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    def few_ids(self, cursor: DuckDBPyConnection, query: str, parameters: Sequence[Any] = ()) -> pa.Array:
        """One column of ids that are few, in order: row by row takes less than the way over Arrow."""
        import pyarrow as pa

        rows = cursor.execute(query, list(parameters)).fetchall()
        return pa.array(sorted(row[0] for row in rows), pa.int64())

    def id_array(self, cursor: DuckDBPyConnection, query: str, parameters: Sequence[Any] = ()) -> pa.Array:
        """One column of ids as an Arrow array."""
        import pyarrow as pa

        found = cursor.sql(query, params=list(parameters)).to_arrow_table().column(0)
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.int64())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._paths.clear()
        self._held.clear()

    @contextmanager
    def timed(self, seconds: float) -> Iterator[DuckDBPyConnection]:
        """A cursor that is interrupted after so long."""
        cursor = self.connection.cursor()
        with stopped_after(cursor, seconds, self.spill.parent):
            yield cursor


def held_name(query: str) -> str:
    """The name of the table that holds a query's rows; the same in every engine."""
    return f"{PLACE}.held_{hashlib.sha256(query.encode()).hexdigest()[:16]}"


@contextmanager
def stopped_after(cursor: DuckDBPyConnection, seconds: float, home: Path) -> Iterator[None]:
    import duckdb

    over: list[bool] = []

    def stop() -> None:
        over.append(True)
        cursor.interrupt()

    with WATCH.calling(stop, seconds), translated(home):
        try:
            yield
        except (duckdb.InterruptException, RuntimeError, OSError) as error:
            if not over:
                raise
            raise QuestionError(
                f"the question took longer than {seconds:g} s and was stopped", hint="--timeout allows more"
            ) from error


def _guarded(spill: Path, paths: Sequence[str]) -> Any:
    connection = connect_duckdb(spill)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET GLOBAL max_temp_directory_size = '{SPILL * memory_limit()}B'")
    # Under both spellings: as the file is called, and as a scan must spell it so that it is no glob.
    allowed = ", ".join(spelled(path) for path in paths for spelled in (literal, file_literal))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
