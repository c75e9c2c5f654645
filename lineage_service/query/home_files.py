"""Locates the index files and dataset rows that a walk reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_catalog.records import HopRecord

from lineage_service.errors import SourceError
from lineage_service.query.lineage_graph import Place
from lineage_service.store.checksums import refuse_missing, verify_below, verify_values
from lineage_service.store.duckdb_engine import file_literal, unverified_file_literal
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import has_changed


@dataclass(frozen=True)
class HomeFiles:
    """Index files and dataset files of a home. `scan` returns the rows of a place that is a dataset."""

    absolute: Callable[[str], str]
    scan: Callable[[Place], VersionScan]

    def index(self, path: str | None, near: str = "a", rids: Sequence[int] | None = None) -> str:
        """The scan of an index file. An index that Spark wrote is a folder of files.

        If `rids` of the column `near` are given, only the row groups that can contain them are verified and read.
        """
        return index_scan(self.absolute(str(path)), near, rids)

    def rids(self, place: Place) -> str:
        """All row ids of a dataset, as column b."""
        return self.scan(place).all_rids()

    def is_unchanged(self, place: Place) -> bool:
        """Whether the files of a dataset are unchanged since the run."""
        scan = self.scan(place)
        if scan.version.kind != "source":
            return True
        return not any(has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True))


def lazy_source_changed_error(source: str, run_id: str) -> SourceError:
    """The error for lineage that was to be captured on demand, when its source has changed since."""
    return SourceError(
        f"source '{source}' has changed since run '{run_id}': lineage was to be captured when asked for, and cannot be "
        "any more",
        hint="run the workflow again; --capture auto keeps an index",
    )


def index_scan(path: str, near: str = "a", rids: Sequence[int] | None = None) -> str:
    """The rows of an index. With `rids`, at least all rows that have one of them in the column `near`."""
    if rids is None:
        return f"read_parquet({index_literal(path)})"
    parts: list[str] = []
    files = index_files(path)
    for file in files:
        rows, scan = verify_values(file, near, rids), f"read_parquet({unverified_file_literal(file)})"
        if rows is None:
            parts.append(scan)
        elif rows:
            # Selected here, not by statistics: an unverified, damaged id could equal a requested one.
            compared = " OR ".join(f"file_row_number BETWEEN {begin} AND {end - 1}" for begin, end in rows)
            parts.append(f"(SELECT * FROM {scan} WHERE {compared})")
    if not parts:
        return f"(SELECT * FROM read_parquet({unverified_file_literal(files[0])}) WHERE false)"
    return parts[0] if len(parts) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in parts)})"


def index_literal(path: str) -> str:
    if path.endswith(".parquet"):
        return file_literal(path)
    verify_below(path)
    return f"{unverified_file_literal(path)[:-1]}/*.parquet'"


def index_files(path: str) -> list[str]:
    """The files of an index, in the order of their pairs. Raises an error if a file of a folder is missing. Callers
    must verify what they read.
    """
    if path.endswith(".parquet"):
        return [path]
    found = sorted(str(file) for file in Path(path).glob("*.parquet"))
    refuse_missing(path, found)
    return found


def body_of(hop: HopRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hop.body or "{}")
    return found
