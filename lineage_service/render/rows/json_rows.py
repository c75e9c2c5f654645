"""Rows as JSON and NDJSON, in chunks of bytes that can be written to a file or sent over HTTP."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lineage_service.render.column_text import join_texts, json_text, text_bytes
from lineage_service.render.rows.printed_columns import DATASET, is_single_count, row_chunks, single_count

if TYPE_CHECKING:
    from lineage_service.query.answer import Answer

SEPARATOR = ",\n"


def json_rows(answer: Answer) -> Generator[bytes | memoryview, None, int]:
    """Yields one array with an object per line, or one object for a single count; returns the number of rows."""
    if is_single_count(answer):
        yield _count_object(answer)
        return 1
    count = 0
    for part in answer.parts:
        for chunk in row_chunks(part):
            text = text_bytes(_objects(chunk, answer, before=SEPARATOR))
            if not count and text:
                yield b"[\n"
                text = text[len(SEPARATOR) :]
            yield text
            count += chunk.num_rows
    yield b"\n]\n" if count else b"[]\n"
    return count


def ndjson_rows(answer: Answer) -> Generator[bytes | memoryview, None, int]:
    """Yields an object per line; returns the number of rows."""
    if is_single_count(answer):
        yield _count_object(answer)
        return 1
    count = 0
    for part in answer.parts:
        for chunk in row_chunks(part):
            yield text_bytes(_objects(chunk, answer, after="\n"))
            count += chunk.num_rows
    return count


def _objects(chunk: pa.RecordBatch, answer: Answer, *, before: str = "", after: str = "") -> pa.Array:
    """Returns the rows as JSON objects, with text before or after each."""
    pieces: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(chunk.schema.names, chunk.columns, strict=True)):
        opening = ", " if number else f"{before}{{"
        pieces += [f"{opening}{json.dumps(name, ensure_ascii=False)}: ", json_text(column)]
    if answer.absence and answer.kind in ("count", "counts") and chunk.schema.names[0] == DATASET:
        pieces.append(_absence_members(chunk.column(0).to_pylist(), answer))
    return join_texts(*pieces, f"}}{after}")


def _absence_members(datasets: Sequence[str], answer: Answer) -> pa.Array:
    """Returns the member `absence` for each dataset whose rows count only by the absence of a match."""
    known = [part.dataset for part in answer.parts if part.dataset is not None] or datasets
    absent: set[str] = set()
    for name in answer.absence:
        meant = [each for each in known if each == name] or [each for each in known if each.endswith(f".{name}")]
        absent.update(meant if len(meant) == 1 else ())
    texts = [f', "absence": {json.dumps([name], ensure_ascii=False)}' if name in absent else "" for name in datasets]
    return pa.array(texts, pa.large_string())


def _count_object(answer: Answer) -> bytes:
    from lineage_service.render.json_values import dump_json

    content: dict[str, Any] = {"count": single_count(answer)}
    if answer.absence:
        content["absence"] = list(answer.absence)
    return f"{dump_json(content)}\n".encode()
