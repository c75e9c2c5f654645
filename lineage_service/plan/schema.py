"""The columns of a relation as known without Spark: their names, and their types if known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lineage_service.errors import did_you_mean, join_names

RESERVED = "_rid"


class ColumnError(Exception):
    """A column that cannot be read here. Has the message and a hint; the caller knows the position."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name, and its Spark type as text if known without Spark.

    alike: for a source, whether every engine reads the same values from its files
    pii: for a source that is another workflow's output, whether it is marked there
    """

    name: str
    type: str | None = None
    alike: bool = False
    pii: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order. Names are compared without regard to case, as in Spark.

    ambiguous: names that both sides of a join have; they exist, but must not be read
    known: False if the columns cannot be listed without Spark; then every name is accepted
    """

    columns: tuple[Column, ...] = ()
    ambiguous: tuple[str, ...] = ()
    known: bool = True

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name.lower() in seen:
                raise ColumnError(f"two columns are called '{column.name}' (names are compared without regard to case)")
            seen.add(column.name.lower())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def is_ambiguous(self, name: str) -> bool:
        return name.lower() in (other.lower() for other in self.ambiguous)

    def resolve(self, name: str) -> Column:
        """The column of that name, as spelled here. Raises ColumnError if it cannot be read."""
        if self.is_ambiguous(name):
            raise ColumnError(
                f"column '{name}' is ambiguous: both sides of a join below have it",
                f"rename it on one side before the join, or project it away (columns here: {join_names(self.names)})",
            )
        column = self.find(name)
        if column is not None:
            return column
        if not self.known:
            return Column(name)
        hint = self._dotted_hint(name) or csv_hint(name, self.names) or did_you_mean(name, self.names)
        raise ColumnError(f"unknown column '{name}'; columns here: {join_names(self.names)}", hint)

    def _dotted_hint(self, name: str) -> str | None:
        """What to write instead of `column.field`, `step.column` or `a, b` where a column's name is needed."""
        first, dot, rest = name.partition(".")
        if dot and self.find(first) is not None:
            last = rest.rpartition(".")[2]
            return f"make the field a column first, with a step `with_columns`: `{last}: {name}`"
        if dot and self.find(rest) is not None:
            return f"columns are written without the name of their step: {rest}"
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and all(self.find(part) is not None for part in parts):
            return f"write each as an entry of its own: [{', '.join(parts)}]"
        return None

    def unambiguous_columns(self) -> tuple[Column, ...]:
        """All columns, for a step that reads all of them. Raises ColumnError if one is ambiguous."""
        for name in self.ambiguous:
            self.resolve(name)
        return self.columns

    def with_replaced(self, new: Iterable[Column]) -> Schema:
        """These columns with others in place of those of the same name, or at the end."""
        columns, ambiguous = list(self.columns), list(self.ambiguous)
        for column in new:
            at = next((i for i, old in enumerate(columns) if old.name.lower() == column.name.lower()), None)
            if at is None:
                columns.append(column)
            else:
                columns[at] = column
            ambiguous = [name for name in ambiguous if name.lower() != column.name.lower()]
        return Schema(tuple(columns), tuple(ambiguous), self.known)


SEPARATORS = (";", "\t", "|", ",")


def csv_hint(name: str, names: Sequence[str]) -> str | None:
    """What to write if a CSV file was probably read with the wrong separator, so that its header is the name of one
    column, or without its header. Recognised by a single column that contains the unknown one or looks like a header.
    """
    if names and all(re.fullmatch(r"_c\d+", column) for column in names):  # as Spark calls them
        return "columns that are named by the first line of a CSV file need `options: {header: true}`"
    for column in names:
        for separator in SEPARATORS:
            parts = [part.strip(" \"'").lower() for part in column.split(separator)]
            whole = len(names) == 1 and all(part.isidentifier() for part in parts)
            if len(parts) > 1 and (whole or name.lower() in parts):
                shown = json.dumps(separator)
                return f"columns that are separated by {shown} need `options: {{header: true, sep: {shown}}}`"
    return None
