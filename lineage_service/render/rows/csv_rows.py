"""Rows as CSV, in chunks of bytes."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lineage_service.render.column_text import join_texts, plain_text, text_bytes
from lineage_service.render.rows.printed_columns import column_names, row_chunks

if TYPE_CHECKING:
    from lineage_service.query.answer import Answer


def csv_rows(answer: Answer) -> Generator[bytes | memoryview, None, int]:
    """Yields RFC 4180 with Unix line ends; returns the number of rows.

    A null is an empty field, and an empty string is a pair of quotes.
    """
    if answer.parts:
        header = pa.array(column_names(answer.parts[0]), pa.string())
        yield (",".join(_fields(header).to_pylist()) + "\n").encode()
    count = 0
    for part in answer.parts:
        for chunk in row_chunks(part):
            pieces: list[pa.Array | str] = []
            for column in chunk.columns:
                pieces += [_fields(column, only=chunk.num_columns == 1), ","]
            yield text_bytes(join_texts(*pieces[:-1], "\n"))
            count += chunk.num_rows
    return count


def _fields(column: pa.Array, *, only: bool = False) -> pa.Array:
    """Returns the values as fields, quoted if they need it."""
    text = plain_text(column)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        needs_quotes = pc.match_substring_regex(text, r'[",\r\n]|^$|^\s|\s$')
        if pc.any(needs_quotes).as_py():
            text = pc.if_else(needs_quotes, join_texts('"', pc.replace_substring(text, '"', '""'), '"'), text)
    # An empty line is no record: if there is only one column, a null is written like an empty string.
    return pc.fill_null(text, '""' if only else "")
