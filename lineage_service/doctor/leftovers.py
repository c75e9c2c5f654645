"""Finds unfinished operations and files that no run needs: exactly those that `gc` would remove."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_service.doctor.diagnosis import HealthCheck, pluralise, run_folders
from lineage_service.errors import join_names
from lineage_service.home import Home
from lineage_service.progress import format_bytes
from lineage_service.settings import command
from lineage_service.store.garbage_collection import catalog_mark
from lineage_service.store.home_catalog import HomeCatalog
from lineage_service.store.layout import HomeLayout, is_marked_by_another
from lineage_service.store.pending_publications import (
    interrupted_copies,
    orphaned_copies,
    published_targets,
    unpublished_copies,
)


def erasure_checks(reader: HomeCatalog) -> Iterator[HealthCheck]:
    """Erasures that were interrupted after their switch, so that old files still exist."""
    from lineage_catalog.erasures import unfinished_erasures

    with reader.connection() as connection:
        found = unfinished_erasures(connection)
    if found:
        summary = (
            f"{pluralise(len(found), 'erasure')} begun and not finished: {join_names([each.id for each in found], 3)}"
        )
        yield HealthCheck(
            "erasures", "problem", f"{summary}; old rows are still in files", "apply the plan again: audit apply"
        )


def publication_checks(home: HomeLayout, reader: HomeCatalog) -> Iterator[HealthCheck]:
    """Copies that a killed run did not publish, or left beside published ones. They contain rows."""
    again = f"finish it: {command(home.path, 'index', catalog=home.catalog)}; the next run and `gc` do so too"
    waiting = [f"'{each.target}' of run {run_id}" for run_id, each in unpublished_copies(home, reader)]
    if waiting:
        detail = f"{pluralise(len(waiting), 'output')} committed and not published yet: {join_names(waiting, 3)}"
        yield HealthCheck("published", "warning", detail, again)
    left = [f"'{path}'" for path in orphaned_copies(home, reader, published_targets(reader))]
    left += [f"'{path}'" for path in interrupted_copies(home, reader)]
    if left:
        copies = "1 copy" if len(left) == 1 else f"{len(left):,} copies"
        detail = f"{copies} that interrupted runs left: {join_names(left, 3)}"
        hint = f"remove them: {command(home.path, 'gc', catalog=home.catalog)}"
        yield HealthCheck("published", "warning", detail, hint)


def leftover_checks(home: HomeLayout, url: str, reader: HomeCatalog) -> Iterator[HealthCheck]:
    with Home.open(home.path, catalog=url) as opened:
        found = opened.gc(dry_run=True)
    own = catalog_mark(home, reader)
    marked = [each for each in run_folders(home) if is_marked_by_another(each, own)]
    unknown = [folder for folder in marked if reader.run(folder.name) is None]
    if unknown:
        summary = join_names([folder.name for folder in unknown], 3)
        detail = f"{pluralise(len(unknown), 'finished run')} that this catalog does not know: {summary}"
        hint = "is the home used with another catalog too? `gc` leaves them alone"
        yield HealthCheck("leftovers", "warning", detail, hint)
    if found["removed"]:
        detail = f"{pluralise(found['removed'], 'folder')} with files that no run needs, {format_bytes(found['bytes'])}"
        yield HealthCheck("leftovers", "note", detail, f"remove them: {command(home.path, 'gc', catalog=home.catalog)}")
    elif not unknown:
        yield HealthCheck("leftovers", "ok", "none")
