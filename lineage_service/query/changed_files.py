"""Detects source files that changed after a run read them.

Row ids are positions in files. Rows of a changed file are therefore not returned: the same row id could now denote a
different row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import SourceError
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.walk_sql import Start
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import has_changed

if TYPE_CHECKING:
    import pyarrow as pa

NAMED = 3  # number of file names in a message
HINT = (
    "rids, pairs and counts are still answered, and with --unchanged the rows of the other files; `snapshot: true` "
    "keeps rows answerable"
)


def changed_files(scan: VersionScan) -> list[int]:
    """The numbers of the files that have changed since the run. Files inside the home are written once and never
    change.
    """
    if scan.version.kind != "source":
        return []
    files = zip(scan.version.files, scan.paths, strict=True)
    return [index for index, (file, path) in enumerate(files) if has_changed(file, path)]


def refuse_changed(
    dataset: DatasetRecord, scan: VersionScan, files: Iterable[int], held: Mapping[int, int] | None = None
) -> None:
    """Raises SourceError if one of these files has changed, or if the rows are past their retention.

    `held` gives the number of requested rows in each file. A changed file that holds none of them is ignored.
    """
    if scan.version.expired is not None:
        raise SourceError(
            f"the rows of '{dataset.full_name}' are gone: run '{scan.version.expired}', which made them, is past its "
            "retention",
            hint="rids, pairs and counts are still answered",
        )
    if scan.version.kind != "source":
        return
    wanted = [index for index in files if held is None or held.get(index)]
    changed = [index for index in wanted if has_changed(scan.version.files[index], scan.paths[index])]
    if changed:
        total = None if held is None else sum(held.values())
        rows = None if held is None else sum(held[index] for index in changed)
        paths = [scan.paths[index] for index in changed]
        raise changed_error(dataset.full_name, dataset.run_id, paths, rows, total)


def changed_error(
    source: str, run_id: str, paths: list[str], rows: int | None = None, total: int | None = None, hint: str = HINT
) -> SourceError:
    """The error for changed files: which files they are, and how many of the requested rows they hold."""
    happened = "has changed since" if any(Path(path).exists() for path in paths) else "is no longer where it was in"
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    quoted = ", ".join(f"'{path}'" for path in paths[:NAMED])
    named = f"file{'s' if len(paths) > 1 else ''} {quoted}{more}"
    held = ""
    if rows is not None and total is not None:
        held = f", with {rows:,} of the {total:,} rows asked for" if total > 1 else ", with the row asked for"
    return SourceError(f"source '{source}' {happened} run '{run_id}': {named}{held}", hint=hint)


def files_holding(scan: VersionScan, ids: pa.Array) -> dict[int, int]:
    """The files that hold these rids, and how many of the rids each holds. The rids must be distinct and sorted."""
    import pyarrow.compute as pc

    version = scan.version
    if version.is_patched and version.kind != "source":  # which file does not matter: all are ours
        return dict.fromkeys(range(len(version.files)), len(ids))
    positions = ids if version.is_dense or version.is_patched else positions_of(scan, ids)
    found = {}
    for index, file in enumerate(version.files):
        if file.only is not None:
            rows = pc.sum(pc.is_in(positions, value_set=scan.given_rids(index))).as_py() or 0
        else:
            begin, end = place_of(positions, file.base), place_of(positions, file.base + file.rows)
            rows = end - begin
            if rows and file.without is not None:
                here = positions.slice(begin, rows)
                rows -= pc.sum(pc.is_in(here, value_set=scan.removed_rids(index))).as_py() or 0
        if rows:
            found[index] = int(rows)
    return found


def engine_counts(engine: QueryEngine, scan: VersionScan, table: str) -> dict[int, int]:
    """Like `files_holding`, for rids in a table that are too many to hold in memory."""
    found = {}
    for index in range(len(scan.paths)):
        rids = scan.rids_of_file(index)
        found[index] = engine.scalar(f"SELECT count(*) FROM ({rids}) f SEMI JOIN {table} s ON s.b = f.b")
    return found


def unchanged_start(
    engine: QueryEngine, dataset: DatasetRecord, scan: VersionScan, start: Start
) -> tuple[Start, tuple[str, ...]]:
    """Restricts a start to the rows of unchanged files. Also returns the notes about the rows left out."""
    changed = changed_files(scan)
    if not changed:
        return start, ()
    given = engine.keep_ids(start.ids) if start.ids is not None else None
    relation, parameters = (f"SELECT b FROM {given}", []) if given else start.relation(scan.all_rids())
    gone = " UNION ALL ".join(scan.rids_of_file(index) for index in changed)
    kept = engine.keep(f"SELECT r.b FROM ({relation}) r ANTI JOIN ({gone}) g ON g.b = r.b", parameters)
    total = engine.scalar(f"SELECT count(*) FROM ({relation})", parameters)
    rows = total - engine.scalar(f"SELECT count(*) FROM {kept}")
    if given:
        engine.drop(given)
    if not rows:
        return Start(table=kept), ()
    error = changed_error(dataset.full_name, dataset.run_id, [scan.paths[index] for index in changed])
    what = "1 row is" if rows == 1 else f"{rows:,} rows are"
    return Start(table=kept), (f"{what} not shown: {error.problems[0].message}",)


def positions_of(scan: VersionScan, ids: pa.Array) -> pa.Array:
    import pyarrow as pa

    rids = scan.version.rids
    found = [position for rid in ids.to_pylist() if (position := rids.position(rid)) is not None]
    return pa.array(found, pa.int64())


def place_of(positions: pa.Array, value: int) -> int:
    return bisect_left(positions, value, key=value_of)


def value_of(scalar: Any) -> int:
    return int(scalar.as_py())
