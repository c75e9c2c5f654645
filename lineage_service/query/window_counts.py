"""How many rows are behind rows of a window: the length of intervals, where each position is one row. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Role
from lineage_service.index.compose import merged_intervals
from lineage_service.query.files import HomeFiles, body_of
from lineage_service.query.graph import Place, Way
from lineage_service.query.hop_sql import masked_by
from lineage_service.query.walk_sql import Start, walk_sql


def window_count(
    ways: Sequence[Way], start: Start, begin: Place, target: Place, files: HomeFiles
) -> tuple[str, list[object]] | None:
    """The number of rows of `target` behind the start's rows, and its parameters; None where positions do not tell it.

    They do where the ways are a row's own id and the intervals that it reads, all as the run left them.
    """
    hops = [way.hop for way in ways]
    if len(ways) not in (3, 4) or any(hop is None or masked_by(hop) for hop in hops):
        return None
    by_ends = {(way.start, way.end): way for way in ways}
    frames = next((way for way in ways if way.hop is not None and way.hop.form == "interval"), None)
    if frames is None or frames.hop is None or len(by_ends) != len(ways):
        return None
    body = body_of(frames.hop)
    own, last, first = (by_ends.get(ends) for ends in ((begin, target), (frames.end, target), (begin, frames.start)))
    if own is None or last is None or (first is None) != (frames.start == begin):
        return None
    same = _rows(last.hop) == body.get("positions") and (first is None or _rows(first.hop) == _rows(own.hop))
    if own.role is not Role.OWN or not same or [begin.space, target.space] not in body.get("counts", ()):
        return None
    if first is None:
        rows, parameters = start.relation(files.rids(begin) if start.rids is None and start.table is None else "")
    else:
        walked = walk_sql([first], start, begin, frames.start, "backward", files, pairs=False)
        rows, parameters = walked.text, walked.parameters
    stored = files.index(frames.hop.backward)
    ranges = ["SELECT 0 AS k, b AS lo, b AS hi FROM places"] + [
        f"SELECT 0, h.lo{n}, h.hi{n} FROM places p JOIN {stored} h ON h.a = p.b WHERE h.lo{n} IS NOT NULL"
        for n in range(int(body["frames"]))
    ]
    islands = merged_intervals(" UNION ALL ".join(ranges), ["k"])
    return (
        f"WITH places AS (SELECT DISTINCT b FROM ({rows})) "
        f"SELECT coalesce(sum(hi - lo + 1), 0)::BIGINT FROM ({islands})",
        parameters,
    )


def _rows(hop: HopRecord | None) -> int:
    return -1 if hop is None else hop.rows
