"""Rows, relations and scopes of the oracle for SQL: what every construct reads and gives.

A row carries the source rows behind it. A `RowScope` is one row as an expression sees it: its columns, the values of
subqueries, aggregates and windows already computed for it, and the row of the query around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.oracle.reference_expressions import Ambiguous, Scope, fields_of
from tests.oracle.reference_values import Unsupported, canonical

Rids = dict[str, frozenset[int]]


class MoreThanOneRow(Exception):
    """A scalar subquery returned more than one row: Spark ends the query with an error."""


@dataclass(frozen=True)
class Trace:
    """The source rows behind a row."""

    lineage: Rids = field(default_factory=dict)  # table -> contributing rids, own and peer together
    own: Rids = field(default_factory=dict)  # of these, reached by a path on which no window only read them
    absence: frozenset[str] = frozenset()  # tables that influence the row because none of their rows matched

    def with_peers(self, peers: Iterable[Trace]) -> Trace:
        """The trace of a row for which a window read other rows."""
        peers = list(peers)
        both = merge_traces([self, *peers])
        return Trace(both.lineage, self.own, both.absence)


NOTHING = Trace()


def merge_traces(traces: Iterable[Trace]) -> Trace:
    traces = [trace for trace in traces if trace is not NOTHING]
    if len(traces) == 1:
        return traces[0]
    return Trace(
        merge_rids(trace.lineage for trace in traces),
        merge_rids(trace.own for trace in traces),
        frozenset().union(*(trace.absence for trace in traces)),
    )


def merge_rids(parts: Iterable[Rids]) -> Rids:
    result: Rids = {}
    for part in parts:
        for table, rids in part.items():
            result[table] = result[table] | rids if table in result else rids
    return result


@dataclass(frozen=True)
class SqlRow:
    """One row of a query with its lineage."""

    values: tuple
    trace: Trace = NOTHING
    rank: int | None = field(default=None, compare=False)  # place in the order of ORDER BY; ties share it

    @property
    def lineage(self) -> Rids:
        return self.trace.lineage

    @property
    def own(self) -> Rids:
        return self.trace.own

    @property
    def peers(self) -> Rids:
        """The rids of the lineage that are not own."""
        rest = {table: rids - self.own.get(table, frozenset()) for table, rids in self.lineage.items()}
        return {table: rids for table, rids in rest.items() if rids}

    @property
    def absence(self) -> frozenset[str]:
        return self.trace.absence


def is_alike(a: SqlRow, b: SqlRow) -> bool:
    """Nobody can tell these rows apart."""
    return canonical(list(a.values)) == canonical(list(b.values)) and a.trace == b.trace


@dataclass(frozen=True)
class Column:
    """A column of a relation in FROM. A hidden one can be read only with its qualifier: the keys of USING."""

    name: str
    qualifier: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Relation:
    columns: Sequence[Column]
    rows: Sequence[SqlRow]

    def renamed(self, qualifier: str | None, names: Sequence[str] = ()) -> Relation:
        """The relation under an alias, which hides all qualifiers below it."""
        visible = [i for i, column in enumerate(self.columns) if not column.hidden]
        if names and len(names) != len(visible):
            raise Unsupported("another number of column aliases than columns")
        names = names or [self.columns[i].name for i in visible]
        rows = [SqlRow(tuple(row.values[i] for i in visible), row.trace) for row in self.rows]
        return Relation([Column(name, qualifier) for name in names], rows)


BY_POSITION = "column at "  # a name that stars are written out with: they may hold two columns of one name


def positions_of(columns: Sequence[Column], parts: Sequence[str]) -> tuple[list[int], int]:
    """The columns that a dotted name may mean, and how many of its parts name the column."""
    first = parts[0].lower()
    if first.startswith(BY_POSITION):
        return [int(first.removeprefix(BY_POSITION))], 1
    if len(parts) > 1:
        second = parts[1].lower()
        qualified = [
            i for i, c in enumerate(columns) if (c.qualifier or "").lower() == first and c.name.lower() == second
        ]
        if qualified:
            return qualified, 2
    return [i for i, c in enumerate(columns) if c.name.lower() == first and not c.hidden], 1


class TooMuchWork(Unsupported):
    """The query needs more scopes than the caller allows."""


class Touched:
    """The outermost query level whose row was read: tells which subqueries are not correlated. Also counts scopes."""

    NONE = 1 << 30

    def __init__(self, most_scopes: int | None = None):
        self.level = self.NONE
        self.scopes = 0
        self.most_scopes = most_scopes

    def count(self) -> None:
        self.scopes += 1
        if self.most_scopes is not None and self.scopes > self.most_scopes:
            raise TooMuchWork(f"more than {self.most_scopes} scopes")

    def touch(self, level: int) -> None:
        self.level = min(self.level, level)


class RowScope(Scope):
    """One row of a query level. Names are looked for in the row, then among aliases, then in the query around it."""

    def __init__(
        self, columns: Sequence[Column], row: SqlRow, outer: RowScope | None, touched: Touched, members: Sequence = ()
    ):
        touched.count()
        self.columns = columns
        self.row = row
        self.outer = outer
        self.touched = touched
        self.members = members  # of a group: the scopes of its rows
        self.level = outer.level + 1 if outer else 0
        self.trace = row.trace
        self.known: dict[int, object] = {}
        self.unreadable: frozenset[int] = frozenset()  # positions of columns that a group does not have
        self.aliases: dict[str, Callable[[], object]] = {}  # of the SELECT list, readable where Spark allows it
        self.list_first: dict[str, Callable[[], object]] = {}  # QUALIFY: aliases that win over the columns of the row
        self.output_first: dict[str, object] = {}  # ORDER BY: output columns win over those of the row

    def add(self, *traces: Trace) -> None:
        self.trace = merge_traces([self.trace, *traces])

    def path(self, parts: list[str]):
        name = parts[0].lower()
        if name in self.output_first and len(parts) == 1:
            return self.output_first[name]
        if name in self.list_first and len(parts) == 1:
            self.touched.touch(self.level)
            return self.list_first[name]()
        positions, used = positions_of(self.columns, parts)
        readable = [i for i in positions if i not in self.unreadable]
        if len(readable) > 1:
            raise Ambiguous(".".join(parts))
        if readable:
            self.touched.touch(self.level)
            return fields_of(self.row.values[readable[0]], parts[used:])
        if name in self.aliases:
            self.touched.touch(self.level)
            return fields_of(self.aliases[name](), parts[1:])
        if positions:
            raise Unsupported(f"{'.'.join(parts)} is not grouped")
        if self.outer is None:
            raise Unsupported(f"unknown column {'.'.join(parts)}")
        return self.outer.path(parts)
