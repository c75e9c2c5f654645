"""All files in a home that a run needs. Runs share files, so nothing may be removed by folder: only what none needs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import HopRecord

from lineage_service.store.aligned import ALIGNED, AlignedTables
from lineage_service.store.layout import COMMITTED, HomeLayout
from lineage_service.store.session_settings import FILE as SETTINGS
from lineage_service.store.tables import LineageTables
from lineage_service.store.versions import Version


def files_of_run(reader: CatalogReader, home: HomeLayout, run_id: str, *, without: Collection[str] = ()) -> set[str]:
    """The files inside the home that a run's rows, lineage, prepared answers and subjects are read from.

    Paths are relative to the home. Sources read in place are not the home's, and so are not among them; nor is what is
    merely left over in the run's folder. Of the versions `without` the rows are not needed, only which rows there are.
    """
    folder = home.run_folder(run_id)
    notes = [folder.path / name for name in (".lock", COMMITTED, SETTINGS)]
    versions = list(dict.fromkeys(each.version_id for each in reader.datasets(run_id)))
    named = [
        *(str(path) for path in notes),
        *(path for each in versions for path in _of_version(reader, each, rows=each not in without)),
        *(path for hop in reader.hops(run_id) for path in _of_hop(hop)),
        *(each.path for each in reader.prepared(run_id) if each.path is not None),
        *(path for each in versions for path in _of_subjects(reader, each)),
        *_of_tables(home, run_id),
    ]
    return set(_inside(home, named))


def files_of_runs(reader: CatalogReader, home: HomeLayout, run_ids: Iterable[str]) -> set[str]:
    """What any of these runs needs."""
    return set().union(*(files_of_run(reader, home, each) for each in run_ids))


def _of_version(reader: CatalogReader, version_id: str, *, rows: bool) -> Iterator[str]:
    record = reader.version(version_id)
    if record is None:
        return
    version = Version.from_json(record.id, record.body)
    for file in version.files:
        if rows and version.expired is None:
            yield file.path
        yield from (path for path in (file.without, file.only) if path is not None)


def _of_hop(hop: HopRecord) -> Iterator[str]:
    yield from (path for path in (hop.backward, hop.forward) if path is not None)
    if hop.body is not None:
        yield from json.loads(hop.body).get("without", ())  # masks of refreshes


def _of_subjects(reader: CatalogReader, version_id: str) -> Iterator[str]:
    """The files that tell which rows of a version are whose."""
    for record in reader.subjects(version_id):
        for layer in json.loads(record.body)["layers"]:
            yield from (layer["persons"], layer["rows"], *layer.get("without", ()))


def _of_tables(home: HomeLayout, run_id: str) -> Iterator[str]:
    """Lineage tables: those beside the index, and those that an index, or a question, is still to be made of."""
    folder = home.run_folder(run_id)
    aligned = AlignedTables.load(folder.index)
    if aligned is not None:
        yield str(folder.index / ALIGNED)
        yield from (path for rows in aligned.rows.values() for path in rows.files)
    waiting = LineageTables.load(folder)
    if waiting is not None:
        yield str(folder.lineage)
        yield from (path for rows in waiting.rows.values() for path in rows.files)


def _inside(home: HomeLayout, paths: Iterable[str]) -> Iterator[str]:
    """Of these, files that are there and in the home; of a folder, all that are in it."""
    for path in dict.fromkeys(paths):
        whole = Path(home.absolute(path))
        if not whole.is_relative_to(home.path):
            continue
        found = (each for each in whole.rglob("*") if each.is_file()) if whole.is_dir() else (whole,)
        yield from (str(each.relative_to(home.path)) for each in found if each.is_file())
