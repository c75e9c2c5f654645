"""What a walk needs to know of the home: where index files are, the rows and row ids of datasets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_catalog.records import HopRecord

from lineage_service.errors import SourceError
from lineage_service.query.graph import Place
from lineage_service.store.checksums import refuse_missing, verify_below
from lineage_service.store.engine import file_literal, spelled
from lineage_service.store.scan import VersionScan
from lineage_service.store.versions import has_changed


@dataclass(frozen=True)
class HomeFiles:
    """Index files and dataset files of a home. `scan` gives the rows of a place that is a dataset."""

    absolute: Callable[[str], str]
    scan: Callable[[Place], VersionScan]

    def index(self, path: str | None) -> str:
        """An index file as a scan names it; an index that Spark made is a folder of files."""
        found = self.absolute(str(path))
        return f"read_parquet({index_literal(found)})"

    def rids(self, place: Place) -> str:
        """All row ids of a dataset, as column b."""
        return self.scan(place).all_rids()

    def is_unchanged(self, place: Place) -> bool:
        """Whether the rows of a dataset are what they were."""
        scan = self.scan(place)
        if scan.version.kind != "source":
            return True
        return not any(has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True))


def captured_no_more(source: str, run_id: str) -> SourceError:
    """What is told where lineage was left until somebody asks, and its source has changed before."""
    return SourceError(
        f"source '{source}' has changed since run '{run_id}': lineage was to be captured when asked for, and cannot be "
        "any more",
        hint="run the workflow again; --capture auto keeps an index",
    )


def index_literal(path: str) -> str:
    if path.endswith(".parquet"):
        return file_literal(path)
    verify_below(path)
    return f"{spelled(path)[:-1]}/*.parquet'"


def index_files(path: str) -> list[str]:
    """The files of an index, in the order of their pairs. Who reads them compares them first, as far as they are read;
    of a folder nothing may be missing."""
    if path.endswith(".parquet"):
        return [path]
    found = sorted(str(file) for file in Path(path).glob("*.parquet"))
    refuse_missing(path, found)
    return found


def body_of(hop: HopRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hop.body or "{}")
    return found
