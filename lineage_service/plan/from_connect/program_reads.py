"""What a relation reads: the reads in it, where they stand, and references to sources in their place.

The references are put in before a plan is stored, so that no data of `createDataFrame` gets into the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lineage_service.plan.from_connect.messages import Message, Value, kind_of
from lineage_service.spec.sql_parsing import deep_recursion, parse_query, tables_of
from lineage_service.spec.sql_syntax import SqlSyntaxError

Path = tuple[str | int, ...]
ReadKind = Literal["files", "table", "rows", "range", "remote", "sql"]

_ROWS = {
    "local_relation": "rows", "cached_local_relation": "rows", "chunked_cached_local_relation": "rows",
    "range": "range", "cached_remote_relation": "remote", "relation_changes": "table",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProgramRead:
    """A read of data in a relation.

    kind: files (`read.parquet(…)`), table (also a view), rows (`createDataFrame`), range, remote (a checkpoint), sql
    (a text, whose tables are `tables`) · relation: the whole relation that reads · path: where it stands in the root:
    names of fields, numbers in lists, keys of maps · tables: the names of tables, as written
    """

    kind: ReadKind
    relation: Message
    path: Path
    tables: tuple[str, ...] = ()

    @property
    def plan_id(self) -> int | None:
        common = self.relation.message("common")
        return common.number("plan_id") if common is not None and "plan_id" in common else None


def reads_of(root: Message) -> Iterator[ProgramRead]:
    """Every read in a relation, also in its subqueries and in what its texts of SQL name."""
    with deep_recursion():
        yield from _reads(root, ())


def _reads(message: Message, path: Path) -> Iterator[ProgramRead]:
    if message.type == "Relation":
        read = read_in(message, path)
        if read is not None:
            yield read
    for name, value in message.fields.items():
        yield from _reads_in(value, (*path, name))


def _reads_in(value: Value, path: Path) -> Iterator[ProgramRead]:
    if isinstance(value, Message):
        yield from _reads(value, path)
    elif isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from _reads_in(each, (*path, number))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _reads_in(each, (*path, key))


def read_in(relation: Message, path: Path = ()) -> ProgramRead | None:
    """The read that a relation itself is; None for one that reads only what is below it."""
    kind, inner = kind_of(relation)
    match kind:
        case "read":
            table = inner.message("named_table")
            if table is not None:
                return ProgramRead("table", relation, path, (table.text("unparsed_identifier"),))
            return ProgramRead("files", relation, path)
        case "sql":
            return ProgramRead("sql", relation, path, tables_of_text(inner.text("query")))
        case "relation_changes":
            return ProgramRead("table", relation, path, (inner.text("unparsed_identifier"),))
    known: ReadKind | None = _ROWS.get(kind)  # type: ignore[assignment]
    return None if known is None else ProgramRead(known, relation, path)


def tables_of_text(query: str) -> tuple[str, ...]:
    """The tables that a text of SQL names, without its CTEs; none where it cannot be read."""
    try:
        return tables_of(parse_query(query))
    except SqlSyntaxError:
        return ()


def with_references(root: Message, reference: Callable[[ProgramRead], Message | None]) -> Message:
    """The relation with another in place of each read for which `reference` gives one. Texts of SQL stay as they are:
    the caller says what their tables are."""
    with deep_recursion():
        return _replaced(root, (), reference)


def _replaced(message: Message, path: Path, reference: Callable[[ProgramRead], Message | None]) -> Message:
    if message.type == "Relation":
        read = read_in(message, path)
        new = reference(read) if read is not None else None
        if new is not None:
            return new

    def value_of(value: Value, place: Path) -> Value:
        if isinstance(value, Message):
            return _replaced(value, place, reference)
        if isinstance(value, tuple):
            return tuple(value_of(each, (*place, number)) for number, each in enumerate(value))
        if isinstance(value, Mapping):
            return {key: value_of(each, (*place, key)) for key, each in value.items()}
        return value

    return Message(message.type, {name: value_of(value, (*path, name)) for name, value in message.fields.items()})
