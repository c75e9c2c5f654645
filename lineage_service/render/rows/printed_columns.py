"""The columns of an answer as every format prints them, and its rows in batches with these columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lineage_service.errors import QuestionError

if TYPE_CHECKING:
    from lineage_service.query.answer import Answer, AnswerPart

DATASET = "dataset"
CHUNK = 65_536  # rows turned into text at a time


def column_names(part: AnswerPart) -> list[str]:
    """Returns the names as printed: `dataset` comes first if several datasets were asked for."""
    if part.dataset is None:
        return list(part.columns)
    names = set(part.columns)
    return [DATASET, *(_unused_name(name, names) if name == DATASET else name for name in part.columns)]


def _unused_name(name: str, taken: set[str]) -> str:
    """Renames a column that is itself called `dataset` as DuckDB would: `dataset_1`."""
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def record_batches(part: AnswerPart) -> Iterator[pa.RecordBatch]:
    """Yields the part's rows with the columns as printed."""
    names = column_names(part)
    for batch in part.batches():
        columns = list(batch.columns)
        if part.dataset is not None:
            columns.insert(0, pa.repeat(part.dataset, batch.num_rows))
        yield pa.RecordBatch.from_arrays(columns, names=names)


def row_chunks(part: AnswerPart) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches small enough to be held as text."""
    for batch in record_batches(part):
        for start in range(0, batch.num_rows, CHUNK):
            yield batch.slice(start, CHUNK)


def is_single_count(answer: Answer) -> bool:
    """Whether the answer is one number. JSON shows that as one object; every other answer is a list."""
    return answer.kind == "count" and [column_names(part) for part in answer.parts] == [["count"]]


def single_count(answer: Answer) -> int:
    """Returns the number that a single count consists of."""
    (part,) = answer.parts
    (value,) = (value for batch in record_batches(part) for value in batch.column(0).to_pylist())
    return cast(int, value)


def has_uniform_columns(parts: Sequence[AnswerPart]) -> bool:
    """Whether all parts have the same columns."""
    return len({tuple(part.columns) for part in parts}) <= 1


def refuse_mixed_columns(answer: Answer, format_: str) -> None:
    """Raises QuestionError if the datasets have different columns and the format holds only one table."""
    if format_ in ("table", "json") or has_uniform_columns(answer.parts):
        return
    raise QuestionError(
        f"the datasets reached have different columns, which {format_} cannot hold; formats that can: table, json",
        hint="ask for one dataset with --to, for common columns with --columns, or for --rids, --pairs or --count",
    )
