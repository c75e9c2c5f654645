"""Removes files that no run needs: of interrupted, replaced and expired runs.

`References` determines for each file whether it is needed, in whatever folder it is. No run can be committed during the
removal. A run committed before it is taken into account; a run committed after it checks whether the files that it
shares still exist.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import Commit

from lineage_service.errors import RunError, StoreError, join_names
from lineage_service.store.layout import (
    COMMITTED,
    PUBLICATIONS,
    HomeLayout,
    is_at_work,
    is_marked_by_another,
    paths_below,
    size_of,
    try_lock,
    unfinished_folders,
)
from lineage_service.store.references import References, held_runs, with_companions

OWN = (".lock", COMMITTED)  # what says something about a folder, and is not needed for itself


class LostFiles(RunError):
    """A run shares files that no longer exist, and was certainly not committed."""


@dataclass(frozen=True)
class SweepResult:
    """What was removed.

    folders: the number of folders from which something was removed
    files, bytes: removed files
    left: folders of runs in progress or of another catalog
    """

    folders: int
    files: int
    bytes: int
    left: tuple[str, ...]


def sweep(
    home: HomeLayout,
    reader: CatalogReader,
    *,
    dry_run: bool = False,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    spill: bool = True,
) -> SweepResult:
    """Removes files that no held run needs from the folders of runs, known to the catalog or not.

    Runs in progress and runs of another catalog are left alone. The caller must hold `sweep_lock`, unless it is a dry
    run.
    without: held runs that do not count
    only: the folders to examine
    spill: also removes what is left in the folder of temporary files
    """
    folders = sorted(home.runs.iterdir()) if home.runs.is_dir() else []
    # Locks first, then the catalog: a run that commits in between must be seen as committed.
    busy = {folder.name for folder in folders if is_at_work(folder)}
    reader.release()
    with reader.snapshot():
        held = [run for run in held_runs(reader) if run.id not in without] if folders else []
        needed = References(reader, home).files_of_runs(held)
    # Copies outside of the home that could not be put in place, or be removed: without the note nobody would find them.
    needed |= {home.relative(each / PUBLICATIONS) for each in folders if (each / PUBLICATIONS).is_file()}
    marked = {path.split("/")[1] for path in needed if path.startswith("runs/") and path.rpartition("/")[2] not in OWN}
    known = {run.id for run in held}
    failed = {run.id for run in held if run.status == "failed"}
    touched = files = size = 0
    left = []
    own = catalog_mark(home, reader)
    for folder in folders:
        if only is not None and folder.name not in only:
            continue
        unknown = reader.run(folder.name) is None
        if folder.name in busy or (unknown and is_marked_by_another(folder, own)):
            left.append(folder.name)
            continue
        keep = folder.name in known or folder.name in marked
        count, bytes_ = _sweep_folder(home, folder, needed, keep=keep, dry_run=dry_run)
        if keep and not dry_run and folder.is_dir():
            # Another catalog leaves it alone; this one must be able to remove it once it has forgotten the run.
            home.run_folder(folder.name).mark_committed(own if unknown or folder.name in failed else "")
        touched, files, size = touched + bool(count), files + count, size + bytes_
    if spill:
        for folder in unfinished_folders(home):
            size += sum(map(size_of, paths_below(folder)))
            touched += 1
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
    return SweepResult(touched, files, size, tuple(left))


def catalog_mark(home: HomeLayout, reader: CatalogReader) -> str:
    """The text by which a folder's mark identifies this catalog, without user name or password."""
    database = reader.engine.url.database or ""
    where = home.relative(database) if reader.engine.dialect.name == "sqlite" else str(reader.engine.url)
    return hashlib.sha256(where.encode()).hexdigest()[:16]


def _sweep_folder(
    home: HomeLayout, folder: Path, needed: Collection[str], *, keep: bool, dry_run: bool
) -> tuple[int, int]:
    """The number and bytes of files removed from the folder of a run. The folder itself is removed if it is not kept.
    An empty folder counts as one file.
    """
    if not folder.is_dir():
        return 0, 0
    had_lock = (folder / ".lock").exists()
    lock = None if dry_run else try_lock(folder)
    if not dry_run and lock is None:
        return 0, 0  # somebody has begun to work on it
    try:
        going = files_left_over(home, folder, needed, keep=keep)
        size = sum(map(size_of, going))
        count = len(going) if keep else max(1, len(going))
        if not dry_run:
            _remove(going, folder, keep=keep)
            if not had_lock:
                (folder / ".lock").unlink(missing_ok=True)
        return count, size
    finally:
        if lock is not None:
            os.close(lock)


def files_left_over(home: HomeLayout, folder: Path, needed: Collection[str], *, keep: bool) -> list[Path]:
    """Files in the folder of a run that are not needed. With `keep`, the folder and its mark stay."""
    there = [*paths_below(folder)]
    kept = with_companions(needed, (home.relative(path) for path in there))
    going = [path for path in there if home.relative(path) not in kept]
    return [path for path in going if not (keep and path.parent == folder and path.name in OWN)]


def _remove(paths: Collection[Path], folder: Path, *, keep: bool) -> None:
    try:
        for path in paths:
            path.unlink(missing_ok=True)
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                path.rmdir()
        if not keep:
            (folder / ".lock").unlink(missing_ok=True)  # ours, where it was not there before
            folder.rmdir()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"old files could not be removed: '{error.filename or folder}': {reason}") from error


def sweep_spill(home: HomeLayout) -> None:
    """Removes temporary files that questions and engines left behind."""
    for path in home.spill.iterdir() if home.spill.is_dir() else []:
        if path.is_dir() and not is_at_work(path):
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            path.unlink(missing_ok=True)


def refuse_lost_files(home: HomeLayout, reader: CatalogReader, commit: Commit) -> None:
    """Raises RunError if a run that is about to be committed shares files that were removed since it began, because an
    earlier run was erased or expired. The caller must hold `commit_lock`.
    """
    brought = {version.id for version in commit.versions}
    lost = [
        each.full_name
        for each in commit.datasets
        if each.version_id not in brought and reader.version(each.version_id) is None
    ]
    if not lost:
        references = References(reader, home)
        lost = [each.path for each in references.missing(references.of_commit(commit))]
    if lost:
        shown = join_names([f"'{each}'" for each in lost], 3)
        raise LostFiles(
            f"the run could not be committed: files that it shares with earlier runs were removed: {shown}",
            hint="nothing was changed; try again",
        )
