"""Removes runs past the `retention_days` of their workflow, with their rows and lineage.

The catalog is changed first, together with the log entry, then files are removed. If the process is killed in between,
the next call removes the rest. Runs share files, so only files that no remaining run needs are removed. A remaining run
that read a removed output keeps its own rows, and its lineage ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lineage_catalog.records import DatasetRecord, RunRecord
from lineage_catalog.writer import expire_runs

from lineage_service.audit.actor import current_actor
from lineage_service.audit.erasure.copy_publishers import last_publishers
from lineage_service.audit.log.log_transactions import LogEntry, log_transaction
from lineage_service.audit.privacy_declarations import content_of, end_of_term, held_since, privacy_of
from lineage_service.query.open_home import OpenHome
from lineage_service.query.questions import Questions
from lineage_service.store.garbage_collection import files_left_over, sweep
from lineage_service.store.layout import is_at_work, size_of, sweep_lock
from lineage_service.store.published_folder import remove_copy
from lineage_service.store.references import References, held_runs
from lineage_service.store.versions import Version


@dataclass(frozen=True)
class ExpiredRuns:
    """What retention removed, or would remove.

    runs: the expired runs
    cut: versions that remaining runs have read, by the names they use
    published: copies outside the home, which are removed too
    files, bytes: removed from the home
    notes: messages for the user, such as failed anchors of the log
    """

    runs: tuple[RunRecord, ...]
    cut: tuple[str, ...]
    published: tuple[str, ...]
    files: int
    bytes: int
    notes: tuple[str, ...] = ()


def remove_expired_runs(
    home: OpenHome, *, dry_run: bool = False, at: datetime | None = None, actor: str | None = None
) -> ExpiredRuns:
    """Removes everything held of expired runs, in one transaction with the log entry."""
    ask = home.questions
    held = held_runs(ask.reader)
    gone = [run for run in held if is_expired(ask, run, at) and not is_at_work(ask.home.run_folder(run.id).path)]
    expired = {run.id for run in gone}
    staying = [run for run in held if run.id not in expired]
    cut = _sources_to_cut(ask, expired, staying)
    needed = References(ask.reader, ask.home).files_of_runs(staying, without={each.version_id for each in cut})
    folders = [run.id for run in (*gone, *ask.reader.runs(status="expired"))]
    names = tuple(sorted({f"{each.full_name}@{each.run_id}" for each in cut}))
    found = ExpiredRuns(tuple(gone), names, _published_copies(ask, gone), *_size(ask, folders, needed))
    if dry_run:
        return found
    notes: list[str] = []
    # First: once the catalog has forgotten the runs, the locations of their copies are unknown.
    for path in found.published:
        if not remove_copy(Path(path)) and Path(path).exists():
            notes.append(f"files that smoke-lineage did not write are left in '{path}'")
    if gone:
        datasets = sorted({each.full_name for run in gone for each in ask.graph.datasets(run.id)})
        versions = {each.version_id: _expired_version_body(ask, each) for each in cut}
        with log_transaction(home, current_actor(actor)) as writing:
            expire_runs(writing.connection, sorted(expired), versions)
            counts = {"runs": len(gone), "cut": len(cut), "files": found.files}
            writing.append(LogEntry("retention", datasets=datasets, counts=counts, details={"runs": sorted(expired)}))
        notes += writing.notes
        home.forget_questions()
    _sweep(ask, folders)
    return replace(found, notes=tuple(notes))


def is_expired(ask: Questions, run: RunRecord, at: datetime | None = None) -> bool:
    """Whether a run's data is older than its workflow's retention at the time of the run."""
    days = privacy_of(content_of(ask, run.id))["retention_days"]
    since = held_since(run)
    end = end_of_term(since if since.tzinfo is not None else since.replace(tzinfo=UTC), days)
    return end is not None and end < (at or datetime.now(UTC))


def _sources_to_cut(ask: Questions, expired: Collection[str], staying: Iterable[RunRecord]) -> list[DatasetRecord]:
    """Sources of remaining runs that read outputs of removed runs only."""
    found = []
    for run in staying:
        for dataset in ask.graph.datasets(run.id):
            if dataset.role == "source":
                makers = {each.run_id for each in ask.reader.makers_of([dataset.version_id])}
                if makers and makers <= set(expired):
                    found.append(dataset)
    return found


def _expired_version_body(ask: Questions, dataset: DatasetRecord) -> str:
    """The body of a version without rows: row ids are still counted, and reading rows is refused."""
    record = ask.reader.version(dataset.version_id)
    assert record is not None
    version = Version.from_json(record.id, record.body)
    return replace(version, kind="source", expired=record.run_id).to_json()


def _published_copies(ask: Questions, gone: Collection[RunRecord]) -> tuple[str, ...]:
    """Published copies with rows of removed runs."""
    expired = {run.id for run in gone}
    publishers = last_publishers(ask, list(reversed(ask.reader.runs())))
    return tuple(sorted(str(target) for target, run_id in publishers.items() if run_id in expired))


def _size(ask: Questions, run_ids: Iterable[str], needed: Collection[str]) -> tuple[int, int]:
    """Number and size of files in these runs' folders that are no longer needed."""
    paths = []
    for run_id in dict.fromkeys(run_ids):
        folder = ask.home.run_folder(run_id).path
        shared = any(path.startswith(f"runs/{run_id}/") for path in needed)
        paths += files_left_over(ask.home, folder, needed, keep=shared)
    return len(paths), sum(map(size_of, paths))


def _sweep(ask: Questions, run_ids: Collection[str]) -> None:
    with sweep_lock(ask.home):
        sweep(ask.home, ask.reader, only=set(run_ids), spill=False)
