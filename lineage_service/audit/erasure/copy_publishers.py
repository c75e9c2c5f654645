"""Published copies: which run's rows lie at a path now, before and after runs are put in the place of others."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.query.questions import Questions
from lineage_service.store.pending_publications import target_of
from lineage_service.store.published_folder import copies_beside, translate_replace_errors


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


def copies_of_removed_runs(ask: Questions, removed: Collection[str]) -> list[tuple[DatasetRecord, Path]]:
    """Copies at published paths whose rows are those of runs that go as a whole."""
    publishers = last_publishers(ask, list(reversed(ask.reader.runs())))
    return [
        (record, target)
        for run_id in removed
        for record in ask.graph.datasets(run_id)
        if (target := target_of(record)) is not None and publishers.get(target) == run_id
    ]


def remove_copies_beside(target: Path) -> None:
    """Removes copies that wait beside a published one, or were replaced: of runs and erasures that were killed. A run
    that still writes one began before an erasure, and is not committed in any case."""
    with translate_replace_errors(target):
        for path in copies_beside(target):
            shutil.rmtree(path)
