"""Determines which files of a home are needed. `gc`, `doctor`, erasure, retention and every commit use this.

Runs share files, so the folder of a file does not show who needs it: a refreshed run reads files of the run before, and
an erasure replaces runs but keeps the files that it did not have to change. Files that the catalog names are needed,
wherever they are. Everything else in the folders of runs is left over.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import Commit, HopRecord, RunRecord, SubjectRecord

from lineage_service.errors import StoreError
from lineage_service.store.aligned_tables import ALIGNED, AlignedTables
from lineage_service.store.layout import COMMITTED, PUBLICATIONS, HomeLayout, RunFolder, paths_below
from lineage_service.store.lineage_tables import LineageTables
from lineage_service.store.session_settings import FILE as SETTINGS
from lineage_service.store.versions import Version

What = Literal["data", "positions", "index", "prepared", "subjects", "lineage", "note"]
SUCCESS = "_SUCCESS"
NOTES = (".lock", COMMITTED, SETTINGS, PUBLICATIONS)


@dataclass(frozen=True, slots=True)
class Reference:
    """A file, or a folder of files, that something in the catalog is read from. `path` is as in the catalog; `of` is
    the dataset, spaces or question that it belongs to. Only a `note` may be missing.
    """

    path: str
    what: What
    of: str = ""


@dataclass
class References:
    """What the runs in a catalog are read from. Raises StoreError if the catalog or a note cannot be read; then no
    files may be removed.
    """

    reader: CatalogReader
    home: HomeLayout
    _versions: dict[str, tuple[Reference, ...]] = field(default_factory=dict)

    def of_run(self, run: RunRecord, *, without: Collection[str] = ()) -> list[Reference]:
        """Everything from which a run's rows, lineage, prepared answers and subjects are read, including files outside
        of the home. For versions in `without`, only row ids are needed, no rows.
        """
        folder = self.home.run_folder(run.id)
        found = [Reference(self.home.relative(folder.path / name), "note") for name in NOTES]
        for dataset in self.reader.datasets(run.id):
            parts = self._cached_version_references(dataset.version_id, dataset.full_name)
            found += [each for each in parts if each.what != "data" or dataset.version_id not in without]
        for hop in self.reader.hops(run.id):
            found += _hop_references(hop)
        for made in self.reader.prepared_questions(run.id):
            found += [] if made.path is None else [Reference(made.path, "prepared", made.name)]
        return list(dict.fromkeys([*found, *self._table_references(run, folder)]))

    def of_commit(self, commit: Commit) -> list[Reference]:
        """What a run that is about to be committed will be read from."""
        found: list[Reference] = []
        for version in commit.versions:
            found += _version_references(Version.from_json(version.id, version.body), version.id)
        own = {version.id for version in commit.versions}
        for dataset in commit.datasets:
            found += (
                self._cached_version_references(dataset.version_id, dataset.full_name)
                if dataset.version_id not in own
                else ()
            )
        for hop in commit.hops:
            found += _hop_references(hop)
        for subject in commit.subjects:
            found += _subject_references(subject)
        return list(dict.fromkeys([*found, *self._table_references(commit.run, self.home.run_folder(commit.run.id))]))

    def files_of_runs(self, runs: Iterable[RunRecord], *, without: Collection[str] = ()) -> set[str]:
        """The files inside the home that any of these runs needs, relative to it."""
        found: set[str] = set()
        for run in runs:
            found |= self.inside(each.path for each in self.of_run(run, without=without))
        return found

    def inside(self, paths: Iterable[str]) -> set[str]:
        """The existing files in the home among these paths, and all files in folders among them."""
        found: set[str] = set()
        for path in dict.fromkeys(paths):
            whole = Path(self.home.absolute(path))
            if not whole.is_relative_to(self.home.path):
                # The home may go by two names, one of them a symbolic link.
                whole = whole.resolve()
                root = self.home.path.resolve()
                if not whole.is_relative_to(root):
                    continue
                whole = self.home.path / whole.relative_to(root)
            files = paths_below(whole) if whole.is_dir() else (whole,)
            found |= {str(each.relative_to(self.home.path)) for each in files if each.is_file()}
        return found

    def missing(self, references: Iterable[Reference]) -> list[Reference]:
        """The references inside the home that do not exist. Sources read in place are not part of the home."""
        return [each for each in references if each.what != "note" and self._is_lost(each.path)]

    def _is_lost(self, path: str) -> bool:
        whole = Path(self.home.absolute(path))
        if not whole.is_relative_to(self.home.path):
            return False
        return not any(whole.iterdir()) if whole.is_dir() else not whole.is_file()

    def _cached_version_references(self, version_id: str, name: str) -> tuple[Reference, ...]:
        if version_id not in self._versions:
            record = self.reader.version(version_id)
            if record is None:
                raise _unknown_needs_error(f"'{name}'")
            try:
                found = [*_version_references(Version.from_json(record.id, record.body), name)]
                for subject in self.reader.subjects(version_id):
                    found += _subject_references(subject)
            except (ValueError, KeyError, TypeError) as error:
                raise _unknown_needs_error(f"'{name}'") from error
            self._versions[version_id] = tuple(found)
        return self._versions[version_id]

    def _table_references(self, run: RunRecord, folder: RunFolder) -> Iterator[Reference]:
        """Lineage tables: those beside the index, and those from which an index or an answer will still be made."""
        try:
            aligned = AlignedTables.load(folder.index)
            waiting = LineageTables.load(folder)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise _unknown_needs_error(f"the lineage of run '{run.id}'", "a note in the run's folder") from error
        if aligned is not None:
            yield Reference(self.home.relative(folder.index / ALIGNED), "lineage", run.id)
            for space, rows in aligned.rows.items():
                yield from (Reference(path, "lineage", space) for path in rows.files)
        lazy = waiting is not None and any(rows.kind == "lazy" for rows in waiting.rows.values())
        if run.lineage == "complete" and not lazy:
            return  # an index was made of them
        if folder.lineage.is_dir():
            yield Reference(self.home.relative(folder.lineage), "note", run.id)
        for space, rows in waiting.rows.items() if waiting is not None else ():
            yield from (Reference(path, "lineage", space) for path in rows.files)


def _version_references(version: Version, name: str) -> Iterator[Reference]:
    for file in version.files:
        if version.expired is None:
            yield Reference(file.path, "data", name)
        yield from (Reference(path, "positions", name) for path in (file.without, file.only) if path is not None)
    if version.positions is not None:
        yield Reference(version.positions, "positions", name)


def _hop_references(hop: HopRecord) -> Iterator[Reference]:
    of = f"{hop.from_space} {hop.to_space}"
    yield from (Reference(path, "index", of) for path in (hop.backward, hop.forward) if path is not None)
    try:
        masks = json.loads(hop.body).get("without", ()) if hop.body is not None else ()
    except (ValueError, AttributeError) as error:
        raise _unknown_needs_error(f"the lineage of run '{hop.run_id}'") from error
    yield from (Reference(path, "positions", of) for path in masks)


def _subject_references(record: SubjectRecord) -> Iterator[Reference]:
    """The files that record which rows of a version belong to whom."""
    for layer in json.loads(record.body)["layers"]:
        paths = (layer["persons"], layer["rows"], *layer.get("without", ()))
        yield from (Reference(path, "subjects", record.kind) for path in paths)


def _unknown_needs_error(what: str, where: str = "the catalog") -> StoreError:
    return StoreError(
        f"what {where} holds of {what} is damaged: it cannot be determined which files are needed",
        hint="nothing was removed; `smoke-lineage doctor` looks closer",
    )


def files_of_run(reader: CatalogReader, home: HomeLayout, run_id: str) -> set[str]:
    """The files inside the home that one run needs, relative to it."""
    run = reader.run(run_id)
    return set() if run is None else References(reader, home).files_of_runs([run])


def held_runs(reader: CatalogReader) -> list[RunRecord]:
    """Runs whose rows can be read: committed ones, and those that failed a check and are kept under their id."""
    return [*reader.runs(), *reader.runs(status="failed")]


def with_companions(needed: Collection[str], files: Iterable[str]) -> set[str]:
    """`needed`, and those of these files that Spark wrote beside them: checksums and the success marker."""
    folders = {path.rpartition("/")[0] for path in needed}
    found = set(needed)
    for path in files:
        folder, _, name = path.rpartition("/")
        if name in (SUCCESS, f".{SUCCESS}.crc"):
            found |= {path} if folder in folders else set()
        elif name.startswith(".") and name.endswith(".crc") and f"{folder}/{name[1:-4]}" in needed:
            found.add(path)
    return found


def remove_unreferenced(references: References, commit: Commit) -> None:
    """Removes Parquet files in the folder of a run that were only intermediate results, just before its commit. Only
    for a run that is committed together with its lineage.
    """
    folder = references.home.run_folder(commit.run.id)
    needed = references.inside(each.path for each in references.of_commit(commit))
    for path in folder.path.rglob("*.parquet"):
        if not path.is_relative_to(folder.temporary) and references.home.relative(path) not in needed:
            path.unlink()
