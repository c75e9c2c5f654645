"""SQL that turns a run's lineage tables into pairs, composed end to end or hop by hop. Pure text for DuckDB and Spark.

Each space with a table has a view named by `view_of`, with columns id, h0, h1, …
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_service.capture.handles import Role, Space
from lineage_service.index.space_graph import SpaceEdge


def view_of(name: str) -> str:
    """The name of the view over a space's table. It needs no quotes in any dialect. A hash distinguishes names that
    differ only in special characters.
    """
    return f"t_{re.sub('[^a-z0-9]', '_', name.lower())[:80]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def pairs_of(edge: SpaceEdge) -> str:
    """The pairs of one edge as stored in its table; for intervals, every id in them."""
    if edge.frames:
        rows, inside = view_of(edge.table), view_of(edge.target)
        parts = [
            f"SELECT f.id AS a, m.id AS b FROM {rows} f JOIN (SELECT DISTINCT id FROM {inside}) m "
            f"ON m.id BETWEEN f.lo{index} AND f.hi{index}"
            for index in range(edge.frames)
        ]
        return " UNION ".join(parts)
    return f"SELECT id AS a, {edge.column} AS b FROM {view_of(edge.table)} WHERE {edge.column} IS NOT NULL"


def count_of_ways(edges: Sequence[SpaceEdge], start: Space, target: Space) -> str:
    """The number of paths from rows of `start` to rows of `target`, an upper bound of the distinct pairs.

    Computed bottom-up: the paths of a group are the sum over its members, so nothing is expanded.
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
                if edge.frames:
                    joined, term = _ways_inside(names[edge.target], edge.frames, index)
                    joins += joined
                    terms.append(term)
                elif edge.target == target:
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


def _ways_inside(ways: str, frames: int, number: int) -> tuple[list[str], str]:
    """The paths behind intervals of ids: the joins, and their sum. Uses prefix sums over all ids."""
    joins, terms = [], []
    for index in range(frames):
        first, last = f"p{number}_{index}", f"q{number}_{index}"
        summed = f"(SELECT id, sum(n) OVER (ORDER BY id) AS n FROM {ways})"
        joins.append(f"LEFT JOIN {summed} {first} ON {first}.id = t.lo{index} - 1")
        joins.append(f"LEFT JOIN {summed} {last} ON {last}.id = t.hi{index}")
        terms.append(f"coalesce({last}.n, 0) - CASE WHEN {last}.n IS NULL THEN 0 ELSE coalesce({first}.n, 0) END")
    return joins, f"({' + '.join(terms)})"


def composed_pairs(edges: Sequence[SpaceEdge], start: Space, target: Space) -> str:
    """Distinct pairs (a, b, role) from rows of `start` to rows of `target`, over all paths. The role own takes
    precedence over peer.
    """
    ctes: list[str] = []
    incoming: dict[Space, list[str]] = {}
    names: dict[Space, str] = {}
    for space in dict.fromkeys(edge.source for edge in edges):
        if space != start:
            names[space] = f"reached{len(names)}"
            ctes.append(f"{names[space]} AS ({_union_pairs(incoming[space])})")
        for edge in (edge for edge in edges if edge.source == space):
            role, view = int(edge.role), view_of(edge.table)
            if edge.frames:
                reached = f"SELECT id AS a, id AS b, {role} AS role FROM {view}" if space == start else ""
                incoming.setdefault(edge.target, []).extend(_inside(edge, names.get(space) or f"({reached})"))
                continue
            if space == start:
                part = f"SELECT id AS a, {edge.column} AS b, {role} AS role FROM {view} WHERE {edge.column} IS NOT NULL"
            else:
                part = (
                    f"SELECT r.a, t.{edge.column} AS b, greatest(r.role, {role}) AS role FROM {names[space]} r "
                    f"JOIN {view} t ON t.id = r.b WHERE t.{edge.column} IS NOT NULL"
                )
            incoming.setdefault(edge.target, []).append(part)
    ctes_text = f"WITH {', '.join(ctes)} " if ctes else ""
    return ctes_text + _union_pairs(incoming.get(target, []))


def _inside(edge: SpaceEdge, reached: str) -> list[str]:
    """The pairs that intervals add to those that reach them."""
    ids = f"(SELECT DISTINCT id FROM {view_of(edge.target)})"
    return [
        f"SELECT r.a, m.id AS b, greatest(r.role, {int(edge.role)}) AS role FROM {reached} r "
        f"JOIN {view_of(edge.table)} t ON t.id = r.b JOIN {ids} m ON m.id BETWEEN t.lo{index} AND t.hi{index}"
        for index in range(edge.frames)
    ]


def merged_intervals(ranges: str, keys: Sequence[str]) -> str:
    """(keys…, lo, hi): merges intervals of equal keys that overlap or touch."""
    by, shown = ", ".join(keys), ", ".join(f"x.{key}" for key in keys)
    order = f"PARTITION BY {by} ORDER BY lo, hi"
    furthest = f"max(hi) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begun = f"SELECT {by}, lo, hi, CASE WHEN lo <= {furthest} + 1 THEN 0 ELSE 1 END AS begins FROM ({ranges}) r"
    islands = f"SELECT {by}, lo, hi, sum(begins) OVER ({order} ROWS UNBOUNDED PRECEDING) AS island FROM ({begun}) b"
    return f"SELECT {shown}, min(lo) AS lo, max(hi) AS hi FROM ({islands}) x GROUP BY {shown}, x.island"


def frame_ranges(frames: int, rows: str) -> str:
    """(id, lo, hi) of a table with the bounds of several intervals, without empty intervals."""
    return " UNION ALL ".join(
        f"SELECT id, lo{index} AS lo, hi{index} AS hi FROM {rows} WHERE lo{index} IS NOT NULL"
        for index in range(frames)
    )


@dataclass(frozen=True)
class WindowWay:
    """The ways from a dataset's rows to a source's rows that consist of a row's own id and its window intervals.

    place: the column with the row's position. Each position has at most one id, and no id has two positions.
    """

    own: SpaceEdge
    place: str
    frames: SpaceEdge
    last: SpaceEdge

    @property
    def rows(self) -> str:
        return view_of(self.own.table)

    @property
    def inner(self) -> str:
        return view_of(self.last.table)

    @property
    def is_same_row(self) -> bool:
        """Whether the dataset's rows are the window's rows, in one file. Then they have the same ids."""
        return self.place == "id" and self.own.column == self.last.column

    def count_of_others(self) -> str:
        """The number of rows whose own id differs from that of the window's row at their position."""
        return (
            f"SELECT count(*) FROM {self.rows} o JOIN {self.inner} m ON m.id = o.{self.place} "
            f"WHERE m.{self.last.column} IS DISTINCT FROM o.{self.own.column}"
        )

    def count_of_nulls(self) -> str:
        return f"SELECT count(*) - count({self.last.column}) FROM {self.inner}"

    def count_of_pairs(self, *, nulls: bool) -> str:
        """The number of distinct pairs, computed from the interval bounds without expanding them."""
        ranges = frame_ranges(self.frames.frames, view_of(self.frames.table))
        one = self.frames.frames == 1
        islands = ranges if one else merged_intervals(ranges, ["id"])
        here, length, joins = "CASE WHEN i.id BETWEEN i.lo AND i.hi THEN 1 ELSE 0 END", "i.hi - i.lo + 1", ""
        if nulls:
            inside = f"(SELECT id, count({self.last.column}) OVER (ORDER BY id) AS n FROM {self.inner})"
            joins = f" JOIN {inside} q ON q.id = i.hi LEFT JOIN {inside} p ON p.id = i.lo - 1"
            length = "q.n - coalesce(p.n, 0)"
        counted = f"SELECT i.id, {length} AS n, {here} AS here FROM ({islands}) i{joins}"
        if not one:
            counted = f"SELECT id, sum(n) AS n, max(here) AS here FROM ({counted}) c GROUP BY id"
        alone = f"CASE WHEN o.{self.own.column} IS NULL OR coalesce(f.here, 0) = 1 THEN 0 ELSE 1 END"
        return (
            f"SELECT coalesce(sum({alone} + coalesce(f.n, 0)), 0) FROM {self.rows} o "
            f"LEFT JOIN ({counted}) f ON f.id = o.{self.place}"
        )


def window_way(ways: Sequence[SpaceEdge], start: Space, target: Space) -> WindowWay | None:
    """The ways between two datasets as a `WindowWay`, if they have this form."""
    own = [edge for edge in ways if edge.own and (edge.source, edge.target) == (start, target)]
    chain = [edge for edge in ways if edge not in own]
    if len(own) != 1 or len(chain) not in (2, 3):
        return None
    place = "id"
    if len(chain) == 3:
        if not chain[0].own or (chain[0].source, chain[0].target) != (start, chain[1].source):
            return None
        place = str(chain[0].column)
    frames, last = chain[-2:]
    begins = start if len(chain) == 2 else frames.source
    linked = frames.source == begins and frames.target == last.source and last.target == target
    return WindowWay(own[0], place, frames, last) if linked and frames.frames and last.once else None


def chained_pairs(edges: Sequence[SpaceEdge]) -> str:
    """Pairs (a, b) along edges that form one path. Not made distinct."""
    tables = [f"{view_of(edge.table)} t{index}" for index, edge in enumerate(edges)]
    text = f"SELECT t0.id AS a, t{len(edges) - 1}.{edges[-1].column} AS b FROM {tables[0]}"
    for index in range(1, len(edges)):
        text += f" JOIN {tables[index]} ON t{index}.id = t{index - 1}.{edges[index - 1].column}"
    return f"{text} WHERE t{len(edges) - 1}.{edges[-1].column} IS NOT NULL"


def is_chain(edges: Sequence[SpaceEdge], start: Space) -> bool:
    """Whether the edges (in topological order) form one path from `start` without intervals."""
    at = start
    for edge in edges:
        if edge.source != at or edge.frames:
            return False
        at = edge.target
    return True


def stays_distinct(edges: Sequence[SpaceEdge]) -> bool:
    """Whether the pairs of a path are distinct: no group contains an id twice, and each id is in one group."""
    first, *rest = edges
    return all(edge.once for edge in ([*rest] if first.own else edges))


def _union_pairs(parts: Sequence[str]) -> str:
    """The union of the pairs of several paths."""
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) x GROUP BY a, b"


def reachable_ids(incoming: Sequence[SpaceEdge]) -> str:
    """Ids of a group's space that a preceding, already reduced table refers to."""
    parts = [f"SELECT {edge.column} AS id FROM {view_of(edge.table)}" for edge in incoming]
    return f"SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) x WHERE id IS NOT NULL"


def composable(edges: Sequence[SpaceEdge], start: Space) -> list[SpaceEdge]:
    """Edges (in topological order) whose pairs may be expanded. Absence is excluded, because it would pair every row
    with every row.
    """
    reached = {start}
    kept = []
    for edge in edges:
        if edge.source in reached and edge.role is not Role.ABSENCE and not edge.everything:
            kept.append(edge)
            reached.add(edge.target)
    return kept


def segment_ends(edges: Sequence[SpaceEdge]) -> list[Space]:
    """The datasets and windows that edges lead to."""
    return list(dict.fromkeys(edge.target for edge in edges if edge.target.is_dataset or edge.target.is_window))


def targets_of(edges: Sequence[SpaceEdge]) -> list[Space]:
    return list(dict.fromkeys(edge.target for edge in edges if edge.target.is_dataset))
