"""SQL for witnesses: row ids that belong together, as the handles of lineage tables side by side. Pure text.

A row of a table is one derivation of the row it belongs to. Its handles are aligned, and a handle into a group stands
for each of the group's rows in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lineage_service.capture.handles import Role, Space, Table
from lineage_service.index.compose import view_of
from lineage_service.store.lineage_tables import TableRows


@dataclass(frozen=True)
class Witnesses:
    """SQL of (id, w0, w1, …), and the dataset of each w."""

    query: str
    spaces: tuple[Space, ...]


def witnesses(
    start: Space, tables: Mapping[Space, Table], rows: Mapping[Space, TableRows], wanted: frozenset[Space]
) -> Witnesses:
    """For the rows of a space, the row ids of the wanted datasets that jointly derived each row."""
    table = tables[start]
    riding = [each.space for each in table.handles if each.role is Role.OWN and _rides(each.space, rows)]
    if riding:  # its rows are the group's own, with the same ids
        return witnesses(riding[0], tables, rows, wanted)
    if table.left is None:
        return _side_witnesses(table, range(len(table.handles)), tables, rows, wanted, "")
    # An intersect needs a row of each side: combines those of the left with those of the right.
    sides = [range(table.left), range(table.left, len(table.handles))]
    left, right = (_side_witnesses(table, side, tables, rows, wanted, _any_handle_condition(side)) for side in sides)
    columns = [f"l.w{place}" for place in range(len(left.spaces))] + [f"r.w{n}" for n in range(len(right.spaces))]
    shown = "".join(f", {column} AS w{place}" for place, column in enumerate(columns))
    return Witnesses(
        f"SELECT l.id{shown} FROM ({left.query}) l JOIN ({right.query}) r ON l.id = r.id", left.spaces + right.spaces
    )


def _any_handle_condition(side: range) -> str:
    return f" WHERE {' OR '.join(f't.h{number} IS NOT NULL' for number in side)}"


def _side_witnesses(
    table: Table,
    numbers: range,
    tables: Mapping[Space, Table],
    rows: Mapping[Space, TableRows],
    wanted: frozenset[Space],
    where: str,
) -> Witnesses:
    """The witnesses of some of a table's handles: those of a side, or all."""
    columns: list[str] = []
    spaces: list[Space] = []
    joins: list[str] = []
    for number in numbers:
        handle = table.handles[number]
        # Window peers and absent rows are not part of a derivation.
        if handle.role is not Role.OWN or not _leads_to(handle.space, tables, wanted):
            continue
        if handle.space in wanted:
            columns.append(f"t.h{number}")
            spaces.append(handle.space)
            continue
        inner = witnesses(handle.space, tables, rows, wanted)
        joins.append(f"LEFT JOIN ({inner.query}) j{number} ON j{number}.id = t.h{number}")
        columns += [f"j{number}.w{place}" for place in range(len(inner.spaces))]
        spaces += inner.spaces
    shown = "".join(f", {column} AS w{place}" for place, column in enumerate(columns))
    return Witnesses(f"SELECT t.id{shown} FROM {view_of(table.space)} t {' '.join(joins)}{where}", tuple(spaces))


def _rides(space: Space, rows: Mapping[Space, TableRows]) -> bool:
    return space in rows and rows[space].carrier is not None


def _leads_to(space: Space, tables: Mapping[Space, Table], wanted: frozenset[Space]) -> bool:
    if space in wanted:
        return True
    table = tables.get(space)
    if table is None or table.everything is not None:
        return False
    return any(handle.role is Role.OWN and _leads_to(handle.space, tables, wanted) for handle in table.handles)
