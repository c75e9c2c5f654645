"""Writes answers as table, JSON, NDJSON, CSV or Parquet.

All formats are streamed batch by batch, except tables on a terminal, whose column widths depend on all rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lineage_cli.messages import tell
from lineage_cli.output_stream import OutputStream, open_output
from lineage_cli.progress import waiting_line
from lineage_cli.tables import LONGEST_CELL, Column, write_table
from lineage_service.render.column_text import plain_text
from lineage_service.render.rows.printed_columns import (
    CHUNK,
    column_names,
    has_uniform_columns,
    is_single_count,
    record_batches,
    refuse_mixed_columns,
    single_count,
)
from lineage_service.render.value_text import MASK

if TYPE_CHECKING:
    from lineage_cli.options import Output
    from lineage_service.query.answer import Answer, AnswerPart


def write_answer(answer: Answer, output: Output, more: str = "--limit") -> None:
    """Writes the answer to its file or to standard output, and notes about it to standard error."""
    refuse_mixed_columns(answer, output.format)
    patience = waiting_line(f"writing {output.out}") if output.out is not None else contextlib.nullcontext()
    with patience, open_output(output.out) as stream:
        count = _write_rows(answer, output, stream)
    if output.out is not None:
        tell(f"wrote {count:,} {'row' if count == 1 else 'rows'} to {output.out}")
    print_notes(answer, more)


def print_notes(answer: Answer, more: str = "--limit") -> None:
    """Prints notes and the number of rows cut off to standard error; `more` is the option that shows more rows."""
    for part in answer.parts:
        if part.remaining:
            rows = "row" if part.remaining == 1 else "rows"
            of = f" of {part.dataset}" if part.dataset else ""
            tell(f"… and {part.remaining:,} more {rows}{of}; use {more} to see more")
    for note in answer.notes:
        tell(f"note: {note}")


def _write_rows(answer: Answer, output: Output, stream: OutputStream) -> int:
    """Writes the rows in the format asked for and returns their number."""
    match output.format:
        case "json":
            from lineage_service.render.rows.json_rows import json_rows

            return _write_chunks(json_rows(answer), stream)
        case "ndjson":
            from lineage_service.render.rows.json_rows import ndjson_rows

            return _write_chunks(ndjson_rows(answer), stream)
        case "csv":
            from lineage_service.render.rows.csv_rows import csv_rows

            return _write_chunks(csv_rows(answer), stream)
        case "parquet":
            from lineage_service.render.rows.parquet_rows import write_parquet

            return write_parquet(answer, stream)
        case _:
            return _write_tables(answer, stream, terminal=output.on_terminal)


def _write_chunks(chunks: Generator[bytes | memoryview, None, int], stream: OutputStream) -> int:
    """Writes the chunks and returns what the generator returns: the number of rows."""
    while True:
        try:
            stream.write(next(chunks))
        except StopIteration as end:
            return int(end.value)


def _write_tables(answer: Answer, stream: OutputStream, *, terminal: bool) -> int:
    """Writes one table if all datasets have the same columns, else one per dataset. A single count is the number."""
    if is_single_count(answer):
        stream.write_text(f"{single_count(answer)}\n")
        return 1
    groups = [answer.parts] if has_uniform_columns(answer.parts) else [[part] for part in answer.parts]
    count = 0
    for number, parts in enumerate(groups):
        if number:
            stream.write_text("\n")
        count += _write_one_table(parts, stream, terminal=terminal)
    return count


def _write_one_table(parts: Sequence[AnswerPart], stream: OutputStream, *, terminal: bool) -> int:
    if not parts:
        return 0
    batches = ((batch, _masked_positions(part)) for part in parts for batch in record_batches(part))
    first = next(batches, None)
    kinds = first[0].schema.types if first is not None else [pa.null()] * len(column_names(parts[0]))
    columns = [Column(name, _is_number(kind)) for name, kind in zip(column_names(parts[0]), kinds, strict=True)]

    def rows() -> Iterator[tuple[str | None, ...]]:
        found = first
        while found is not None:
            batch, masked = found
            for start in range(0, batch.num_rows, CHUNK):
                chunk = batch.slice(start, CHUNK)
                cells = [
                    [MASK] * chunk.num_rows if place in masked else plain_text(column).to_pylist()
                    for place, column in enumerate(chunk.columns)
                ]
                yield from zip(*cells, strict=True)
            found = next(batches, None)

    return write_table(columns, rows(), stream, terminal=terminal, longest=LONGEST_CELL)


def _masked_positions(part: AnswerPart) -> set[int]:
    """Returns the positions of masked columns, as printed. A mask must not look like a null of the data."""
    first = 0 if part.dataset is None else 1
    return {place + first for place, name in enumerate(part.columns) if name in part.masked}


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
