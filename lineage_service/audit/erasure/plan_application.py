"""Applies a plan: logs the intent, makes the new runs, switches them in the catalog, removes old files, issues a
certificate.

If the process is killed before the switch, nothing has changed. If it is killed after the switch, applying the plan
again continues from there. It is reported as done only when nothing remains to be done.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lineage_catalog.erasures import (
    ErasureRecord,
    enable_secure_delete,
    erasure,
    finish_erasure,
    switch_runs,
    vacuum,
)
from lineage_catalog.reader import Stamp

from lineage_service.audit.actor import Actor
from lineage_service.audit.cases.case_lifecycle import close_case, require_approval
from lineage_service.audit.erasure.copy_publishers import (
    copies_of_removed_runs,
    last_publishers,
    publishers_after,
    remove_copies_beside,
)
from lineage_service.audit.erasure.correction_values import remove_correction_values
from lineage_service.audit.erasure.erasure_certificate import erasure_certificate
from lineage_service.audit.erasure.erasure_plan import (
    ERASURE,
    PlanOptions,
    RequestScope,
    ValueCorrection,
    changed_runs,
    is_same_work,
    scope_of,
)
from lineage_service.audit.erasure.identifying_values import (
    IdentifyingValues,
    declared_personal_columns,
    find_identifying_values,
    has_changed_files,
    is_searchable,
)
from lineage_service.audit.erasure.remaining_rows import remaining_rows
from lineage_service.audit.erasure.residue_scan import ResidueScan, SearchedValues
from lineage_service.audit.erasure.source_rewrites import (
    file_mark,
    replace_source_file,
    rewrite_files,
    waiting_source_path,
)
from lineage_service.audit.erasure.superseding_run import SupersedingRun
from lineage_service.audit.erasure.supersession import Supersession
from lineage_service.audit.erasure.text_redaction import redact
from lineage_service.audit.log.log_transactions import LogEntry, log_connection, log_transaction, write_entry
from lineage_service.audit.log.sealed_documents import seal_document
from lineage_service.audit.person_search import required_key, rows_of_hashes
from lineage_service.errors import LineageError, RunError, join_names
from lineage_service.progress import Stages
from lineage_service.query.catalog_snapshot import LineageFinished
from lineage_service.query.open_home import OpenHome
from lineage_service.settings import IndexOptions
from lineage_service.store.file_records import forget_removed, with_noted_files
from lineage_service.store.garbage_collection import catalog_mark, sweep, sweep_spill
from lineage_service.store.home_key import HomeKey
from lineage_service.store.layout import commit_lock, publish_lock, sweep_lock, translate_disk_errors
from lineage_service.store.pending_publications import finish_publications, published_targets
from lineage_service.store.permissions import make_private
from lineage_service.store.publications import refuse_foreign_copy
from lineage_service.store.published_folder import put_in_place


class AppliedAlready(RunError):
    """The plan was applied already; `certificate` is the one issued then."""

    def __init__(self, record: ErasureRecord) -> None:
        super().__init__(
            f"the plan '{record.id}' was applied already, at {record.at}",
            hint="`audit verify` shows that it holds; make a new plan for anything else",
        )
        self.certificate: dict[str, Any] = json.loads(record.certificate or "{}")


@dataclass
class PlanApplication:
    """Applies one plan."""

    home: OpenHome
    plan: Mapping[str, Any]
    corrected: ValueCorrection | None
    actor: Actor
    spark: IndexOptions
    stages: Stages
    stamp: Stamp | None = None  # state of the catalog when the runs were checked

    @property
    def plan_id(self) -> str:
        return str(self.plan["plan_id"])

    @property
    def entry(self) -> dict[str, Any]:
        """The fields that every log entry of this plan has."""
        return {
            "request": self.plan["request"],
            "subjects": self.plan["subjects"],
            "datasets": sorted({each["dataset"] for run in self.plan["runs"] for each in run["datasets"]}),
            "counts": self.plan["totals"],
        }

    def apply(self) -> dict[str, Any]:
        """Applies the plan completely or not at all, and returns the certificate."""
        key = required_key(self.home.questions)
        with erasure_lock(self.home):
            known = self._erasure_record()
            if known is not None and known.state == "done":
                raise AppliedAlready(known)
            finish_publications(
                self.home.layout, self.home.reader
            )  # pending copies hold rows that may have to be removed
            if known is None:
                require_approval(self.home, self.plan["request"], self.plan_id)
                self._refuse_changed_runs()
                self._switch(key)
            return self._finish(key)

    def _erasure_record(self) -> ErasureRecord | None:
        with log_connection(self.home) as connection:
            return erasure(connection, self.plan_id)

    def _refuse_changed_runs(self) -> None:
        wrong = changed_runs(self.home.questions, self.plan)
        if wrong:
            raise RunError(
                f"the plan '{self.plan_id}' no longer fits: {join_names(wrong)} or the files behind have changed "
                "since it was made",
                hint="make it again; nothing was changed",
            )

    # --- up to the switch -------------------------------------------------------------------------------------

    def _switch(self, key: HomeKey) -> None:
        scope = self.home.in_one_snapshot(lambda: self._scope(key))
        intent = LogEntry(f"apply {self.plan['kind']}", result="intent", details=self._details(), **self.entry)
        write_entry(self.home, intent, actor=self.actor)
        _discard_waiting(self.plan)
        ask = self.home.questions
        with ExitStack() as folders, self.home.reader.snapshot():
            try:
                self.stamp = self.home.reader.stamp()
                superseding = Supersession(
                    ask.home, ask, self.spark, self.stages, scope.wanted, folders, waiting=self.plan_id,
                    rewritten=rewrite_files(scope.cut, self.plan_id),
                )  # fmt: skip
                made = superseding.supersede_runs()
                scope.check(ask, superseding)
                if not is_same_work(self.plan, made):
                    raise RunError(
                        f"the plan '{self.plan_id}' no longer fits: applying it now would not give the planned result",
                        hint="make it again; nothing was changed",
                    )
                identifying = self._identifying_values(scope)
                self._try_canary(scope, identifying, key)
                with self.stages.stage("switching"):
                    self._commit(key, made, identifying)
            except BaseException as caught:
                error = self._conflict_error() if isinstance(caught, LineageFinished) else caught
                # If interrupted just after the switch, these files are the ones to put in place.
                if self._erasure_record() is None:
                    _discard_waiting(self.plan)
                    if isinstance(error, LineageError):
                        details = {**self._details(), "error": type(error).__name__}
                        failed = LogEntry(f"apply {self.plan['kind']}", result="failed", details=details, **self.entry)
                        write_entry(self.home, failed, actor=self.actor)
                raise error from None
        self.home.forget_questions()

    def _scope(self, key: HomeKey) -> RequestScope:
        ask = self.home.questions
        rows = rows_of_hashes(ask, key, self.plan["subjects"])
        return scope_of(ask, rows, PlanOptions(**self.plan["options"]), self.corrected)

    def _identifying_values(self, scope: RequestScope) -> IdentifyingValues:
        ask, retained = self.home.questions, [found for found, _ in scope.retained]
        if self.corrected is None:
            return find_identifying_values(ask, scope.going, retained=retained)
        new = [value for value in self.corrected.values.values() if value is not None]
        return find_identifying_values(ask, scope.going, only=self.corrected.values, retained=retained, new=new)

    def _try_canary(self, scope: RequestScope, identifying: IdentifyingValues, key: HomeKey) -> None:
        """Checks that the scan which will prove the erasure finds a text of the person while it is still there."""
        hashes = frozenset(key.value(each) for each in identifying.texts if is_searchable(each))
        if not hashes or self.corrected is not None:
            return
        ask, values = self.home.questions, SearchedValues(hashes=hashes, key=key)
        looked = False
        for found in scope.going:
            own = {name.lower() for name in declared_personal_columns(found.dataset)}
            scan = ask.scan(found.dataset)
            stored = any(
                each.stored and each.type == "string" and each.name.lower() in own for each in scan.version.columns
            )
            if not stored or has_changed_files(ask, found.dataset):
                continue
            looked = True
            if any(ResidueScan(values).finds(Path(path)) for path in scan.paths):
                return
        if looked:
            raise RunError(
                "the scan that verifies the erasure does not find a value that is known to be there",
                hint="nothing was changed; is a source file encrypted, or damaged?",
            )

    def _commit(self, key: HomeKey, superseding_runs: Sequence[SupersedingRun], identifying: IdentifyingValues) -> None:
        folders = [each.folder for each in superseding_runs if each.folder is not None]
        for folder in folders:
            shutil.rmtree(folder.temporary, ignore_errors=True)
            make_private(folder.path)
            folder.mark_committed(catalog_mark(self.home.layout, self.home.reader))
            folder.sync()
            folder.hand_over()
        switched = [(each.old.id, None if each.commit is None else each.commit.run.id) for each in superseding_runs]
        copies: dict[Path, Path | None] = {
            each.target: each.waiting for one in superseding_runs for each in one.publications
        }
        copies |= {
            path: None
            for _, path in copies_of_removed_runs(self.home.questions, [old for old, new in switched if not new])
        }
        for target in copies:
            refuse_foreign_copy(target)
        publishers = publishers_after(self.home.questions, switched)
        body = {
            "sources": [
                [each["path"], str(waiting), file_mark(each["path"]), file_mark(waiting)]
                for each in self.plan["sources"]
                for waiting in [waiting_source_path(each["path"], self.plan_id)]
            ],
            "publications": [
                [str(path), waiting and str(waiting), publishers.get(path)] for path, waiting in copies.items()
            ],
            "switched": switched,
            "values": sorted(key.value(each) for each in identifying.texts if is_searchable(each)),
            "numbers": sorted(key.value(each) for each in identifying.numbers),
            "columns": sorted(identifying.columns),
            "short_values": sum(not is_searchable(each) for each in identifying.texts),
            "shared_values": identifying.shared,
            "retained_values": identifying.retained,
            "odd_values": identifying.unsupported,
            "unread": len(identifying.unread),
        }
        is_erasure = self.plan["kind"] == ERASURE
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = ErasureRecord(self.plan_id, self.plan["kind"], "switched", at, json.dumps(body))
        commits = [
            (each.old.id, None if each.commit is None else with_noted_files(each.commit, self.home.layout))
            for each in superseding_runs
        ]
        with commit_lock(self.home.layout), log_transaction(self.home, self.actor) as writing:
            enable_secure_delete(writing.connection)
            if self.home.reader.stamp() != self.stamp or changed_runs(self.home.questions, self.plan):
                raise self._conflict_error()
            require_approval(self.home, self.plan["request"], self.plan_id, writing.connection)
            persons = self.plan["subjects"] if is_erasure else {}
            switch_runs(writing.connection, record, commits, persons, key.id)
            texts = redact(writing.connection, identifying) if is_erasure else 0
            details = {**self._details(), "texts_redacted": texts, "switched": body["switched"]}
            writing.append(LogEntry(f"apply {self.plan['kind']}", result="switched", details=details, **self.entry))
        for folder in folders:
            folder.mark_committed()

    def _conflict_error(self) -> RunError:
        return RunError(
            f"the plan '{self.plan_id}' no longer fits: another run was committed in the meantime",
            hint="make it again; nothing was changed",
        )

    def _details(self) -> dict[str, Any]:
        return {"plan": self.plan_id}

    # --- after the switch -------------------------------------------------------------------------------------

    def _finish(self, key: HomeKey) -> dict[str, Any]:
        """The remaining work: published copies, old files, free pages of the catalog. Each step may be repeated."""
        known = self._erasure_record()
        assert known is not None
        body = json.loads(known.body)
        written_since = [each[0] for each in body["sources"] if not replace_source_file(*each)]
        with self.stages.stage("replacing published copies"), publish_lock(self.home.layout):
            publishers = last_publishers(self.home.questions, list(reversed(self.home.reader.runs())))
            for target, waiting, publisher in body["publications"]:
                # Interrupted, and a later run has published there since: its copy stays.
                if publishers.get(Path(target)) == publisher:
                    put_in_place(Path(target), None if waiting is None else Path(waiting))
            for path in published_targets(self.home.reader):
                remove_copies_beside(path)
        self.home.forget_questions()
        with self.stages.stage("removing old files"), sweep_lock(self.home.layout):
            swept = sweep(self.home.layout, self.home.reader, spill=False)
            sweep_spill(self.home.layout)
        self.home.forget_questions()
        with self.stages.stage("rewriting the catalog"), self.home.erasing() as engine:
            forget_removed(engine, self.home.layout)
            vacuum(engine)
        self.home.forget_questions()
        remove_correction_values(self.home.layout, None if self.plan["kind"] == ERASURE else self.plan_id)
        left = sorted({each.dataset.full_name for each in remaining_rows(self.home, key, self.plan).found})
        if left and self.plan["kind"] == ERASURE:
            raise LineageError(
                f"the plan '{self.plan_id}' is not finished: {join_names(left)} still hold rows of the person",
                hint="a run has read them since; plan again",
            )
        certificate = seal_document(
            erasure_certificate(self.home, self.plan, key, known, swept.left, written_since), key
        )
        with log_transaction(self.home, self.actor) as writing:
            text = json.dumps(certificate, indent=2, ensure_ascii=False) + "\n"
            finish_erasure(writing.connection, self.plan_id, text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            details = {**self._details(), "certificate": digest, "files_removed": swept.files}
            writing.append(LogEntry(f"apply {self.plan['kind']}", result="done", details=details, **self.entry))
            close_case(writing, self.plan["request"])
        return certificate


@contextmanager
def erasure_lock(home: OpenHome) -> Iterator[None]:
    """Allows one erasure at a time in a home."""
    with translate_disk_errors(home.layout.path):
        lock = os.open(home.layout.path / ".audit.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError("another erasure is running in this home", hint="wait until it is done") from None
        yield
    finally:
        os.close(lock)


def _discard_waiting(plan: Mapping[str, Any]) -> None:
    """Removes pending copies that an earlier attempt of this plan left behind."""
    for each in plan["sources"]:
        waiting_source_path(each["path"], plan["plan_id"]).unlink(missing_ok=True)
    for each in plan["published"]:
        target = Path(each["path"])
        shutil.rmtree(target.with_name(f".{target.name}.{plan['plan_id']}.new"), ignore_errors=True)
