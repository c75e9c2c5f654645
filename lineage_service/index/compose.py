"""SQL that turns a run's lineage tables into pairs: composed end to end, or hop by hop. Pure text.

Each space with a table has a view of it named by `view_of`, with columns id, h0, h1, …
"""

from __future__ import annotations

from collections.abc import Sequence

from lineage_service.capture.handles import Role, Space, is_dataset
from lineage_service.index.edges import Edge


def view_of(space: Space) -> str:
    return _quoted(f"table {space}")


def _reached(space: Space) -> str:
    return _quoted(f"reached {space}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def pairs_of(edge: Edge) -> str:
    """The pairs of one edge as they are in its table."""
    return f"SELECT id AS a, {edge.column} AS b FROM {view_of(edge.source)} WHERE {edge.column} IS NOT NULL"


def count_of_ways(edges: Sequence[Edge], start: Space, target: Space) -> str:
    """How many ways lead from rows of `start` to rows of `target`: an upper bound of the distinct pairs.

    Counted inward: a group's ways are the sum over its members, so nothing is multiplied out.
    """
    spaces = list(dict.fromkeys(edge.source for edge in edges))
    ctes: list[str] = []
    for space in reversed(spaces):
        terms, joins = [], []
        for index, edge in enumerate(edge for edge in edges if edge.source == space):
            if edge.target == target:
                terms.append(f"(t.{edge.column} IS NOT NULL)::DOUBLE")
            else:
                alias = f"w{index}"
                joins.append(f"LEFT JOIN {_quoted(f'ways {edge.target}')} {alias} ON {alias}.id = t.{edge.column}")
                terms.append(f"coalesce({alias}.n, 0)")
        body = f"FROM {view_of(space)} t {' '.join(joins)}"
        total = f"sum({' + '.join(terms)})"
        if space == start:
            ctes.append(f"{_quoted(f'ways {space}')} AS (SELECT {total} AS n {body})")
        else:
            ctes.append(f"{_quoted(f'ways {space}')} AS MATERIALIZED (SELECT t.id, {total} AS n {body} GROUP BY t.id)")
    return f"WITH {', '.join(ctes)} SELECT coalesce(n, 0)::DOUBLE FROM {_quoted(f'ways {start}')}"


def composed_pairs(edges: Sequence[Edge], start: Space, target: Space) -> str:
    """Distinct pairs (a, b, role) from rows of `start` to rows of `target`, over all ways; own wins over peer."""
    ctes: list[str] = []
    incoming: dict[Space, list[str]] = {}
    for space in dict.fromkeys(edge.source for edge in edges):
        if space != start:
            ctes.append(f"{_reached(space)} AS ({_merged(incoming[space])})")
        for edge in (edge for edge in edges if edge.source == space):
            role = int(edge.role)
            if space == start:
                part = (
                    f"SELECT id AS a, {edge.column} AS b, {role} AS role FROM {view_of(space)} "
                    f"WHERE {edge.column} IS NOT NULL"
                )
            else:
                part = (
                    f"SELECT r.a, t.{edge.column} AS b, greatest(r.role, {role}) AS role FROM {_reached(space)} r "
                    f"JOIN {view_of(space)} t ON t.id = r.b WHERE t.{edge.column} IS NOT NULL"
                )
            incoming.setdefault(edge.target, []).append(part)
    ctes_text = f"WITH {', '.join(ctes)} " if ctes else ""
    return ctes_text + _merged(incoming.get(target, []))


def _merged(parts: Sequence[str]) -> str:
    """Pairs of several ways as one set."""
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) GROUP BY a, b"


def reachable_ids(incoming: Sequence[Edge]) -> str:
    """Ids of a group's space that something before it, already reduced, points at."""
    parts = [f"SELECT {edge.column} AS id FROM {view_of(edge.source)}" for edge in incoming]
    return f"SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) WHERE id IS NOT NULL"


def composable(edges: Sequence[Edge], start: Space) -> list[Edge]:
    """Edges (sources before targets) whose pairs may be multiplied out: absence would be every row with every row."""
    reached = {start}
    kept = []
    for edge in edges:
        if edge.source in reached and edge.role is not Role.ABSENCE and not edge.everything:
            kept.append(edge)
            reached.add(edge.target)
    return kept


def targets_of(edges: Sequence[Edge]) -> list[Space]:
    return list(dict.fromkeys(edge.target for edge in edges if is_dataset(edge.target)))
