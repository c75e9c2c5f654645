"""Old bytes removed: every file of a run in the home that no run needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lineage_catalog.reader import CatalogReader

from lineage_service.errors import StoreError
from lineage_service.query.held_files import files_of_runs
from lineage_service.store.layout import HomeLayout, is_at_work, is_marked_committed


@dataclass(frozen=True)
class Swept:
    """files and bytes that were removed · left: folders of runs that are at work or of another catalog."""

    files: int
    bytes: int
    left: tuple[str, ...]


def sweep(home: HomeLayout, reader: CatalogReader) -> Swept:
    """Removes what no committed run needs from the folders of runs that the catalog knows, or that nobody does.

    A run at work is left alone, and one that another catalog has.
    """
    held = {run.id for run in reader.runs()}
    needed = files_of_runs(reader, home, held)
    files = size = 0
    left = []
    for folder in sorted(home.runs.iterdir()) if home.runs.is_dir() else []:
        known = reader.run(folder.name) is not None
        if (not known and is_marked_committed(folder)) or is_at_work(folder):
            left.append(folder.name)
            continue
        for path in sorted(folder.rglob("*"), reverse=True):
            try:
                if path.is_dir() and not path.is_symlink():
                    if not any(path.iterdir()):
                        path.rmdir()
                elif str(path.relative_to(home.path)) not in needed:
                    size += path.stat().st_size
                    files += 1
                    path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = (error.strerror or type(error).__name__).lower()
                raise StoreError(f"old files could not be removed: '{path}': {reason}") from error
        if folder.name not in held and not any(folder.iterdir()):
            folder.rmdir()
    _sweep_spill(home)
    return Swept(files, size, tuple(left))


def _sweep_spill(home: HomeLayout) -> None:
    """What questions and engines left behind in the folder for that."""
    import shutil

    for path in home.spill.iterdir() if home.spill.is_dir() else []:
        if path.is_dir() and not is_at_work(path):
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            Path(path).unlink(missing_ok=True)
