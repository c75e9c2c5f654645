"""A project of another tool as values: its queries, the tables that they may read, and what is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Parts = tuple[str, ...]
"""The parts of a table's name, as in catalog.schema.table."""


def name_suffixes(parts: Parts) -> tuple[str, ...]:
    """All names under which a table can be meant: catalog.schema.table, schema.table, table."""
    return tuple(".".join(parts[begin:]) for begin in range(len(parts)))


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a step: one key of a check in the workflow file with its value, and the severity."""

    kind: str  # not_null, unique or where
    value: str
    severity: str = "error"


@dataclass(frozen=True, slots=True)
class ForeignQuery:
    """A view, table or model of the project that has a query.

    key: identifies it in the project.
    label: how messages call it: "model 'orders'".
    name: the name that its step should get.
    other_name: used instead if another query has the same name.
    kind: the word of its tool, e.g. `incremental`.
    file: the file that it comes from, as the project names it.
    query: Spark SQL, with tables named as in the project.
    comments: lines that are shown above the step.
    stored: whether the tool stores its rows as a table.
    table_names: names under which the project declares the query's table as a source.
    """

    key: str
    label: str
    name: str
    other_name: str
    kind: str
    file: str
    query: str
    comments: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    stored: bool = False
    table_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table that the workflow cannot build: a source.

    names: the names that `--source` takes for it; the first is shown.
    what: what the tool calls it, e.g. `seed`.
    path: where its files are, if the project says so; relative to `folder`.
    format: `parquet`, `csv`, …; None: by the path's suffix.
    options: reader options of the path that the project gives.
    is_files: whether queries name its files, as in csv.`path`: such a name qualifies no column.
    """

    key: str
    name: str
    other_name: str
    names: tuple[str, ...]
    what: str
    path: str | None = None
    folder: Path | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    is_files: bool = False


@dataclass(frozen=True, slots=True)
class Omission:
    """A part of the project that is not imported, and the reason."""

    what: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ForeignProject:
    """Everything that was read of a project.

    tool: what it was read from: "the dbt project 'shop'".
    resolve: the key of the query or table that a name in a query of `key` means: `resolve(key, parts)`. None for a name
        that the project does not know.
    unknown_table: the table that such a name stands for.
    variables: variables of the workflow and their defaults.
    """

    tool: str
    name: str
    description: str | None
    owner: str | None
    queries: tuple[ForeignQuery, ...]
    tables: tuple[ForeignTable, ...]
    omissions: tuple[Omission, ...]
    warnings: tuple[str, ...]
    resolve: Callable[[str, Parts], str | None]
    unknown_table: Callable[[str, Parts], ForeignTable]
    variables: Mapping[str, str] = field(default_factory=dict)
