"""Runs user-written SQL in a DuckDB in a separate process, which can read only named files and is limited in time and
memory.

The process is reused between questions as long as it is allowed to read the files they need, because starting one takes
longer than most questions. If a question terminates the process, the next question starts a new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.bounded.limits import ROW, SPILL, TIMEOUT_VARIABLE, allowance, format_bytes, time_limit
from lineage_service.bounded.process import (
    ChildClient,
    ChildClosed,
    ChildDied,
    ChildError,
    TookTooLong,
    serialize_batches,
)
from lineage_service.errors import QuestionError
from lineage_service.query.query_engine import held_name, out_of_memory_error, translate_duckdb_errors
from lineage_service.store.duckdb_engine import (
    MEMORY_VARIABLE,
    duckdb_config,
    literal,
    memory_limit,
    unverified_file_literal,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.bounded.reply import Reply

BATCH = 2_048  # rows per batch, DuckDB's vector size; larger batches of wide rows would take too much memory
EVERYTHING = 2**62  # rows


class Budget:
    """The time limit of one question, which may consist of several requests to the engine; and the hint how to raise
    it.
    """

    def __init__(self, seconds: float, hint: str) -> None:
        self.seconds = self.left = seconds
        self.hint = hint

    def timeout_error(self) -> QuestionError:
        return QuestionError(f"the question took longer than {self.seconds:g} s and was stopped", hint=self.hint)


class _CurrentBudget(threading.local):
    """The budget of this thread's current question."""

    budget: Budget | None = None


@dataclass
class Session:
    """The guarded engine of a home."""

    spill: Path
    _bounded: ChildClient = field(default_factory=ChildClient)
    _opened: int = 0  # process generation in which the engine was opened
    _epoch: int = 0
    _paths: set[str] = field(default_factory=set)
    _tables: int = 0
    _held: set[str] = field(default_factory=set)
    _unused: list[str] = field(default_factory=list)
    _now: _CurrentBudget = field(default_factory=_CurrentBudget)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def within(self, seconds: float | None = None, hint: str | None = None) -> Iterator[Budget]:
        """Limits the total time of all requests inside the block. An enclosing budget applies unless `seconds` is
        given.
        """
        if self._now.budget is not None and seconds is None:
            yield self._now.budget
            return
        limit = time_limit() if seconds is None else seconds
        before = self._now.budget
        self._now.budget = Budget(limit, hint or f"raise it: {TIMEOUT_VARIABLE}={_larger_limit(limit)}")
        try:
            yield self._now.budget
        finally:
            self._now.budget = before

    @property
    def epoch(self) -> int:
        """A number that changes with each start of the engine. Tables created in an earlier epoch no longer exist."""
        return self._epoch

    @property
    def pid(self) -> int | None:
        """The id of the current process."""
        return self._bounded.pid

    def allow(self, paths: Sequence[str]) -> None:
        """Allows questions to read these files. If this requires a new engine, tables kept for earlier questions are
        dropped.
        """
        with self._lock:
            if not self._paths.issuperset(paths):
                self._paths.update(paths)
                self._opened = 0
            self._ensure_engine()

    def held_table(self, query: str) -> str:
        """The name of a table with the (few) rows of a query. The table is created on first use."""
        name = held_name(query)
        with self._lock:
            self._ensure_engine()
            if name not in self._held:
                self.run(f"CREATE TABLE {name} AS {query}")
                self._held.add(name)
        return name

    def new_name(self) -> str:
        """A new table name, qualified by catalog and schema so that no common table expression of a question can shadow
        it.
        """
        self._tables += 1
        return f"memory.main.ids{self._tables}"

    def keep(self, name: str, ids: pa.Array | pa.RecordBatchReader) -> None:
        """Creates a table of ids in column b."""
        import pyarrow as pa

        if isinstance(ids, pa.RecordBatchReader):
            batches: Iterable[pa.RecordBatch] = ids
        else:
            batches = [pa.record_batch({"b": ids})]
        rows = serialize_batches(batches, pa.schema([("b", pa.int64())]), 1_000_000)
        with self._asking() as budget:
            self._bounded.ask({"do": "keep", "name": name}, budget.seconds, rows)

    def drop(self, names: Sequence[str]) -> None:
        """Marks tables as unused. They are dropped before the next request."""
        self._unused += names

    def run(self, statement: str) -> None:
        self._values("run", statement, ())

    def values(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, for few rows of plain values."""
        return [tuple(row) for row in self._values("values", query, parameters) or ()]

    def _values(self, verb: str, query: str, parameters: Sequence[Any]) -> list[list[Any]] | None:
        asked = {"do": verb, "sql": query, "parameters": list(parameters)}
        with self._asking() as budget, _spending(budget):
            return self._bounded.ask(asked, max(budget.left, 0.001))

    def rows(
        self, query: str, parameters: Sequence[Any] = (), *, most: int = EVERYTHING, batch: int = BATCH
    ) -> RowStream:
        """Streams a query's rows in batches. Fetches at least one row more than `most`, so that a cut-off is
        detected.
        """
        memory = memory_limit()
        asked = {
            "do": "rows", "sql": query, "parameters": list(parameters), "rows": most, "batch": batch,
            "bytes": SPILL * memory, "value": max(memory // ROW, 1_000_000),
        }  # fmt: skip
        with self._asking() as budget, _spending(budget):
            reply = self._bounded.rows(asked, max(budget.left, 0.001))
        reply.spill = self.spill
        return RowStream(reply, budget, self.spill.parent)

    def id_array(self, query: str, parameters: Sequence[Any] = ()) -> pa.Array:
        """One column of ids as an Arrow array."""
        import pyarrow as pa

        found = self.rows(query, parameters).table().column(0)
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.int64())

    def few_ids(self, query: str, parameters: Sequence[Any] = ()) -> pa.Array:
        """One column of a few ids, in order. For few values this is cheaper than a transfer as Arrow."""
        import pyarrow as pa

        return pa.array(sorted(row[0] for row in self.values(query, parameters)), pa.int64())

    def take_rest(self) -> None:
        """Reads answers that are still streaming into memory, so that they survive the end of this process."""
        with self._lock:
            self._bounded.take_rest()

    def close(self) -> None:
        with self._lock:
            self._bounded.release()
            self._remove_spilled()
            self._opened = 0
            self._paths.clear()
            self._held.clear()
            self._unused.clear()

    # --- the engine -------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Budget]:
        """Context of a request: opens the engine if needed and translates errors."""
        with (
            self._lock,
            self.within() as budget,
            translate_duckdb_errors(self.spill.parent),
            translate_process_errors(budget),
        ):
            self._ensure_engine()
            yield budget

    def _ensure_engine(self) -> None:
        """Opens the engine if needed and drops unused tables."""
        if self._opened and self._opened == self._bounded.generation:
            self._bounded.ensure()
        if not self._opened or self._opened != self._bounded.generation:
            self._open()
        while self._unused:
            self._bounded.ask({"do": "run", "sql": f"DROP TABLE IF EXISTS {self._unused.pop()}", "parameters": []}, 60)

    def _open(self) -> None:
        memory = memory_limit()
        self._bounded.ensure(allowance(memory))
        self._remove_spilled()
        self._held.clear()
        self._unused.clear()
        self._epoch += 1
        spilled = self._spill_folder
        with suppress(OSError):  # questions must also work on a home that is read-only
            self.spill.mkdir(parents=True, exist_ok=True)
        # Both spellings: the file name, and the name escaped for a scan so that it is not a glob.
        allowed = ", ".join(each(path) for path in sorted(self._paths) for each in (literal, unverified_file_literal))
        setup = [
            "SET GLOBAL parquet_metadata_cache = true",
            "SET GLOBAL TimeZone = 'UTC'",
            f"SET GLOBAL max_temp_directory_size = '{SPILL * memory}B'",
            f"SET allowed_paths = [{allowed}]",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ]
        asked = {"do": "open", "config": duckdb_config(spilled), "setup": setup, "allowance": allowance(memory)}
        with translate_duckdb_errors(self.spill.parent), translate_process_errors(Budget(time_limit(), "")):
            self._bounded.ask(asked, 60)
        self._opened = self._bounded.generation

    @property
    def _spill_folder(self) -> Path:
        """The folder that the process spills to. It belongs to this process and is removed with it."""
        return self.spill / f"asked-{os.getpid()}-{id(self):x}-{self._bounded.generation}"

    def _remove_spilled(self) -> None:
        import shutil

        for folder in self.spill.glob(f"asked-{os.getpid()}-{id(self):x}-*"):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class RowStream:
    """Rows streamed from the guarded engine. They can be read once."""

    reply: Reply
    budget: Budget
    home: Path

    @property
    def schema(self) -> pa.Schema:
        return self.reply.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        found = self.reply.batches()
        while True:
            with translate_duckdb_errors(self.home), translate_process_errors(self.budget):
                batch = next(found, None)
            if batch is None:
                return
            yield batch

    def table(self) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)

    def reader(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


def _larger_limit(seconds: float) -> str:
    return f"{seconds * 5:g}"


@contextmanager
def _spending(budget: Budget) -> Iterator[None]:
    import time

    began = time.monotonic()
    try:
        yield
    finally:
        budget.left -= time.monotonic() - began


@contextmanager
def translate_process_errors(budget: Budget) -> Iterator[None]:
    """Translates the ways in which the process can fail into errors for the user, or into the original DuckDB error."""
    try:
        yield
    except TookTooLong:
        raise budget.timeout_error() from None
    except ChildClosed:
        raise QuestionError("the answer was not read before its home was closed", hint="ask again") from None
    except ChildDied as error:
        if error.memory:
            raise out_of_memory_error() from None
        raise QuestionError(
            "the question ended the engine: it is nested too deeply, or too large", hint="ask for less at once"
        ) from None
    except ChildError as error:
        if error.kind == "AnswerTooLarge":
            raise _too_large(error.text) from None
        if error.kind == "RecursionError":
            raise QuestionError("the question is nested too deeply") from None
        raise _duckdb_error(error) from None


def _too_large(text: str) -> QuestionError:
    what, _, size = text.partition(" ")
    if what == "row":
        return QuestionError(
            f"one row of the answer is larger than {format_bytes(int(size))}",
            hint="show a part of it: left(…), or list[1:9]",
        )
    return QuestionError(
        f"the answer is larger than {format_bytes(int(size))}",
        hint=f"ask for fewer rows or columns, or raise {MEMORY_VARIABLE}",
    )


def _duckdb_error(error: ChildError) -> Exception:
    import duckdb

    kind = getattr(duckdb, error.kind, None)
    if isinstance(kind, type) and issubclass(kind, duckdb.Error):
        return kind(error.text)
    # The error text may quote data.
    return QuestionError(f"the question cannot be answered ({error.kind})")
