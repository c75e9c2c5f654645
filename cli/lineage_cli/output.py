"""Answers as table, JSON, NDJSON, CSV or Parquet. All but tables on a terminal are streamed, batch by batch."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lineage_cli.messages import tell
from lineage_cli.progress import waiting_line
from lineage_cli.sink import Sink, open_sink
from lineage_cli.tables import LONGEST_CELL, MASK, Column, write_table
from lineage_cli.values import join_texts, json_document, json_text, plain_text

if TYPE_CHECKING:
    from lineage_cli.options import Output
    from lineage_service.query.answer import Answer, AnswerPart

CHUNK = 65_536  # rows turned into text at a time
ROW_GROUP = 122_880  # rows of a Parquet row group, as DuckDB makes them
DATASET = "dataset"


def write_answer(answer: Answer, output: Output, more: str = "--limit") -> None:
    """Writes the answer where it belongs; what is to be said beside it goes to standard error."""
    _refuse_mixed_columns(answer, output.format)
    patience = waiting_line(f"writing {output.out}") if output.out is not None else contextlib.nullcontext()
    with patience, open_sink(output.out) as sink:
        match output.format:
            case "json" if _is_one_object(answer):
                count = _write_object(answer, sink)
            case "json":
                count = _write_json(answer, sink)
            case "ndjson" if _is_one_object(answer):
                count = _write_object(answer, sink)
            case "ndjson":
                count = _write_ndjson(answer, sink)
            case "csv":
                count = _write_csv(answer, sink)
            case "parquet":
                count = _write_parquet(answer, sink)
            case _:
                count = _write_tables(answer, sink, terminal=output.on_terminal)
    if output.out is not None:
        tell(f"wrote {count:,} {'row' if count == 1 else 'rows'} to {output.out}")
    print_notes(answer, more)


def print_notes(answer: Answer, more: str = "--limit") -> None:
    """Notes, and how many rows were cut off, on standard error; `more` is the option that shows more of them."""
    for part in answer.parts:
        if part.remaining:
            rows = "row" if part.remaining == 1 else "rows"
            of = f" of {part.dataset}" if part.dataset else ""
            tell(f"… and {part.remaining:,} more {rows}{of}; use {more} to see more")
    for note in answer.notes:
        tell(f"note: {note}")


def _refuse_mixed_columns(answer: Answer, format_: str) -> None:
    if format_ in ("table", "json") or _has_uniform_columns(answer.parts):
        return
    from lineage_service.errors import QuestionError

    raise QuestionError(
        f"the datasets reached have unlike columns, which {format_} cannot hold; formats that can: table, json",
        hint="ask for one dataset with --to, for like columns with --columns, or for --rids, --pairs or --count",
    )


def _has_uniform_columns(parts: Sequence[AnswerPart]) -> bool:
    return len({tuple(part.columns) for part in parts}) <= 1


def _is_one_object(answer: Answer) -> bool:
    """A single count is one object; every other answer is a list."""
    return answer.kind == "count" and [_shown_columns(part) for part in answer.parts] == [["count"]]


def _shown_columns(part: AnswerPart) -> list[str]:
    """The columns as printed: `dataset` first where several were asked for."""
    if part.dataset is None:
        return list(part.columns)
    names = set(part.columns)
    return [DATASET, *(_unused_name(name, names) if name == DATASET else name for name in part.columns)]


def _unused_name(name: str, taken: set[str]) -> str:
    """A column that is itself called `dataset` steps aside, as DuckDB names it: `dataset_1`."""
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _batches(part: AnswerPart) -> Iterator[pa.RecordBatch]:
    """The part's rows in batches with the columns as printed."""
    names = _shown_columns(part)
    for batch in part.batches():
        columns = list(batch.columns)
        if part.dataset is not None:
            columns.insert(0, pa.repeat(part.dataset, batch.num_rows))
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _chunks(part: AnswerPart) -> Iterator[pa.RecordBatch]:
    for batch in _batches(part):
        for start in range(0, batch.num_rows, CHUNK):
            yield batch.slice(start, CHUNK)


def _write_json(answer: Answer, sink: Sink) -> int:
    """One array, an object a line."""
    count = 0
    for part in answer.parts:
        for chunk in _chunks(part):
            _write_texts(
                _objects(chunk, answer, before=",\n"), sink, skip=0 if count else 2, lead="" if count else "[\n"
            )
            count += chunk.num_rows
    sink.write_text("\n]\n" if count else "[]\n")
    return count


def _write_ndjson(answer: Answer, sink: Sink) -> int:
    count = 0
    for part in answer.parts:
        for chunk in _chunks(part):
            _write_texts(_objects(chunk, answer, after="\n"), sink)
            count += chunk.num_rows
    return count


def _objects(chunk: pa.RecordBatch, answer: Answer, *, before: str = "", after: str = "") -> pa.Array:
    """The rows as JSON objects, with text before or after each."""
    pieces: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(chunk.schema.names, chunk.columns, strict=True)):
        opening = ", " if number else f"{before}{{"
        pieces += [f"{opening}{json.dumps(name, ensure_ascii=False)}: ", json_text(column)]
    if answer.absence and answer.kind in ("count", "counts") and chunk.schema.names[0] == DATASET:
        pieces.append(_absence(chunk.column(0).to_pylist(), answer))
    return join_texts(*pieces, f"}}{after}")


def _absence(datasets: Sequence[str], answer: Answer) -> pa.Array:
    """`absence` in the object of each dataset that influences only by absence."""
    known = [part.dataset for part in answer.parts if part.dataset is not None] or datasets
    absent: set[str] = set()
    for name in answer.absence:
        meant = [each for each in known if each == name] or [each for each in known if each.endswith(f".{name}")]
        absent.update(meant if len(meant) == 1 else ())
    texts = [f', "absence": {json.dumps([name], ensure_ascii=False)}' if name in absent else "" for name in datasets]
    return pa.array(texts, pa.large_string())


def _write_object(answer: Answer, sink: Sink) -> int:
    content: dict[str, Any] = {"count": json_document(_single_count(answer))}
    if answer.absence:
        content["absence"] = list(answer.absence)
    sink.write_text(json.dumps(content, ensure_ascii=False) + "\n")
    return 1


def _single_count(answer: Answer) -> int:
    (part,) = answer.parts
    (value,) = (value for batch in _batches(part) for value in batch.column(0).to_pylist())
    return cast(int, value)


def _write_csv(answer: Answer, sink: Sink) -> int:
    """RFC 4180, with line ends as Unix has them. Null is nothing, an empty string is a pair of quotes."""
    if answer.parts:
        header = pa.array(_shown_columns(answer.parts[0]), pa.string())
        sink.write_text(",".join(_csv_text(header).to_pylist()) + "\n")
    count = 0
    for part in answer.parts:
        for chunk in _chunks(part):
            pieces: list[pa.Array | str] = []
            for column in chunk.columns:
                pieces += [_csv_text(column, alone=chunk.num_columns == 1), ","]
            _write_texts(join_texts(*pieces[:-1], "\n"), sink)
            count += chunk.num_rows
    return count


def _csv_text(column: pa.Array, *, alone: bool = False) -> pa.Array:
    text = plain_text(column)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        needs_quotes = pc.match_substring_regex(text, r'[",\r\n]|^$|^\s|\s$')
        if pc.any(needs_quotes).as_py():
            text = pc.if_else(needs_quotes, join_texts('"', pc.replace_substring(text, '"', '""'), '"'), text)
    # A line that is empty would be no record: a null that stands alone is written like an empty string.
    return pc.fill_null(text, '""' if alone else "")


def _write_texts(texts: pa.Array, sink: Sink, *, skip: int = 0, lead: str = "") -> None:
    """The texts one behind the other, straight from Arrow's memory, but for the first `skip` bytes."""
    if lead:
        sink.write_text(lead)
    _, ends, data = texts.buffers()
    if data is None:
        return
    first, last = (struct.unpack_from("=q", ends, 8 * (texts.offset + n))[0] for n in (0, len(texts)))
    sink.write(memoryview(data)[first + skip : last])


def _write_parquet(answer: Answer, sink: Sink) -> int:
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for table in _row_groups(answer):
            with _parquet_errors():
                if writer is None:
                    writer = pq.ParquetWriter(sink, table.schema)
                writer.write_table(table.cast(writer.schema))
            count += table.num_rows
        if writer is not None:
            writer.close()
    finally:
        if writer is not None and writer.is_open:
            with contextlib.suppress(Exception):  # something else failed before, and that is what gets reported
                writer.close()
    return count


@contextlib.contextmanager
def _parquet_errors() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
        from lineage_service.errors import QuestionError

        raise QuestionError(
            "Parquet cannot hold the columns of this answer together; formats that can: table, json, ndjson, csv",
            hint="ask for one dataset, or leave columns out with --columns",
        ) from error


def _row_groups(answer: Answer) -> Iterator[pa.Table]:
    """The rows in tables worth a row group; at least one, which may be empty, for its columns."""
    held: list[pa.RecordBatch] = []
    rows, given = 0, False
    for part in answer.parts:
        for batch in _batches(part):
            with _parquet_errors():
                held.append(batch.cast(held[0].schema) if held else batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP:
                yield pa.Table.from_batches(held)
                held, rows, given = [], 0, True
    if held:
        yield pa.Table.from_batches(held)
    elif not given:
        names = _shown_columns(answer.parts[0]) if answer.parts else []
        yield pa.table({name: pa.nulls(0) for name in names})


def _write_tables(answer: Answer, sink: Sink, *, terminal: bool) -> int:
    """One table where the columns are alike, else one per dataset. A single count is just the number."""
    if _is_one_object(answer):
        sink.write_text(f"{_single_count(answer)}\n")
        return 1
    groups = [answer.parts] if _has_uniform_columns(answer.parts) else [[part] for part in answer.parts]
    count = 0
    for number, parts in enumerate(groups):
        if number:
            sink.write_text("\n")
        count += _write_one_table(parts, sink, terminal=terminal)
    return count


def _write_one_table(parts: Sequence[AnswerPart], sink: Sink, *, terminal: bool) -> int:
    if not parts:
        return 0
    batches = ((batch, _masked_places(part)) for part in parts for batch in _batches(part))
    first = next(batches, None)
    kinds = first[0].schema.types if first is not None else [pa.null()] * len(_shown_columns(parts[0]))
    columns = [Column(name, _is_number(kind)) for name, kind in zip(_shown_columns(parts[0]), kinds, strict=True)]

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

    return write_table(columns, rows(), sink, terminal=terminal, longest=LONGEST_CELL)


def _masked_places(part: AnswerPart) -> set[int]:
    """Which columns, as printed, are masks: a null in one must not look like a null of the data."""
    first = 0 if part.dataset is None else 1
    return {place + first for place, name in enumerate(part.columns) if name in part.masked}


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
