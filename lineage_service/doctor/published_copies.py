"""Finds published copies that were moved, removed or changed after publication.

They are outside the home, where others may write, and no question reads them, so this is not damage of the home. But
readers of a copy expect what the run wrote, and an erasure expects the copy in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lineage_catalog.erasures import unfinished_erasures
from lineage_catalog.records import DatasetRecord

from lineage_service.audit.home_integrity import MOST_COMPARED
from lineage_service.doctor.diagnosis import HealthCheck, pluralise
from lineage_service.errors import join_names
from lineage_service.settings import command
from lineage_service.store.home_catalog import HomeCatalog
from lineage_service.store.layout import HomeLayout
from lineage_service.store.pending_publications import target_of, unpublished_copies
from lineage_service.store.published_folder import ChangedFiles, copies_beside, is_written_beside, read_mark

MOST = 10  # maximum number of copies listed individually


def copy_checks(home: HomeLayout, reader: HomeCatalog, *, deep: bool = False) -> Iterator[HealthCheck]:
    """Copies that are missing or differ from what the last run published. With `deep`, every byte is compared."""
    changed = ChangedFiles(None if deep else MOST_COMPARED)
    awaited = _pending_targets(home, reader)
    found = [
        check
        for target, record in _last_published(reader).items()
        if target not in awaited and not is_written_beside(target)
        for check in _copy_check(target, record, changed)
    ]
    yield from found[:MOST]
    if len(found) > MOST:
        summary = f"{pluralise(len(found) - MOST, 'more published output')} moved, removed or changed since"
        yield HealthCheck("published", "warning", summary)
    if changed.passed_over:
        again = command(home.path, "doctor", "--deep", catalog=home.catalog)
        summary = f"of {pluralise(changed.passed_over, 'large published file')} only the size was compared"
        yield HealthCheck("published", "note", summary, f"compare every byte: {again}")


def _last_published(reader: HomeCatalog) -> dict[Path, DatasetRecord]:
    """The output that was last published to each path."""
    found: dict[Path, DatasetRecord] = {}
    for run in reader.runs():  # newest first
        for record in reader.datasets(run.id):
            target = target_of(record)
            if target is not None:
                found.setdefault(target, record)
    return found


def _pending_targets(home: HomeLayout, reader: HomeCatalog) -> set[Path]:
    """Paths where a killed run or erasure still has to put a copy. These are reported separately."""
    with reader.connection() as connection:
        erasures = [json.loads(each.body) for each in unfinished_erasures(connection)]
    places = {Path(target) for body in erasures for target, _, _ in body.get("publications", ())}
    return places | {each.target for _, each in unpublished_copies(home, reader)}


def _copy_check(target: Path, record: DatasetRecord, changed: ChangedFiles) -> Iterator[HealthCheck]:
    again = f"run workflow '{record.workflow}' again to publish it once more"
    try:
        fault = _fault(target, record, changed)
        hint: str | None = f"the rows of the run are in the home; move the folder elsewhere, and {again}"
        if not target.exists():
            hint = f"{again}; an erasure cannot reach a copy that was moved"
    except OSError as error:
        fault, hint = f"cannot be examined: {(error.strerror or type(error).__name__).lower()}", None
    if fault is not None:
        yield HealthCheck("published", "warning", f"the copy of '{record.full_name}' at '{target}' {fault}", hint)


def _fault(target: Path, record: DatasetRecord, changed: ChangedFiles) -> str | None:
    if not target.exists():
        # Copies beside it were left by a killed run, which is reported separately.
        return None if copies_beside(target) else "was moved or removed since it was published"
    mark = read_mark(target)
    if mark is None:
        return "was replaced by something that smoke-lineage did not publish"
    if mark.workflow is not None and (mark.workflow, mark.output) != (record.workflow, record.name):
        return f"was replaced by one of '{mark.workflow}.{mark.output}'"
    wrong = changed.of(target, mark)
    return f"was changed since it was published: {join_names(wrong, 3)}" if wrong else None
