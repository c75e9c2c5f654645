"""SQL of one hop in any index form: pairs (a, b), where a belongs to the dataset or group nearer to the outputs.

Pure text over the files of a home.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, assert_never

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import source_space
from lineage_service.index.compose import merged_intervals
from lineage_service.query.home_files import HomeFiles, body_of, index_literal, lazy_source_changed_error
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.store.duckdb_engine import column, literal

PIECE = 100_000  # positions listed per chunk


def way_ends(way: Way, direction: Direction) -> tuple[Place, Place]:
    """The places that a and b of a way belong to."""
    return (way.start, way.end) if direction == "backward" else (way.end, way.start)


def pairs_relation(way: Way, direction: Direction, files: HomeFiles, rids: tuple[int, ...] | None = None) -> str | None:
    """A relation of pairs (a, b). It is restricted to the start's `rids` if they are few and the restriction is
    cheaper.

    None for forms that do not store pairs. Those are computed from the preceding rows.
    """
    hop = way.hop
    assert hop is not None
    relation = _pairs_relation(hop, way, direction, files, rids)
    return None if relation is None else exclude_refreshed_rows(hop, relation, "a", files)


def exclude_refreshed_rows(hop: HopRecord, relation: str, name: str, files: HomeFiles) -> str:
    """A relation without the rows of the nearer dataset that a refresh recomputed. Their lineage is stored elsewhere.

    `name` is the column with the ids of that dataset.
    """
    mask = refreshed_row_files(hop)
    if not mask:
        return relation
    gone = f"read_parquet([{', '.join(index_literal(files.absolute(path)) for path in mask)}])"
    return f"SELECT x.* FROM ({relation}) x ANTI JOIN {gone} gone ON gone.a = x.{name}"


def refreshed_row_files(hop: HopRecord) -> list[str]:
    """Files of ids (column a) that a hop does not cover, because a refresh recomputed them."""
    if not hop.body or '"without"' not in hop.body:
        return []
    found: list[str] = body_of(hop).get("without", [])
    return found


def _pairs_relation(
    hop: HopRecord, way: Way, direction: Direction, files: HomeFiles, rids: tuple[int, ...] | None
) -> str | None:
    nearer, farther = way_ends(way, direction)
    match hop.form:
        case HopForm.PAIRS:
            path, near = (hop.backward, "a") if direction == "backward" else (hop.forward, "b")
            # Stored for the other direction only: the same pairs, sorted differently.
            return f"SELECT a, b FROM {files.index(path or hop.forward or hop.backward, near, rids)}"
        case HopForm.COLUMN:
            if direction == "forward" and hop.forward is not None:
                return f"SELECT a, b FROM {files.index(hop.forward, 'b', rids)}"
            scan = files.scan(nearer)
            positions = None
            if direction == "backward" and rids is not None:
                positions = [position for rid in rids if (position := scan.position(rid)) is not None]
            return scan.ids(str(body_of(hop)["column"]), positions)
        case HopForm.KEYED:
            return _keyed_pairs(hop, nearer, farther, direction, files, rids)
        case HopForm.FORMULA | HopForm.EVERYTHING | HopForm.CONSTANT | HopForm.INTERVAL | HopForm.EMPTY:
            return None
        case HopForm.LAZY | HopForm.PRUNED | HopForm.OFF:
            return None
        case _:
            assert_never(hop.form)


def _keyed_pairs(
    hop: HopRecord,
    dataset: Place,
    source: Place,
    direction: Direction,
    files: HomeFiles,
    rids: tuple[int, ...] | None,
) -> str:
    """Pairs from the index file if there is one; from the source if that is cheaper and the source is unchanged."""
    if hop.backward is not None and (direction == "backward" or rids is None):
        return f"SELECT a, b FROM {files.index(hop.backward, 'a', rids)}"
    from lineage_service.capture.direct_indexing import DirectLookup
    from lineage_service.index.index_engine import direct_members

    body = body_of(hop)
    direct, handle = DirectLookup.from_json(body), str(body["handle"])
    places = [Place(source.run_id, source_space(name)) for name in direct.sources]
    changed = next(
        (name for name, each in zip(direct.sources, places, strict=True) if not files.is_unchanged(each)), None
    )
    if changed is not None:
        if hop.backward is not None:
            return f"SELECT a, b FROM {files.index(hop.backward)}"
        raise lazy_source_changed_error(changed, source.run_id)
    scans = [files.scan(place) for place in places]
    only: dict[int | None, Sequence[int]] = {}
    if rids is not None:
        number = None if direction == "backward" else int(handle[1:])
        near = files.scan(dataset) if number is None else scans[number]
        only[number] = [position for rid in rids if (position := near.position(rid)) is not None]
    distinct = "DISTINCT " if len(scans) > 1 else ""
    return f"SELECT {distinct}id AS a, {handle} AS b FROM ({direct_members(direct, scans, files.scan(dataset), only)})"


def formula_part(hop: HopRecord, before: str, role: str, direction: Direction) -> str:
    """Pairs computed from row numbers alone, for the rows in `before` (a, b, role)."""
    body = body_of(hop)
    shift, div, mod, low, high = (int(body[key]) for key in ("shift", "div", "mod", "low", "high"))
    if direction == "backward":
        value = f"(r.b + {shift})" if div == 1 else f"((r.b + {shift}) // {div})"
        value = f"({value} % {mod})" if mod else value
        return f"SELECT r.a, {value} AS b, {role} FROM {before} r WHERE r.b >= {low} AND r.b < {high}"
    if div == 1 and not mod:
        there = f"r.b - {shift} >= {low} AND r.b - {shift} < {high}"
        return f"SELECT r.a, r.b - {shift} AS b, {role} FROM {before} r WHERE {there}"
    if mod:
        # The rows low <= a < high with (a + shift) % mod = b: every mod-th, from the first on.
        first = f"({low} + ((r.b - ({low} + {shift})) % {mod} + {mod}) % {mod})"
        numbers = f"range({first}, {high}, {mod})"
        where = f" WHERE r.b >= 0 AND r.b < {mod}"
    else:
        numbers = f"range(greatest({low}, r.b * {div} - {shift}), least({high}, (r.b + 1) * {div} - {shift}))"
        where = ""
    role_name = "role_here"
    inner = f"SELECT r.a, unnest({numbers}) AS b, {role.removesuffix(' AS role')} AS {role_name} FROM {before} r{where}"
    return f"SELECT a, b, {role_name} AS role FROM ({inner})"


def interval_part(
    hop: HopRecord, before: str, role: str, direction: Direction, files: HomeFiles, *, pairs: bool
) -> str:
    """The rows that the intervals of a window add to the rows in `before` (a, b, role).

    Backward these are the positions inside the intervals, forward the rows whose interval contains a position.
    Intervals are expanded as late as possible. Without `pairs`, a is the same for all rows.
    """
    frames = int(body_of(hop)["frames"])
    stored = exclude_refreshed_rows(hop, f"SELECT * FROM {files.index(hop.backward)}", "a", files)
    if direction == "backward":
        ranges = " UNION ALL ".join(
            f"SELECT r.a, {role}, h.lo{n} AS lo, h.hi{n} AS hi FROM {before} r JOIN ({stored}) h ON h.a = r.b "
            f"WHERE h.lo{n} IS NOT NULL"
            for n in range(frames)
        )
        return _positions(merged_intervals(ranges, ["a", "role"]))
    if pairs:  # adjacent positions of one start are merged into one interval
        islands = merged_intervals(f"SELECT r.a, {role}, r.b AS lo, r.b AS hi FROM {before} r", ["a", "role"])
        return " UNION ALL ".join(
            f"SELECT r.a, h.a AS b, r.role FROM ({islands}) r JOIN ({stored}) h ON h.lo{n} <= r.hi AND h.hi{n} >= r.lo"
            for n in range(frames)
        )
    # The first position that is not before an interval's begin is inside it, or no position is.
    reached = f"SELECT r.a, r.b, {role} FROM {before} r"
    return " UNION ALL ".join(
        f"SELECT q.a, h.a AS b, q.role FROM (SELECT h.*, s.role AS wanted FROM ({stored}) h CROSS JOIN "
        f"(SELECT DISTINCT role FROM ({reached})) s) h ASOF JOIN ({reached}) q "
        f"ON q.role = h.wanted AND q.b >= h.lo{n} WHERE q.b <= h.hi{n}"
        for n in range(frames)
    )


def way_ranges(hop: HopRecord, ids: str, files: HomeFiles) -> str:
    """(a, lo, hi): the window intervals of the ids in column b of a relation."""
    stored = exclude_refreshed_rows(hop, f"SELECT * FROM {files.index(hop.backward)}", "a", files)
    return " UNION ALL ".join(
        f"SELECT h.a, h.lo{n} AS lo, h.hi{n} AS hi FROM ({stored}) h SEMI JOIN {ids} r ON r.b = h.a "
        f"WHERE h.lo{n} IS NOT NULL"
        for n in range(int(body_of(hop)["frames"]))
    )


def positions_in(ranges: str) -> str:
    """(b): every distinct position in a relation (lo, hi)."""
    islands = merged_intervals(f"SELECT 0 AS a, 0 AS role, lo, hi FROM {ranges}", ["a", "role"])
    return f"SELECT b FROM ({_positions(islands)})"


def _positions(intervals: str) -> str:
    """(a, b, role): every position in the intervals. Computed in chunks, because a list of all positions may not fit
    into memory.
    """
    pieces = f"SELECT a, role, hi, unnest(range(lo, hi + 1, {PIECE})) AS lo FROM ({intervals})"
    return f"SELECT a, unnest(range(lo, least(lo + {PIECE}, hi + 1))) AS b, role FROM ({pieces})"


def stored_file(hop: HopRecord, direction: Direction) -> str | None:
    """The file with a hop's pairs sorted for a direction; None if there is none or it is incomplete."""
    if refreshed_row_files(hop):
        return None
    match hop.form:
        case HopForm.PAIRS:
            return hop.backward if direction == "backward" else hop.forward
        case HopForm.COLUMN:
            return hop.forward if direction == "forward" else None
        case HopForm.KEYED:
            return hop.backward if direction == "backward" else None
        case HopForm.FORMULA | HopForm.EVERYTHING | HopForm.CONSTANT | HopForm.INTERVAL | HopForm.EMPTY:
            return None
        case HopForm.LAZY | HopForm.PRUNED | HopForm.OFF:
            return None
        case _:
            assert_never(hop.form)


def key_columns(way: Way) -> list[str] | None:
    """The columns of a dataset that identify the rows of its source; None if no columns do."""
    if way.hop is None or way.hop.form is not HopForm.KEYED or refreshed_row_files(way.hop):
        return None
    from lineage_service.capture.direct_indexing import DirectLookup

    direct = DirectLookup.from_json(body_of(way.hop))
    return direct.dataset_key_columns if direct.keys and len(direct.sources) == 1 else None


def keyed_rows(way: Way, keys: Sequence[Sequence[Any]], files: HomeFiles) -> str | None:
    """Source rows by key values instead of row ids, in key order; None if a value cannot be written as a literal."""
    assert way.hop is not None
    from lineage_service.capture.direct_indexing import DirectLookup

    direct = DirectLookup.from_json(body_of(way.hop))
    wanted = []
    for key in keys:
        same = [_equals(f"t0.{column(own)}", value) for (_, own, _), value in zip(direct.keys, key, strict=True)]
        if None in same:
            return None
        wanted.append(" AND ".join(map(str, same)))
    either = wanted[0] if len(wanted) == 1 else f"({' OR '.join(f'({each})' for each in wanted)})"
    where = " AND ".join([*direct.conditions, either])
    return f"SELECT t0.* FROM ({files.scan(way.end).select()}) t0 WHERE {where}"


def _equals(name: str, value: Any) -> str | None:
    """An equality predicate with a literal of a safe type, so that the scan itself can skip row groups."""
    match value:
        case None:
            return f"{name} IS NULL"
        case bool():
            return f"{name} = {str(value).lower()}"
        case int():
            return f"{name} = {value}"
        case Decimal():
            return f"{name} = {value:f}"
        case str():
            return f"{name} = {literal(value)}"
        case date():
            return f"{name} = DATE '{value.isoformat()}'"
        case _:
            return None
