"""Copies that a commit has announced and that are not published yet: publishes or removes them.

A run publishes its copies after its commit. If it was killed before or during that, the next run, refresh, `index` or
`gc` of the home does it. Copies of runs that were never committed are removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_catalog.erasures import unfinished_erasures
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import LineageError, Problem, StoreError
from lineage_service.settings import command
from lineage_service.store.garbage_collection import catalog_mark
from lineage_service.store.layout import (
    PUBLICATIONS,
    HomeLayout,
    RunFolder,
    is_at_work,
    is_marked_by_another,
    publish_lock,
    try_lock,
)
from lineage_service.store.publications import Publication, forget_note, noted_publications, target_path, withdraw
from lineage_service.store.published_folder import (
    copies_beside,
    is_written_beside,
    put_back,
    put_in_place,
    read_mark,
    remove_replaced,
    translate_replace_errors,
)


@dataclass(frozen=True)
class FinishedPublications:
    """The copies of killed runs that were published or removed, and problems with others."""

    published: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()


def publish(home: HomeLayout, reader: CatalogReader, run_id: str) -> list[Problem]:
    """Publishes the copies of a committed run. Problems are returned; the next operation tries again."""
    folder = home.run_folder(run_id)
    problems: list[Problem] = []
    with publish_lock(home):
        for each in noted_publications(folder) or ():
            try:
                _publish_copy(reader, run_id, each)
            except LineageError as error:
                again = command(home.path, "index", catalog=home.catalog)
                message = f"run '{run_id}' is committed, but output '{each.output}' is not published"
                message = f"{message}: {error.problems[0].message}"
                hint = "; ".join(filter(None, [error.problems[0].hint, f"then publish it: {again}"]))
                problems.append(Problem(message, None, hint))
        if not problems:
            forget_note(folder)
    return problems


def _publish_copy(reader: CatalogReader, run_id: str, publication: Publication) -> None:
    mark = read_mark(publication.target)
    if mark is not None and mark.run == run_id:
        remove_replaced(publication.target)  # it was put in place already
    elif mark is not None and mark.run is not None and _is_newer(reader, mark.run, run_id):
        with translate_replace_errors(publication.target):
            if publication.waiting.exists():
                shutil.rmtree(publication.waiting)
    elif publication.waiting.exists():
        put_in_place(publication.target, publication.waiting)
    else:
        put_back(publication.target)
        raise StoreError("its pending copy is missing", hint="run the workflow again")


def _is_newer(reader: CatalogReader, run_id: str, than: str) -> bool:
    """Whether a run was committed after another. For a superseded run, the run in its place counts."""
    order = [run.id for run in reader.runs()]  # the newest first
    found = reader.run(run_id)
    while found is not None and found.superseded_by is not None:
        found = reader.run(found.superseded_by)
    return found is not None and found.id in order and than in order and order.index(found.id) < order.index(than)


def finish_publications(home: HomeLayout, reader: CatalogReader) -> FinishedPublications:
    """Finishes the publications of runs that are no longer in progress: publishes those of committed runs, removes
    others.

    In the order of commits, so that the newest copy stays.
    """
    published: list[Path] = []
    removed: list[Path] = []
    problems: list[Problem] = []
    own = catalog_mark(home, reader)
    order = {run.id: number for number, run in enumerate(reversed(reader.runs()))}
    for folder in sorted(_announcing_folders(home), key=lambda each: (order.get(each.run_id, -1), each.run_id)):
        lock = try_lock(folder.path)
        if lock is None:
            continue
        try:
            noted = noted_publications(folder)
            if noted is None:
                continue
            run = reader.run(folder.run_id)  # once it is locked: it may have been committed since
            if run is not None and run.status == "committed":
                problems += (found := publish(home, reader, folder.run_id))
                published += [] if found else [each.target for each in noted]
            elif run is not None or not is_marked_by_another(folder.path, own):
                with publish_lock(home):
                    withdraw(folder)
                removed += [each.waiting for each in noted]
        except LineageError as error:
            problems += error.problems
        finally:
            os.close(lock)
    return FinishedPublications(tuple(published), tuple(removed), tuple(problems))


def _announcing_folders(home: HomeLayout) -> list[RunFolder]:
    if not home.runs.is_dir():
        return []
    return [home.run_folder(each.name) for each in home.runs.iterdir() if (each / PUBLICATIONS).exists()]


def unpublished_copies(home: HomeLayout, reader: CatalogReader) -> Iterator[tuple[str, Publication]]:
    """Copies that committed runs have announced and not published, unless they are still in progress: run and copy."""
    committed = {run.id for run in reader.runs()}
    for folder in _announcing_folders(home):
        if folder.run_id in committed and not is_at_work(folder.path):
            yield from ((folder.run_id, each) for each in noted_publications(folder) or ())


def interrupted_copies(home: HomeLayout, reader: CatalogReader) -> Iterator[Path]:
    """Copies of runs that were interrupted before their commit."""
    for folder in _announcing_folders(home):
        run = reader.run(folder.run_id)
        if (run is None or run.status != "committed") and not is_at_work(folder.path):
            yield from (each.waiting for each in noted_publications(folder) or () if each.waiting.exists())


# --- copies whose note is lost --------------------------------------------------------------------------------


def target_of(record: DatasetRecord) -> Path | None:
    """Where a run's output is published; None if it is not published."""
    declared = json.loads(record.declared)
    if record.role != "output" or not declared.get("path") or declared.get("folder") is None:
        return None
    return target_path(str(declared["folder"]), str(declared["path"]))


def published_targets(reader: CatalogReader) -> list[Path]:
    """Every folder to which a run in the catalog has published."""
    targets = (target_of(each) for run in reader.runs() for each in reader.datasets(run.id))
    return list(dict.fromkeys(target for target in targets if target is not None))


def orphaned_copies(home: HomeLayout, reader: CatalogReader, targets: list[Path]) -> list[Path]:
    """Copies beside these published ones that nothing will publish or remove: not those of runs in progress, of
    committed runs that could not publish yet, or of unfinished erasures.
    """
    if not any(copies_beside(target) for target in targets):
        return []
    with reader.connection() as connection:
        erasures = [json.loads(each.body) for each in unfinished_erasures(connection)]
    awaited = {Path(waiting) for body in erasures for _, waiting, _ in body.get("publications", ()) if waiting}
    places = {Path(target) for body in erasures for target, _, _ in body.get("publications", ())}
    for folder in _announcing_folders(home):
        for each in noted_publications(folder) or ():
            awaited.add(each.waiting)
            places.add(each.target)
    found = []
    for target in targets:
        beside = [path for path in copies_beside(target) if path not in awaited]
        if target in places and not target.exists():
            beside = [path for path in beside if path.suffix != ".old"]  # it may have to be put back
        if beside and not is_written_beside(target):
            found += beside
    return found


def remove_orphaned_copies(home: HomeLayout, reader: CatalogReader, targets: list[Path] | None = None) -> list[Path]:
    """Removes copies that killed runs left beside published ones, found by their names. Returns their paths."""
    removed: list[Path] = []
    targets = published_targets(reader) if targets is None else targets
    if orphaned_copies(home, reader, targets):
        with publish_lock(home):
            left = orphaned_copies(home, reader, targets)
            for target in targets:
                _restore(target, [path for path in copies_beside(target) if path in left])
            for path in orphaned_copies(home, reader, targets):
                with suppress(OSError):
                    shutil.rmtree(path)
                    removed.append(path)
    return removed


def _restore(target: Path, beside: list[Path]) -> None:
    """Restores one of these copies if there is no published one, because a run of an earlier version was killed between
    two renames. Such a run left no note, and marked a new copy only after its commit.
    """
    marks = {path: read_mark(path) for path in beside}
    new = [path for path, mark in marks.items() if path.suffix == ".new" and mark is not None and mark.run is None]
    old = [path for path, mark in marks.items() if path.suffix == ".old" and mark is not None]
    if (new or old) and not target.exists():
        with translate_replace_errors(target):
            max(new or old, key=lambda path: path.stat().st_mtime_ns).rename(target)
