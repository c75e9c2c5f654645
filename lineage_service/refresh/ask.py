"""What a user asks a refresh for: datasets by name, and what has changed in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from lineage_catalog.records import Commit, DatasetRecord

from lineage_service.errors import QuestionError, listed
from lineage_service.progress import Stages
from lineage_service.query.ask import Questions
from lineage_service.query.selection import Selection
from lineage_service.refresh.changes import Changed, Changing, Rows
from lineage_service.refresh.patching import Ids, Patcher
from lineage_service.refresh.refreshed import Refresh
from lineage_service.refresh.report import RefreshReport
from lineage_service.settings import IndexOptions
from lineage_service.store.layout import HomeLayout, working_folder


@dataclass(frozen=True)
class Asked:
    """What is said to have changed: rows removed, by a predicate or by rids; rows corrected; rows added."""

    removed: Selection | None = None
    changed: Rows | None = None
    added: Rows | None = None
    key: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        return self.removed is not None or self.changed is not None or self.added is not None


def refresh(
    home: HomeLayout,
    ask: Questions,
    datasets: Sequence[str],
    asked: Asked,
    options: IndexOptions,
    commit: Callable[[Commit], None],
    stages: Stages,
) -> RefreshReport:
    """Brings the outputs of a workflow up to date with what has changed in its sources, and commits that as a run."""
    started = datetime.now(UTC)
    found = [ask.find(name) for name in datasets]
    source = _source(found)
    run = ask.reader.run(source.run_id)
    latest = ask.reader.latest_run(source.workflow)
    assert run is not None
    if latest is None or latest.id != run.id:
        raise QuestionError(
            f"run '{run.id}' is not the latest of '{run.workflow}'", hint="the latest run is the one that is refreshed"
        )
    with working_folder(home) as folder:
        refreshing = Refresh(home, ask, run, folder, options, stages)
        changing = Changing(ask.engine, Patcher(folder), source.name, ask.scan(source))
        removed = _removed(ask, source, asked.removed)
        changes: dict[str, Changed] = {source.name: changing.changed(removed, asked.changed, asked.added, asked.key)}
        refreshing.bring(changes)
        made, report = refreshing.commit(changes, started)
        with stages.stage("committing"):
            folder.sync()
            folder.hand_over()
            commit(made)
            folder.mark_committed()
    return report


def _source(found: Sequence[DatasetRecord]) -> DatasetRecord:
    sources = [each for each in found if each.role == "source"]
    if len(sources) != 1 or len(found) != 1:
        raise QuestionError(f"name one source that has changed, not {listed([each.full_name for each in found])}")
    return sources[0]


def _removed(ask: Questions, source: DatasetRecord, selection: Selection | None) -> Ids:
    if selection is None:
        return np.array([], np.int64)
    start = ask.start(source, selection)
    if start.rids is not None:
        return np.array(sorted(start.rids), np.int64)
    table = start.table
    if table is None:
        table = ask.engine.keep(ask.scan(source).all_rids())
    found: Ids = ask.engine.id_array(f"SELECT b FROM {table}").to_numpy(zero_copy_only=False).astype("int64")
    return found
