"""Verifies that a home is intact: files by checksum, records by seal, and the key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from lineage_catalog.audit import last_entry
from lineage_catalog.reader import CatalogReader

from lineage_service.errors import DamagedFile, StoreError
from lineage_service.store.aligned_tables import AlignedTables
from lineage_service.store.checksums import forget, noted_below, verify, verify_groups
from lineage_service.store.home_key import NAME, VARIABLE, existing_key
from lineage_service.store.layout import HomeLayout
from lineage_service.store.lineage_tables import LineageTables
from lineage_service.store.versions import Version

MOST_COMPARED = 2 << 30  # limit of bytes that are compared without `deep`: takes some seconds


@dataclass
class ChecksumComparison:
    """Compares files with their checksums: all files with `deep`, otherwise up to a number of bytes."""

    home: HomeLayout
    reader: CatalogReader
    deep: bool = False
    compared: int = 0
    passed_over: int = 0
    old_runs: set[str] = field(default_factory=set)
    _seen: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        forget()  # ignores earlier comparisons of this process

    def faults(self, run_id: str) -> list[str]:
        """Missing or damaged files that a run needs, by name."""
        noted = self.reader.files(run_id)
        if not noted:
            self.old_runs.add(run_id)
        notes = (f"runs/{run_id}/{path}" for path in noted if path.endswith(".json"))
        paths = dict.fromkeys([*notes, *needed_paths(self.reader, run_id), *self._tables(run_id)])
        found = (self._cached_fault(path) for path in paths)
        return [each for each in found if each is not None]

    def _tables(self, run_id: str) -> list[str]:
        """Lineage tables: those beside the index, and those that an index or a question will still be made from."""
        folder = self.home.run_folder(run_id)
        try:
            kept = [AlignedTables.load(folder.index), LineageTables.load(folder)]
        except DamagedFile:
            return []  # reported for the note itself
        return [path for tables in kept if tables for rows in tables.rows.values() for path in rows.files]

    def _cached_fault(self, path: str) -> str | None:
        if path not in self._seen:
            self._seen[path] = self._file_fault(path, Path(self.home.absolute(path)))
        return self._seen[path]

    def _folder_fault(self, folder: str) -> str | None:
        for path in noted_below(folder):
            try:
                verify(path)
            except DamagedFile:
                return f"'{self.home.relative(Path(path))}' is not as it was written"
        return None

    def _file_fault(self, path: str, whole: Path) -> str | None:
        if not whole.is_relative_to(self.home.path):
            return None  # a source that is read in place
        try:
            if not path.endswith((".parquet", ".json")):  # an index that Spark wrote
                return self._folder_fault(str(whole))
            if not whole.is_file():
                return f"'{path}' is missing"
            if self.deep or self.compared + whole.stat().st_size <= MOST_COMPARED:
                self.compared += whole.stat().st_size
                verify(str(whole))
            else:
                self.passed_over += 1
                verify_groups(str(whole))
        except DamagedFile:
            return f"'{path}' is not as it was written"
        return None


def needed_paths(reader: CatalogReader, run_id: str) -> Iterator[str]:
    """The files that a run refers to, whether they exist or not."""
    for dataset in reader.datasets(run_id):
        record = reader.version(dataset.version_id)
        if record is None:
            continue
        version = Version.from_json(record.id, record.body)
        for file in version.files:
            if version.kind != "source" and version.expired is None:
                yield file.path
            yield from (side for side in (file.without, file.only) if side is not None)
        if version.positions is not None:
            yield version.positions
        for subjects in reader.subjects(record.id):
            for layer in json.loads(subjects.body)["layers"]:
                yield from (layer["persons"], layer["rows"], *layer.get("without", ()))
    for hop in reader.hops(run_id):
        yield from (path for path in (hop.backward, hop.forward) if path is not None)
        yield from json.loads(hop.body or "{}").get("without", ())
    yield from (made.path for made in reader.prepared_questions(run_id) if made.path is not None)


def key_fault(home: HomeLayout, reader: CatalogReader) -> str | None:
    """The problem with the key: lost, damaged, or not the one used for the log and the persons' hashes."""
    with reader.connection() as connection:
        last = last_entry(connection)
    noted = set() if last is None else {last.key_id}
    for run in reader.runs():
        for dataset in reader.datasets(run.id):
            noted |= {each.key_id for each in reader.subjects(dataset.version_id)}
    try:
        key = existing_key(home)
    except StoreError as error:
        return error.problems[0].message
    if key is None and noted:
        return f"'{NAME}' is lost: the log and the hashes of persons were made with it (key {', '.join(sorted(noted))})"
    if key is not None and noted and key.id not in noted:
        where = f"'{NAME}', or the one given by {VARIABLE},"
        return (
            f"{where} is not the key that the log and the hashes of persons were made with ({', '.join(sorted(noted))})"
        )
    return None


def has_sorted_row_groups(footers: list[Any], direction: str) -> bool:
    """Whether the statistics of row groups are ascending, as in a sorted file."""
    column = 0 if direction == "backward" else 1
    groups = [
        footer.row_group(number).column(column).statistics
        for footer in footers
        for number in range(footer.num_row_groups)
    ]
    if any(group is None or not group.has_min_max for group in groups):
        return False
    return all(before.max <= behind.min for before, behind in pairwise(groups))


def unreported_faults(faults: list[str], reported: list[str]) -> list[str]:
    """Faults of files that were not reported yet."""
    return [each for each in faults if not any(each.split("'")[1] in other for other in reported)]
