"""Published copies: which run's rows lie at a path now, and the new copy put in the place of the old one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.errors import StoreError
from lineage_service.query.ask import Questions
from lineage_service.store.layout import new_run_id
from lineage_service.store.publish import MARK


def target_of(record: DatasetRecord) -> Path | None:
    """Where a run's output is published; None where it is not."""
    declared = json.loads(record.declared)
    if record.role != "output" or not declared.get("path") or declared.get("folder") is None:
        return None
    return (Path(str(declared["folder"])) / str(declared["path"])).absolute()


def last_publishers(ask: Questions, runs: Sequence[RunRecord]) -> dict[Path, str]:
    """For each path that runs (the oldest first) have published to, the last of them: its rows are there."""
    found: dict[Path, str] = {}
    for run in runs:
        for record in ask.graph.datasets(run.id):
            target = target_of(record)
            if target is not None:
                found[target] = run.id
    return found


def publishers_after(ask: Questions, switched: Sequence[tuple[str, str | None]]) -> dict[Path, str | None]:
    """The last publisher of each path once runs are switched, None where it goes and there was none before."""
    new = dict(switched)
    runs = list(reversed(ask.reader.runs()))
    before = last_publishers(ask, runs)
    after = last_publishers(ask, [run for run in runs if new.get(run.id, run.id) is not None])
    return {path: None if path not in after else new.get(after[path], after[path]) for path in before}


def removed_copies(ask: Questions, removed: Collection[str]) -> list[tuple[DatasetRecord, Path]]:
    """Copies at published paths whose rows are those of runs that go as a whole."""
    publishers = last_publishers(ask, list(reversed(ask.reader.runs())))
    return [
        (record, target)
        for run_id in removed
        for record in ask.graph.datasets(run_id)
        if (target := target_of(record)) is not None and publishers.get(target) == run_id
    ]


def published_copies(reader: CatalogReader) -> list[Path]:
    """Every folder that a run in the catalog has published to."""
    targets = (target_of(each) for run in reader.runs() for each in reader.datasets(run.id))
    return list(dict.fromkeys(target for target in targets if target is not None))


def put_in_place(target: Path, waiting: Path | None) -> None:
    """The waiting copy in the place of the old one, whatever an earlier try has done of it; None: the old one goes.
    StoreError where not."""
    with _replacing(target):
        if waiting is None:
            if (target / MARK).exists():
                target.rename(target.with_name(f".{target.name}.{new_run_id()}.old"))
        elif waiting.exists():
            (waiting / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
            if target.exists():
                target.rename(target.with_name(f".{target.name}.{new_run_id()}.old"))
            waiting.rename(target)
    clear_beside(target)


def clear_beside(target: Path) -> None:
    """Removes copies that wait beside a published one, or were replaced: of runs and erasures that were killed. A run
    that still writes one began before an erasure, and is not committed in any case."""
    with _replacing(target):
        for path in copies_beside(target):
            shutil.rmtree(path)


def copies_beside(target: Path) -> list[Path]:
    """Copies that are not in the place of the published one: not yet, or no more."""
    named = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.(old|new)")
    if not target.parent.is_dir():
        return []
    return sorted(path for path in target.parent.iterdir() if named.fullmatch(path.name))


@contextmanager
def _replacing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the published copy '{target}' could not be replaced: {reason}") from error
