"""Answers of questions: streams of rows, readable as Arrow, as a DuckDB relation, as a data frame, or batch by
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lineage_service.errors import QuestionError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

Kind = Literal["rows", "rids", "pairs", "count", "counts", "records"]


@dataclass
class AnswerPart:
    """Rows of one dataset of an answer.

    `dataset` is set when the question asked for several datasets. `remaining` is the number of rows that a limit cut
    off. `masked` names the columns whose values are masked. `notes` explain what is not shown.
    """

    columns: list[str]
    open: Callable[[], pa.RecordBatchReader]
    dataset: str | None = None
    remaining: int | None = None
    absent: bool = False  # reached only by the absence of a match
    masked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches. Yields at least one batch, possibly empty, so that the column types are known."""
        import pyarrow as pa

        reader = self.open()
        empty = True
        for batch in reader:
            empty = False
            yield batch
        if empty:
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    def arrow(self) -> pa.Table:
        return self.open().read_all()


@dataclass(repr=False)
class Answer:
    """The answer to a question. `notes` are messages for the user; `absence` names datasets that influence the rows
    only because nothing in them matched.
    """

    parts: list[AnswerPart]
    kind: Kind
    notes: list[str] = field(default_factory=list)
    absence: list[str] = field(default_factory=list)

    @property
    def masked(self) -> tuple[str, ...]:
        """The names of masked columns. Tables print `•••` for their values. In data a masked text is `•••` and any
        other masked value is null.
        """
        return tuple(dict.fromkeys(name for part in self.parts for name in part.masked))

    def __repr__(self) -> str:
        """Describes the answer without reading its rows and without showing any value of the data."""
        described = []
        for part in self.parts:
            of = f" of {part.dataset}" if part.dataset is not None else ""
            described.append(f"{', '.join(part.columns)}{of}")
        notes = f"; {len(self.notes)} note{'s' if len(self.notes) > 1 else ''}" if self.notes else ""
        return f"<Answer ({self.kind}): {' | '.join(described) or 'nothing'}{notes}>"

    def __len__(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for part in self.parts for batch in part.batches())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dicts. With several datasets, each row has a key `dataset`."""
        for part in self.parts:
            for batch in part.batches():
                for row in batch.to_pylist():
                    if part.dataset is None:
                        yield row
                    else:
                        yield {"dataset": part.dataset} | {
                            "dataset_1" if name == "dataset" else name: value for name, value in row.items()
                        }

    def arrow(self) -> pa.Table:
        """All rows as one Arrow table. With several datasets, the first column `dataset` names the dataset of each
        row.
        """
        import pyarrow as pa

        tables = []
        for part in self.parts:
            table = part.arrow()
            if part.dataset is not None:
                names = pa.array([part.dataset] * table.num_rows, pa.string())
                if "dataset" in table.column_names:  # a data column of that name is renamed, as on the command line
                    table = table.rename_columns(["dataset_1" if n == "dataset" else n for n in table.column_names])
                table = table.add_column(0, "dataset", names)
            tables.append(table)
        if len(tables) == 1:
            return tables[0]
        if len({tuple(table.column_names) for table in tables}) > 1:
            raise QuestionError(
                "the datasets reached have different columns and cannot form one table",
                hint="ask for one dataset at a time, or look at the parts",
            )
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def relation(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        import duckdb

        return (connection or duckdb).from_arrow(self.arrow())

    def df(self) -> Any:
        """A pandas data frame. pandas must be installed; it is not one of our dependencies."""
        return self.arrow().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    def count(self) -> int:
        """The value of an answer that is a single number, otherwise the number of rows."""
        table = self.arrow()
        return int(table.column("count")[0].as_py()) if self.kind == "count" else int(table.num_rows)


def records(columns: list[str], rows: list[tuple[Any, ...]], limit: int | None = None) -> Answer:
    """Builds an answer from a few values that are already in memory, such as runs, datasets or counts."""
    remaining = None if limit is None else max(0, len(rows) - limit)
    rows = rows[:limit]

    def open_() -> pa.RecordBatchReader:
        import pyarrow as pa

        arrays = [pa.array([row[index] for row in rows]) for index in range(len(columns))]
        table = pa.table(dict(zip(columns, arrays, strict=True)))
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    return Answer([AnswerPart(columns, open_, remaining=remaining)], "records")
