"""SQL that turns a run's lineage tables into pairs: composed end to end, or hop by hop. Pure text that DuckDB and Spark
read alike.

Each space with a table has a view of it named by `view_of`, with columns id, h0, h1, …
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from lineage_service.capture.handles import Role, Space, is_dataset
from lineage_service.index.edges import Edge


def view_of(space: Space) -> str:
    """A plain name, which needs no quotes in any dialect; the hash keeps apart what looks alike without its signs."""
    return f"t_{re.sub('[^a-z0-9]', '_', space.lower())[:80]}_{hashlib.sha256(space.encode()).hexdigest()[:8]}"


def pairs_of(edge: Edge) -> str:
    """The pairs of one edge as they are in its table."""
    return f"SELECT id AS a, {edge.column} AS b FROM {view_of(edge.table)} WHERE {edge.column} IS NOT NULL"


def count_of_ways(edges: Sequence[Edge], start: Space, target: Space) -> str:
    """How many ways lead from rows of `start` to rows of `target`: an upper bound of the distinct pairs.

    Counted inward: a group's ways are the sum over its members, so nothing is multiplied out.
    """
    spaces = list(dict.fromkeys(edge.source for edge in edges))
    names = {space: f"ways{number}" for number, space in enumerate(spaces)}
    ctes: list[str] = []
    for space in reversed(spaces):
        parts = []
        own = [edge for edge in edges if edge.source == space]
        for table in dict.fromkeys(edge.table for edge in own):
            terms, joins = [], []
            for index, edge in enumerate(edge for edge in own if edge.table == table):
                if edge.target == target:
                    terms.append(f"CASE WHEN t.{edge.column} IS NULL THEN 0 ELSE 1 END")
                else:
                    joins.append(f"LEFT JOIN {names[edge.target]} w{index} ON w{index}.id = t.{edge.column}")
                    terms.append(f"coalesce(w{index}.n, 0)")
            parts.append(
                f"SELECT t.id AS id, CAST({' + '.join(terms)} AS DOUBLE) AS n FROM {view_of(table)} t {' '.join(joins)}"
            )
        body = f"({' UNION ALL '.join(parts)}) x"
        if space == start:
            ctes.append(f"{names[space]} AS (SELECT sum(n) AS n FROM {body})")
        else:
            ctes.append(f"{names[space]} AS (SELECT id, sum(n) AS n FROM {body} GROUP BY id)")
    return f"WITH {', '.join(ctes)} SELECT coalesce(n, 0) FROM {names[start]}"


def composed_pairs(edges: Sequence[Edge], start: Space, target: Space) -> str:
    """Distinct pairs (a, b, role) from rows of `start` to rows of `target`, over all ways; own wins over peer."""
    ctes: list[str] = []
    incoming: dict[Space, list[str]] = {}
    names: dict[Space, str] = {}
    for space in dict.fromkeys(edge.source for edge in edges):
        if space != start:
            names[space] = f"reached{len(names)}"
            ctes.append(f"{names[space]} AS ({_merged(incoming[space])})")
        for edge in (edge for edge in edges if edge.source == space):
            role, view = int(edge.role), view_of(edge.table)
            if space == start:
                part = f"SELECT id AS a, {edge.column} AS b, {role} AS role FROM {view} WHERE {edge.column} IS NOT NULL"
            else:
                part = (
                    f"SELECT r.a, t.{edge.column} AS b, greatest(r.role, {role}) AS role FROM {names[space]} r "
                    f"JOIN {view} t ON t.id = r.b WHERE t.{edge.column} IS NOT NULL"
                )
            incoming.setdefault(edge.target, []).append(part)
    ctes_text = f"WITH {', '.join(ctes)} " if ctes else ""
    return ctes_text + _merged(incoming.get(target, []))


def chained_pairs(edges: Sequence[Edge]) -> str:
    """Pairs (a, b) along edges that are one way, each beginning where the one before ends. Not made distinct."""
    tables = [f"{view_of(edge.table)} t{index}" for index, edge in enumerate(edges)]
    text = f"SELECT t0.id AS a, t{len(edges) - 1}.{edges[-1].column} AS b FROM {tables[0]}"
    for index in range(1, len(edges)):
        text += f" JOIN {tables[index]} ON t{index}.id = t{index - 1}.{edges[index - 1].column}"
    return f"{text} WHERE t{len(edges) - 1}.{edges[-1].column} IS NOT NULL"


def count_of_both(own: Edge, chain: Sequence[Edge]) -> str:
    """How many rows of a dataset have an id in their own column that a chain of two edges leads to as well."""
    first, last = chain
    return (
        f"SELECT count(*) FROM {view_of(own.table)} o JOIN {view_of(first.table)} f ON f.id = o.id "
        f"JOIN {view_of(last.table)} m ON m.id = f.{first.column} AND m.{last.column} = o.{own.column}"
    )


def is_chain(edges: Sequence[Edge], start: Space) -> bool:
    """Whether the edges (sources before targets) are one way from `start`."""
    at = start
    for edge in edges:
        if edge.source != at:
            return False
        at = edge.target
    return True


def stays_distinct(edges: Sequence[Edge]) -> bool:
    """Whether the pairs of a chain are distinct as they come: no group has an id twice, and each id is in one group."""
    first, *rest = edges
    return all(edge.once for edge in ([*rest] if first.own else edges))


def _merged(parts: Sequence[str]) -> str:
    """Pairs of several ways as one set."""
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) x GROUP BY a, b"


def reachable_ids(incoming: Sequence[Edge]) -> str:
    """Ids of a group's space that something before it, already reduced, points at."""
    parts = [f"SELECT {edge.column} AS id FROM {view_of(edge.table)}" for edge in incoming]
    return f"SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) x WHERE id IS NOT NULL"


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
