"""The additional checks of `doctor --deep`: every file that a run needs is read completely."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_service.doctor.diagnosis import MOST, HealthCheck
from lineage_service.progress import format_bytes
from lineage_service.store.file_integrity import damaged_files, lost_files
from lineage_service.store.home_catalog import HomeCatalog
from lineage_service.store.layout import HomeLayout
from lineage_service.store.references import References, held_runs


def deep_checks(home: HomeLayout, reader: HomeCatalog) -> Iterator[HealthCheck]:
    """Reads all files that runs need completely."""
    found = [(run, each.path, "missing") for run, each in lost_files(reader, home)]
    found += list(damaged_files(reader, home))
    for run, path, fault in found[:MOST]:
        again = f"restore it from a backup, or run workflow '{run.workflow}' again; what is lost of this run stays lost"
        yield HealthCheck("deep", "problem", f"run {run.id} ({run.workflow}): '{path}': {fault}", again)
    if len(found) > MOST:
        yield HealthCheck("deep", "problem", f"{len(found) - MOST:,} more files that runs need are missing or damaged")
    if not found:
        needed = References(reader, home).files_of_runs(held_runs(reader))
        size = sum((home.path / path).stat().st_size for path in needed)
        yield HealthCheck(
            "deep", "ok", f"{len(needed):,} files that runs need, {format_bytes(size)}, were read completely"
        )
