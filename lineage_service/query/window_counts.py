"""Counts rows behind the rows of a window without expanding intervals. Pure text.

If each position is one row, the number of rows behind a row is the length of its interval. The number of rows that read
one row is the number of intervals that contain its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Role
from lineage_service.index.compose import merged_intervals
from lineage_service.query.home_files import HomeFiles, body_of
from lineage_service.query.hop_sql import pairs_relation, refreshed_row_files
from lineage_service.query.lineage_graph import Place, Way
from lineage_service.query.walk_sql import Start, reverse_ways, walk_sql


@dataclass(frozen=True)
class _Window:
    """The ways from rows of a window back to rows of a source.

    first: from a row to its position; None if the position is the row's id
    last: from a position to the row of the source
    """

    frames: HopRecord
    count: int
    positions: Way
    first: Way | None
    last: Way

    @classmethod
    def of(cls, ways: Sequence[Way], begin: Place, target: Place) -> _Window | None:
        """The window on these ways; None if rows cannot be counted by positions. They can if the ways are a row's own
        id and its interval, unchanged since the run.
        """
        hops = [way.hop for way in ways]
        if len(ways) not in (3, 4) or any(hop is None or refreshed_row_files(hop) for hop in hops):
            return None
        by_ends = {(way.start, way.end): way for way in ways}
        frames = next((way for way in ways if way.hop is not None and way.hop.form is HopForm.INTERVAL), None)
        if frames is None or frames.hop is None or len(by_ends) != len(ways):
            return None
        body = body_of(frames.hop)
        own, last, first = (
            by_ends.get(ends) for ends in ((begin, target), (frames.end, target), (begin, frames.start))
        )
        if own is None or last is None or (first is None) != (frames.start == begin):
            return None
        same = _rows(last.hop) == body.get("positions") and (first is None or _rows(first.hop) == _rows(own.hop))
        if own.role is not Role.OWN or not same or [begin.space, target.space] not in body.get("counts", ()):
            return None
        return cls(frames.hop, int(body["frames"]), frames, first, last)


def rows_behind_window(
    ways: Sequence[Way], start: Start, begin: Place, target: Place, files: HomeFiles
) -> tuple[str, list[object]] | None:
    """SQL for the number of rows of `target` behind the start's rows, with parameters; None if positions are not
    sufficient.
    """
    window = _Window.of(ways, begin, target)
    if window is None:
        return None
    if window.first is None:
        rows, parameters = start.relation(files.rids(begin) if start.rids is None and start.table is None else "")
    else:
        walked = walk_sql([window.first], start, begin, window.positions.start, "backward", files, pairs=False)
        rows, parameters = walked.text, walked.parameters
    stored = files.index(window.frames.backward)
    ranges = ["SELECT 0 AS k, b AS lo, b AS hi FROM places"] + [
        f"SELECT 0, h.lo{n}, h.hi{n} FROM places p JOIN {stored} h ON h.a = p.b WHERE h.lo{n} IS NOT NULL"
        for n in range(window.count)
    ]
    islands = merged_intervals(" UNION ALL ".join(ranges), ["k"])
    return (
        f"WITH places AS (SELECT DISTINCT b FROM ({rows})) "
        f"SELECT coalesce(sum(hi - lo + 1), 0)::BIGINT FROM ({islands})",
        parameters,
    )


def rows_reading_one(
    ways: Sequence[Way], start: Start, begin: Place, target: Place, files: HomeFiles
) -> tuple[str, list[object]] | None:
    """SQL for the number of rows of `target` that read one source row. Also None for several start rows, because rows
    that read two of them would be counted twice.
    """
    if start.rids is None or len(start.rids) != 1:
        return None
    window = _Window.of(reverse_ways(ways), target, begin)
    if window is None:
        return None
    last = window.last
    outputs = None
    if window.first is not None:
        outputs = pairs_relation(window.first, "backward", files)
        if outputs is None:
            return None
    walked = walk_sql(reverse_ways([last]), start, begin, last.start, "forward", files, pairs=False)
    inside = " OR ".join(f"p.b BETWEEN h.lo{n} AND h.hi{n}" for n in range(window.count))
    # The row at the position is its own reader. It may lie outside its frame, and must not be counted twice.
    readers = (
        f"SELECT h.a FROM {files.index(window.frames.backward)} h CROSS JOIN place p WHERE h.a <> p.b AND ({inside}) "
        "UNION ALL SELECT b FROM place"
    )
    counted = f"({readers})" if outputs is None else f"({outputs}) o SEMI JOIN ({readers}) r ON r.a = o.b"
    return f"WITH place AS MATERIALIZED ({walked.text}) SELECT count(*) FROM {counted}", walked.parameters


def _rows(hop: HopRecord | None) -> int:
    return -1 if hop is None else hop.rows
