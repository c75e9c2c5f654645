"""Rows as one Parquet file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lineage_service.errors import QuestionError
from lineage_service.render.column_text import plain_text
from lineage_service.render.rows.printed_columns import column_names, record_batches

if TYPE_CHECKING:
    from lineage_service.query.answer import Answer

ROW_GROUP = 122_880  # rows of a row group, as DuckDB makes them


def write_parquet(answer: Answer, stream: Any) -> int:
    """Writes the file to a binary stream and returns the number of rows."""
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for table in _row_groups(answer):
            with _parquet_errors():
                if writer is None:
                    writer = pq.ParquetWriter(stream, table.schema)
                writer.write_table(table.cast(writer.schema))
            count += table.num_rows
        if writer is not None:
            writer.close()
    finally:
        if writer is not None and writer.is_open:
            with contextlib.suppress(Exception):  # the first error is the one to report
                writer.close()
    return count


@contextlib.contextmanager
def _parquet_errors() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise QuestionError(
            "Parquet cannot hold the columns of this answer together; formats that can: table, json, ndjson, csv",
            hint="ask for one dataset, or leave columns out with --columns",
        ) from error


def _without_intervals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with intervals as text, because Parquet has no type for DuckDB's."""
    if not any(pa.types.is_interval(each) for each in batch.schema.types):
        return batch
    columns = [plain_text(each) if pa.types.is_interval(each.type) else each for each in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _row_groups(answer: Answer) -> Iterator[pa.Table]:
    """Yields tables of the size of a row group. An answer without rows gives one empty table, for its columns."""
    held: list[pa.RecordBatch] = []
    rows, given = 0, False
    for part in answer.parts:
        for batch in record_batches(part):
            with _parquet_errors():
                held.append(_without_intervals(batch).cast(held[0].schema) if held else _without_intervals(batch))
            rows += batch.num_rows
            if rows >= ROW_GROUP:
                yield pa.Table.from_batches(held)
                held, rows, given = [], 0, True
    if held:
        yield pa.Table.from_batches(held)
    elif not given:
        names = column_names(answer.parts[0]) if answer.parts else []
        yield pa.table({name: pa.nulls(0) for name in names})
