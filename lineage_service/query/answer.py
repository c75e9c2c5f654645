"""Answers: rows that stream. As Arrow, as a DuckDB relation, as a data frame, or batch by batch."""

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
    """Rows of one reached dataset. `dataset` is set where several were asked for; `remaining` rows were cut off;
    `masked` columns are masks; `notes` say what is not shown of them."""

    columns: list[str]
    open: Callable[[], pa.RecordBatchReader]
    dataset: str | None = None
    remaining: int | None = None
    absent: bool = False  # reached only by the absence of a match
    masked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; at least one batch, so that the columns' types are always told."""
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
    """What a question gives. `notes` are for people, `absence` names what only influenced by not matching."""

    parts: list[AnswerPart]
    kind: Kind
    notes: list[str] = field(default_factory=list)
    absence: list[str] = field(default_factory=list)

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns that are masks. Tables show `•••` in them; in data they are null, `•••` where they are text."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.masked))

    def __repr__(self) -> str:
        """What it is, without reading it, and without a value of the data."""
        told = []
        for part in self.parts:
            of = f" of {part.dataset}" if part.dataset is not None else ""
            told.append(f"{', '.join(part.columns)}{of}")
        notes = f"; {len(self.notes)} note{'s' if len(self.notes) > 1 else ''}" if self.notes else ""
        return f"<Answer ({self.kind}): {' | '.join(told) or 'nothing'}{notes}>"

    def __len__(self) -> int:
        """How many rows it has."""
        return sum(batch.num_rows for part in self.parts for batch in part.batches())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts, batch by batch; of several datasets, each with its `dataset`."""
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
        """All rows as one Arrow table; with several datasets a first column `dataset` tells them apart."""
        import pyarrow as pa

        tables = []
        for part in self.parts:
            table = part.arrow()
            if part.dataset is not None:
                names = pa.array([part.dataset] * table.num_rows, pa.string())
                if "dataset" in table.column_names:  # the data's own column makes room, as on the command line
                    table = table.rename_columns(["dataset_1" if n == "dataset" else n for n in table.column_names])
                table = table.add_column(0, "dataset", names)
            tables.append(table)
        if len(tables) == 1:
            return tables[0]
        if len({tuple(table.column_names) for table in tables}) > 1:
            raise QuestionError(
                "the datasets reached have unlike columns and make no one table",
                hint="ask for one dataset at a time, or look at the parts",
            )
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def relation(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        import duckdb

        return (connection or duckdb).from_arrow(self.arrow())

    def df(self) -> Any:
        """A pandas data frame; needs pandas, which is not among our dependencies."""
        return self.arrow().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    def count(self) -> int:
        """The number of an answer that is one number, else the number of rows."""
        table = self.arrow()
        return int(table.column("count")[0].as_py()) if self.kind == "count" else int(table.num_rows)


def records(columns: list[str], rows: list[tuple[Any, ...]], limit: int | None = None) -> Answer:
    """An answer made of a few values of our own: runs, datasets, counts."""
    remaining = None if limit is None else max(0, len(rows) - limit)
    rows = rows[:limit]

    def open_() -> pa.RecordBatchReader:
        import pyarrow as pa

        arrays = [pa.array([row[index] for row in rows]) for index in range(len(columns))]
        table = pa.table(dict(zip(columns, arrays, strict=True)))
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    return Answer([AnswerPart(columns, open_, remaining=remaining)], "records")
