"""Limits of a running question: streams its rows within a time limit and a row limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.bounded.limits import MOST_SECONDS, time_limit
from lineage_service.errors import QuestionError

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.query.answer import AnswerPart
    from lineage_service.query.guarded_session import RowStream

MOST_ROWS = 1_000_000
HINT = "--timeout allows more"


@dataclass(frozen=True)
class Limits:
    """The time limit and the row limit of a question."""

    seconds: float
    rows: int = MOST_ROWS

    @classmethod
    def of(cls, seconds: float | None, rows: int | None) -> Limits:
        """The given limits, otherwise the defaults."""
        return cls(time_limit() if seconds is None else seconds, MOST_ROWS if rows is None else rows)

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MOST_SECONDS:
            raise QuestionError(f"a time limit is more than 0 seconds, and at most {MOST_SECONDS:,} (a year)")
        if self.rows < 0:
            raise QuestionError("a limit cannot be negative")


def limit_rows(rows: RowStream, limits: Limits, most: int, part: AnswerPart, notes: list[str]) -> pa.RecordBatchReader:
    """The first `most` rows. Further rows, up to the limit, are only counted. `part` and `notes` report what was cut
    off.
    """
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        given = 0
        for batch in rows.batches():
            if given < most:
                yield batch.slice(0, min(most - given, batch.num_rows))
            given += batch.num_rows
            if given > limits.rows:
                break
        else:
            part.remaining = max(0, given - most) if most < limits.rows else 0
            return
        part.remaining = max(0, limits.rows - most)
        note = f"the answer was cut after {limits.rows:,} rows; there are more"
        if note not in notes:
            notes.append(note)

    names = unique_column_names(rows.schema.names)
    schema = pa.schema([each.with_name(name) for each, name in zip(rows.schema, names, strict=True)])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches())
    return pa.RecordBatchReader.from_batches(schema, renamed)


def unique_column_names(names: Sequence[str]) -> list[str]:
    """Makes repeated column names unique as DuckDB does: x, x_1, x_2."""
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
