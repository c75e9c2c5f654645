"""Determines which run's rows are at each published path, before and after runs are replaced."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.query.questions import Questions
from lineage_service.store.pending_publications import target_of
from lineage_service.store.published_folder import copies_beside, translate_replace_errors


def last_publishers(ask: Questions, runs: Sequence[RunRecord]) -> dict[Path, str]:
    """For each path that the runs (oldest first) published to, the last of them. Its rows are there."""
    found: dict[Path, str] = {}
    for run in runs:
        for record in ask.graph.datasets(run.id):
            target = target_of(record)
            if target is not None:
                found[target] = run.id
    return found


def publishers_after(ask: Questions, switched: Sequence[tuple[str, str | None]]) -> dict[Path, str | None]:
    """The last publisher of each path after the switch; None if it is removed and there was none before."""
    new = dict(switched)
    runs = list(reversed(ask.reader.runs()))
    before = last_publishers(ask, runs)
    after = last_publishers(ask, [run for run in runs if new.get(run.id, run.id) is not None])
    return {path: None if path not in after else new.get(after[path], after[path]) for path in before}


def copies_of_removed_runs(ask: Questions, removed: Collection[str]) -> list[tuple[DatasetRecord, Path]]:
    """Published copies with rows of runs that are removed as a whole."""
    publishers = last_publishers(ask, list(reversed(ask.reader.runs())))
    return [
        (record, target)
        for run_id in removed
        for record in ask.graph.datasets(run_id)
        if (target := target_of(record)) is not None and publishers.get(target) == run_id
    ]


def remove_copies_beside(target: Path) -> None:
    """Removes copies beside a published one that are pending or were replaced, left behind by killed runs and erasures.
    A run that is still writing one began before the erasure and will not be committed.
    """
    with translate_replace_errors(target):
        for path in copies_beside(target):
            shutil.rmtree(path)
