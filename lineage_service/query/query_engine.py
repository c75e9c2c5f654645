"""The DuckDB connection of questions. User-written SQL runs in another process, see guarded_session.py."""

from __future__ import annotations

import hashlib
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.bounded.limits import TIMEOUT_VARIABLE, format_bytes, time_limit
from lineage_service.bounded.watchdog import WATCH
from lineage_service.errors import QuestionError, StoreError, did_you_mean
from lineage_service.settings import command
from lineage_service.store.duckdb_engine import MEMORY_VARIABLE, connect_duckdb, memory_limit

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from lineage_service.store.version_patcher import Ids

# DuckDB's messages for invalid text and for a file that is not Parquet.
_NO_TEXT = re.compile("Invalid string encoding|UTF-?8", re.IGNORECASE)
_NO_PARQUET = re.compile("magic bytes|too small to be a Parquet|not a Parquet|Parquet file|Footer length")


class QueryEngine:
    """One DuckDB connection that stays open. Each result streams from its own cursor."""

    def __init__(self, spill: Path) -> None:
        self.spill = spill
        self._connection: DuckDBPyConnection | None = None
        self._tables = 0
        self._cursor: DuckDBPyConnection | None = None
        self._reading: Callable[[], object] = lambda: None
        self._held: set[str] = set()

    @property
    def connection(self) -> DuckDBPyConnection:
        if self._connection is None:
            self._connection = connect_duckdb(self.spill)
            self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    def stream(self, query: str, parameters: Sequence[Any] = ()) -> pa.RecordBatchReader:
        """Streams a query's rows. A cursor is reused when the rows that it returned are no longer referenced."""
        with translate_duckdb_errors(self.spill.parent):
            if self._cursor is None or self._reading() is not None:
                self._cursor = self.connection.cursor()
                self._cursor.execute("SET TimeZone = 'UTC'")  # must be set on each cursor
            reader = self._cursor.sql(query, params=list(parameters)).to_arrow_reader(65_536)
        self._reading = weakref.ref(reader)
        return reader

    def scalar(self, query: str, parameters: Sequence[Any] = ()) -> int:
        with translate_duckdb_errors(self.spill.parent):
            rows = self.connection.execute(query, list(parameters)).fetchall()
        return int(rows[0][0]) if rows and rows[0][0] is not None else 0

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, for few rows."""
        with translate_duckdb_errors(self.spill.parent):
            return [tuple(row) for row in self.connection.execute(query, list(parameters)).fetchall()]

    def text(self, query: str, parameters: Sequence[Any] = ()) -> str:
        """The single text that a query returns."""
        with translate_duckdb_errors(self.spill.parent):
            rows = self.connection.execute(query, list(parameters)).fetchall()
        return str(rows[0][0])

    def ids(self, query: str, parameters: Sequence[Any] = ()) -> list[int]:
        with translate_duckdb_errors(self.spill.parent):
            rows = self.connection.execute(query, list(parameters)).fetchall()
        return [row[0] for row in rows]

    def keep(self, query: str, parameters: Sequence[Any] = ()) -> str:
        """Stores a query's rows in a temporary table and returns its name."""
        self._tables += 1
        name = f"kept{self._tables}"
        with translate_duckdb_errors(self.spill.parent):
            self.connection.execute(f"CREATE TABLE {name} AS {query}", list(parameters))
        return name

    def keep_ids(self, ids: pa.Array) -> str:
        """Stores ids in a temporary table, column b."""
        import pyarrow as pa

        self._tables += 1
        table = f"kept{self._tables}"
        with translate_duckdb_errors(self.spill.parent):
            self.connection.register(f"{table}_rows", pa.table({"b": ids}))
            self.connection.execute(f"CREATE TABLE {table} AS SELECT b FROM {table}_rows")
            self.connection.unregister(f"{table}_rows")
        return table

    def id_array(self, query: str, parameters: Sequence[Any] = ()) -> pa.Array:
        """One column of ids as an Arrow array."""
        import pyarrow as pa

        with translate_duckdb_errors(self.spill.parent):
            found = self.connection.sql(query, params=list(parameters)).to_arrow_table().column(0)
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.int64())

    def arrays(self, query: str, columns: int) -> list[Ids]:
        """The columns of a query as NumPy arrays. All must be integers."""
        import numpy as np

        table = self.stream(query).read_all()
        if not table.num_rows:
            return [np.array([], np.int64) for _ in range(columns)]
        return [np.asarray(each.to_numpy(zero_copy_only=False), np.int64) for each in table.columns]

    def keep_rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        """Stores rows from another source in a temporary table."""
        import pyarrow as pa

        self._tables += 1
        table = f"kept{self._tables}"
        self._add(f"CREATE TABLE {table} AS", schema.empty_table())
        for batch in batches:  # iterated here, so that errors of the batches are raised unchanged
            self._add(f"INSERT INTO {table}", pa.Table.from_batches([batch]))
        return table

    def _add(self, how: str, rows: pa.Table) -> None:
        with translate_duckdb_errors(self.spill.parent):
            self.connection.register("rows_given", rows)
            self.connection.execute(f"{how} SELECT * FROM rows_given")
            self.connection.unregister("rows_given")

    def held_table(self, query: str) -> str:
        """The name of a table with the (few) rows of a query. The table is created on first use."""
        name = held_name(query)
        if name not in self._held:
            with translate_duckdb_errors(self.spill.parent):
                self.connection.execute(f"CREATE TABLE {name} AS {query}")
            self._held.add(name)
        return name

    def drop_held(self) -> None:
        while self._held:
            self.drop(self._held.pop())

    @contextmanager
    def within_time_limit(self) -> Iterator[None]:
        """Interrupts queries inside the block when the time limit of a question is exceeded."""
        import duckdb

        seconds, over = time_limit(), list[bool]()
        connection = self.connection

        def stop() -> None:
            over.append(True)
            connection.interrupt()

        with WATCH.deadline(stop, seconds):
            try:
                yield
            except (duckdb.InterruptException, RuntimeError, OSError) as error:
                if not over:
                    raise
                raise QuestionError(
                    f"the question took longer than {seconds:g} s and was stopped",
                    hint=f"raise it: {TIMEOUT_VARIABLE}={seconds * 5:g}",
                ) from error

    def drop(self, table: str) -> None:
        if self._connection is not None:
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")

    def types(self, query: str) -> dict[str, str]:
        with translate_duckdb_errors(self.spill.parent):
            return {row[0]: row[1] for row in self.connection.execute(f"DESCRIBE {query}").fetchall()}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = self._cursor = None
            self._held.clear()


def held_name(query: str) -> str:
    """The name of the table that holds a query's rows, the same in every engine. It is qualified by catalog and schema
    so that no common table expression of a question can shadow it.
    """
    return f"memory.main.held_{hashlib.sha256(query.encode()).hexdigest()[:16]}"


@contextmanager
def translate_duckdb_errors(home: Path) -> Iterator[None]:
    """Translates DuckDB's errors for the user. DuckDB's texts may quote data, so only the kind of error is reported."""
    import duckdb

    try:
        yield
    except duckdb.ConversionException:
        raise QuestionError(
            "a value cannot be converted to the type it is compared with", hint="cast it, or use try_cast"
        ) from None
    except duckdb.PermissionException:
        raise QuestionError("the question reads or changes what it must not") from None
    except duckdb.OutOfMemoryException:
        raise out_of_memory_error() from None
    except duckdb.IOException as error:
        raise _unreadable_file_error(str(error), home) from None
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
        raise _binding_error(str(error)) from None
    except (duckdb.OutOfRangeException, duckdb.InvalidInputException, duckdb.TypeMismatchException) as error:
        if _NO_TEXT.search(str(error)):
            raise QuestionError(
                "a text in the data is no valid UTF-8, which cannot be shown",
                hint="turn it into binary in the workflow, or ask for other columns",
            ) from None
        if _NO_PARQUET.search(str(error)):
            raise _unreadable_file_error(str(error), home) from None
        raise _invalid_value_error() from None
    except duckdb.Error as error:
        if isinstance(error, duckdb.InternalException | duckdb.InterruptException):
            raise
        if type(error) is not duckdb.Error:
            raise _invalid_value_error() from None
        # No specific error kind: the Parquet reader failed on a corrupt file.
        raise StoreError(f"a file of the home '{home}' is damaged", hint=_doctor_hint(home)) from error


def _invalid_value_error() -> QuestionError:
    """The error for an invalid value. It names neither function nor value, because DuckDB's text may quote data."""
    return QuestionError(
        "a function or operator of the question was given a value that it cannot take",
        hint="look at patterns, formats and ranges of numbers in it",
    )


def out_of_memory_error() -> QuestionError:
    memory = memory_limit()
    return QuestionError(
        f"the question needs more memory than allowed ({format_bytes(memory)})",
        hint=f"raise it: {MEMORY_VARIABLE}={format_bytes(4 * memory).replace(' ', '')}",
    )


_UNKNOWN_COLUMN = re.compile(r'Referenced column "(.*?)" (?:was )?not found')
_CANDIDATES = re.compile(r"^Candidate bindings: (.*)$", re.MULTILINE)


class UnknownColumn(QuestionError):
    """SQL that refers to an unknown column."""

    name = ""


def _binding_error(text: str) -> QuestionError:
    """The error for SQL that DuckDB cannot bind. Its text names columns, types and functions, but no data."""
    unknown = _UNKNOWN_COLUMN.search(text)
    if unknown is not None:
        found = _CANDIDATES.search(text)
        near = re.findall(r'"([^"]+)"', found[1]) if found else []
        known = f"; columns like it: {', '.join(near)}" if near else ""
        error = UnknownColumn(f"unknown column '{unknown[1]}'{known}", hint=did_you_mean(unknown[1], near))
        error.name = unknown[1]
        return error
    return reword_duckdb_error(text, "the question cannot be asked like this")


# DuckDB settings and extensions, which a question can neither change nor load.
_SETTING = re.compile(r"""\b(SET|PRAGMA|INSTALL|LOAD|ATTACH)\b ["'\w]""")
_EXTENSION = re.compile(r'^(.*?) with name "?(.*?)"? is not in the catalog, but it exists in the (\w+) extension')


def reword_duckdb_error(text: str, problem: str) -> QuestionError:
    """DuckDB's message for SQL that it cannot parse or bind, prefixed by `problem` and without advice that does not
    apply here.
    """
    if "expression depth limit" in text:
        return QuestionError(
            "the question is nested too deeply, or an expression has too many parts (at most about 1,000)",
            hint="many values are written as a list, `k IN (1, 2, 3)`, or as rows, `FROM (VALUES (1), (2)) AS t(k)`",
        )
    if "Pivot column limit" in text:
        return QuestionError("PIVOT would make too many columns", hint="name the values: PIVOT … ON k IN (1, 2, 3)")
    line = re.sub("^(Binder|Catalog|Parser|Syntax) Error: ", "", text.splitlines()[0])
    if (found := _EXTENSION.match(line)) is not None:
        kind, name, extension = found.groups()
        belongs = f"belongs to DuckDB's extension '{extension}', which smoke-lineage does not load"
        return QuestionError(f"{problem}: {kind.lower()} '{name}' {belongs}")
    first, *others = re.split(r"(?<=[.;]) +", line)
    return QuestionError(f"{problem}: {' '.join([first, *(each for each in others if not _SETTING.search(each))])}")


@contextmanager
def translate_index_errors(home: Path) -> Iterator[None]:
    """Translates errors of reading an index file without DuckDB."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise _unreadable_file_error(
            f"'{error.filename}'" if getattr(error, "filename", None) else str(error), home
        ) from None


def _unreadable_file_error(text: str, home: Path) -> StoreError:
    """The error for a missing or damaged file, with its name and a hint. Only the relevant part of DuckDB's text is
    kept.
    """
    line = text.splitlines()[0]
    quoted = re.search(r"""["'](/.*)["']""", line)
    if quoted is None:
        reason = line.removeprefix("IO Error: ")
        return StoreError(f"a file of the home '{home}' cannot be read: {reason}", hint=_doctor_hint(home))
    path = re.sub(r"\[([*?[])\]", r"\1", quoted[1])  # the name as escaped for a scan
    if not Path(path).is_relative_to(home):
        return StoreError(f"file '{path}' is missing or damaged", hint=_doctor_hint(home))
    inside = Path(path).relative_to(home)
    return StoreError(f"a file of the home '{home}' is missing or damaged: '{inside}'", hint=_doctor_hint(home))


def _doctor_hint(home: Path) -> str:
    return f"look closer: {command(home, 'doctor')}"
