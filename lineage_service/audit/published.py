"""Published copies: which run's rows lie at a path now, and the new copy put in the place of the old one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.facade import Audit
from lineage_service.errors import StoreError
from lineage_service.query.ask import Questions
from lineage_service.store.layout import HomeLayout, is_at_work, new_run_id
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


def put_in_place(target: Path, waiting: Path) -> None:
    """The waiting copy in the place of the old one, whatever an earlier try has done of it. StoreError where not."""
    try:
        if waiting.exists():
            (waiting / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
            if target.exists():
                target.rename(target.with_name(f".{target.name}.{new_run_id()}.old"))
            waiting.rename(target)
        for old in target.parent.glob(f".{target.name}.*.old"):
            shutil.rmtree(old)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the published copy '{target}' could not be replaced: {reason}") from error


def published_copies(audit: Audit) -> list[Path]:
    """Every folder that a run in the catalog has published to."""
    reader = audit.reader
    targets = (target_of(each) for run in reader.runs() for each in reader.datasets(run.id))
    return list(dict.fromkeys(target for target in targets if target is not None))


def remove_leftovers(home: HomeLayout, targets: Sequence[Path]) -> None:
    """Copies beside published ones that killed runs left; none where a run is at work, which may want its own."""
    if home.runs.is_dir() and any(is_at_work(folder) for folder in home.runs.iterdir()):
        return
    for target in targets:
        for left in (*target.parent.glob(f".{target.name}.*.new"), *target.parent.glob(f".{target.name}.*.old")):
            shutil.rmtree(left, ignore_errors=True)
