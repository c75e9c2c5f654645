"""A question that runs: its rows as they come, within a time and a number of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import QuestionError
from lineage_service.query.session import BATCH, stopped_after

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from lineage_service.query.answer import Part

SECONDS = 60.0
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Limits:
    """How long a question may take, and how many rows it may give."""

    seconds: float = SECONDS
    rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise QuestionError("a time limit is more than 0 seconds")
        if self.rows < 0:
            raise QuestionError("a limit cannot be negative")


@dataclass(frozen=True)
class Running:
    """One SQL text on a guarded engine. `most` rows are given; those that follow, up to the limit, are counted."""

    connection: DuckDBPyConnection
    sql: str
    limits: Limits
    most: int
    home: Path

    def start(self) -> tuple[pa.RecordBatchReader, float, DuckDBPyConnection]:
        """Its rows, what is left of its time, and the cursor that they come from."""
        cursor = self.connection.cursor()
        began = time.monotonic()
        with stopped_after(cursor, self.limits.seconds, self.home):
            asked = cursor.sql(self.sql)
            huge = [place for place, kind in enumerate(asked.types) if str(kind) == "HUGEINT"]
            reader = asked.to_arrow_reader(BATCH)
            if huge:
                reader = self._narrowed(reader, huge)
        return reader, self.limits.seconds - (time.monotonic() - began), cursor

    def _narrowed(self, reader: pa.RecordBatchReader, huge: Sequence[int]) -> pa.RecordBatchReader:
        """Sums of whole numbers have 128 bits in DuckDB, which Arrow has as decimals: as whole numbers where they fit.

        That is known when all of them are there.
        """
        import pyarrow as pa

        batches, rows = [], 0
        for batch in reader:
            batches.append(batch)
            rows += batch.num_rows
            if rows > self.limits.rows:
                break
        table = pa.Table.from_batches(batches, reader.schema)
        for place in huge:
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, table.schema[place].name, table.column(place).cast(pa.int64()))
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(BATCH))

    def read(
        self, reader: pa.RecordBatchReader, seconds: float, cursor: DuckDBPyConnection, part: Part, notes: list[str]
    ) -> pa.RecordBatchReader:
        """The rows up to the limit; `part` and `notes` then say what was cut off. Only the engine's time counts."""
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            given, left = 0, seconds
            while given <= self.limits.rows:
                began = time.monotonic()
                with stopped_after(cursor, max(left, 0.001), self.home):
                    batch = next(reader, None)
                left -= time.monotonic() - began
                if batch is None:
                    part.remaining = max(0, given - self.most) if self.most < self.limits.rows else 0
                    return
                if given < self.most:
                    yield batch.slice(0, min(self.most - given, batch.num_rows))
                given += batch.num_rows
            part.remaining = max(0, self.limits.rows - self.most)
            told = f"the answer was cut after {self.limits.rows:,} rows; there are more"
            if told not in notes:
                notes.append(told)

        names = apart(reader.schema.names)
        schema = pa.schema([each.with_name(name) for each, name in zip(reader.schema, names, strict=True)])
        renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches())
        return pa.RecordBatchReader.from_batches(schema, renamed)


def apart(names: Sequence[str]) -> list[str]:
    """Columns of the same name are told apart as DuckDB does: x, x_1, x_2."""
    taken, found = {name.lower() for name in names}, list[str]()
    seen: set[str] = set()
    for name in names:
        number, own = 0, name
        while own.lower() in seen or (number and own.lower() in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own.lower())
        found.append(own)
    return found
