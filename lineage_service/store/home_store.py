"""A home on disk: its catalog, opened when first needed, and all writes to the catalog.

Files are written first, then one transaction. After a write, records are read again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self

from lineage_catalog.engine import connect, require_head, truncate_write_ahead_log, url_without_password
from lineage_catalog.records import Commit, Lineage
from lineage_catalog.schema_upgrade import migrate
from sqlalchemy import Engine

from lineage_service.errors import NotFound, Problem
from lineage_service.settings import catalog_url, home_path
from lineage_service.store.dataset_names import find_dataset
from lineage_service.store.file_records import forget_removed, with_noted_files
from lineage_service.store.home_catalog import HomeCatalog, catalog_errors, has_catalog, open_catalog
from lineage_service.store.layout import HomeLayout, commit_lock, is_at_work, sweep_lock, translate_disk_errors
from lineage_service.store.location import check_location
from lineage_service.store.permissions import is_private, make_private
from lineage_service.store.versions import Version


class HomeStore:
    """A home: its folder, and the catalog at `url`. Opening it starts nothing. Close it when done."""

    def __init__(self, layout: HomeLayout, url: str) -> None:
        self.layout = layout
        self.url = url
        self._reader: HomeCatalog | None = None

    @classmethod
    def at(cls, path: str | Path | None = None, catalog: str | None = None) -> Self:
        """The home at `path` (otherwise SMOKE_HOME, the nearest .smoke, or a new .smoke here), with the catalog at that
        URL (otherwise SMOKE_CATALOG, or the home's own). Creates nothing. Raises StoreError if there cannot be a home.
        """
        folder = home_path(path)
        url = catalog_url(folder, catalog)
        check_location(folder, url)
        return cls(HomeLayout(folder, None if catalog is None else url_without_password(catalog)), url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # --- reading ----------------------------------------------------------------------------------------------

    @property
    def reader(self) -> HomeCatalog:
        """The catalog. Raises NotFound if there is none."""
        if self._reader is None:
            self._reader = open_catalog(self.layout, self.url)
        return self._reader

    def has_catalog(self) -> bool:
        return has_catalog(self.layout, self.url)

    def has_runs(self) -> bool:
        """Whether there may be runs. Runs without a catalog are an error: the catalog may just not have been named."""
        return (self.layout.runs.is_dir() and any(self.layout.runs.iterdir())) or self.has_catalog()

    def version_of(self, dataset: str) -> Version:
        """The version that a dataset's name means now. Raises NotFound if no committed run made it."""
        if not self.reader.in_snapshot:
            with self.reader.snapshot():
                return self.version_of(dataset)
        found = find_dataset(self.reader, dataset, str(self.layout.path))
        run = self.reader.run(found.run_id)
        if run is not None and run.status != "committed":
            raise NotFound(
                f"run '{run.id}' failed a check and is not committed: '{found.full_name}' cannot be read of it"
            )
        version = self.known_version(found.version_id)
        if version is None:
            raise NotFound(f"version '{found.version_id}' is not in the catalog of '{self.layout.path}'")
        return version

    def known_version(self, version_id: str) -> Version | None:
        """The version with this id; None if the catalog has none."""
        record = self.reader.version(version_id)
        return None if record is None else Version.from_json(record.id, record.body)

    # --- writing ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Prepares the home for writing, with a catalog of the current revision."""
        with translate_disk_errors(self.layout.path):
            self.layout.runs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.layout.path / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
            self.layout.spill.mkdir(mode=0o700, exist_ok=True)
            if not is_private(self.layout.path):  # new, or of a version that did not care
                make_private(self.layout.path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two first runs at once must not both create the catalog
            with catalog_errors(self.layout):
                engine = connect(self.url)
                if not require_head(engine):
                    migrate(self.url)
                engine.dispose()
            make_private(*self.layout.path.glob("catalog.db*"))
        finally:
            os.close(lock)

    def release(self) -> None:
        """Discards cached records before the catalog is written."""
        if self._reader is not None:
            self._reader.release()

    @contextmanager
    def writing(self) -> Iterator[Engine]:
        """An engine to write the catalog with. Its errors name the home."""
        self.release()
        with catalog_errors(self.layout):
            engine = connect(self.url)
            try:
                yield engine
            finally:
                engine.dispose()

    @contextmanager
    def erasing(self) -> Iterator[Engine]:
        """The same for erasures: the write-ahead log is emptied at the end."""
        with self.writing() as engine:
            yield engine
            truncate_write_ahead_log(engine)

    def commit(self, commit: Commit, erasures: int) -> None:
        """Commits a run whose files are complete, unless persons were erased since `erasures` were counted."""
        from lineage_catalog.writer import ErasedMeanwhile, commit_run

        from lineage_service.store.garbage_collection import LostFiles, catalog_mark, refuse_lost_files
        from lineage_service.store.publications import withdraw

        self.release()
        folder = self.layout.run_folder(commit.run.id)
        make_private(folder.path)
        # Killed at any point, other catalogs leave it alone.
        folder.mark_committed(catalog_mark(self.layout, self.reader))
        with commit_lock(self.layout), self.writing() as engine:
            try:
                if self.reader.erasures() == erasures:  # else it is refused for that reason
                    refuse_lost_files(self.layout, self.reader, commit)
                commit_run(engine, with_noted_files(commit, self.layout), erasures)
            except (ErasedMeanwhile, LostFiles):
                withdraw(folder)
                folder.remove()  # surely not committed; it may hold what was erased
                raise

    def commit_lineage(self, lineage: Lineage) -> bool:
        """Commits the lineage of a run. Returns False if it was committed already."""
        from lineage_catalog.writer import commit_lineage

        make_private(self.layout.run_folder(lineage.run_id).path)
        with commit_lock(self.layout), self.writing() as engine:
            return commit_lineage(engine, lineage)

    # --- copies that are published ----------------------------------------------------------------------------

    def publish(self, run_id: str) -> list[Problem]:
        """Publishes the copies of a committed run. Returns problems."""
        from lineage_service.store.pending_publications import publish

        return publish(self.layout, self.reader, run_id)

    def finish_publications(self, *, by_name: bool = False) -> tuple[Problem, ...]:
        """Publishes or removes copies that killed runs left pending. With `by_name`, also those that no run's note
        mentions. Returns problems.
        """
        from lineage_service.store.pending_publications import finish_publications, remove_orphaned_copies

        done = finish_publications(self.layout, self.reader)
        if by_name:
            done = replace(done, removed=(*done.removed, *remove_orphaned_copies(self.layout, self.reader)))
        return tuple(done.problems)

    # --- what nobody needs ------------------------------------------------------------------------------------

    def sweep(self, *, dry_run: bool) -> dict[str, int]:
        """Removes files that no committed run needs, and runs that failed a check. Returns numbers of folders and
        bytes.
        """
        from lineage_service.store.garbage_collection import sweep

        if not self.has_runs():
            return {"removed": 0, "bytes": 0}
        with nullcontext() if dry_run else sweep_lock(self.layout):
            failed = [run.id for run in self.reader.runs(status="failed")]
            idle = {run_id for run_id in failed if not is_at_work(self.layout.run_folder(run_id).path)}
            if not dry_run:
                self.forget_runs(sorted(idle))
            swept = sweep(self.layout, self.reader, dry_run=dry_run, without=idle)
        if not dry_run:
            with self.writing() as engine:
                forget_removed(engine, self.layout)
        return {"removed": swept.folders, "bytes": swept.bytes}

    def forget_runs(self, run_ids: Sequence[str]) -> None:
        """Removes runs from the catalog, which must happen before their files are removed."""
        from lineage_catalog.writer import forget_runs

        if run_ids:
            with self.writing() as engine:
                forget_runs(engine, run_ids)
