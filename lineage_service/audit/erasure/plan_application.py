"""A plan carried out: intent logged, runs made anew, one switch in the catalog, old bytes removed, a certificate.

Killed before the switch, nothing has changed; killed after it, doing it again goes on from there. It is only told as
done once nothing is left to do.
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
    """A plan that was carried out; `certificate` as it was given then."""

    def __init__(self, known: ErasureRecord) -> None:
        super().__init__(
            f"the plan '{known.id}' was applied already, at {known.at}",
            hint="`audit verify` shows that it holds; make a new plan for anything else",
        )
        self.certificate: dict[str, Any] = json.loads(known.certificate or "{}")


@dataclass
class PlanApplication:
    """One plan on its way."""

    home: OpenHome
    plan: Mapping[str, Any]
    corrected: ValueCorrection | None
    actor: Actor
    spark: IndexOptions
    stages: Stages
    stamp: Stamp | None = None  # of the catalog, when runs were looked at

    @property
    def plan_id(self) -> str:
        return str(self.plan["plan_id"])

    @property
    def entry(self) -> dict[str, Any]:
        """What every entry of the log says of it."""
        return {
            "request": self.plan["request"],
            "subjects": self.plan["subjects"],
            "datasets": sorted({each["dataset"] for run in self.plan["runs"] for each in run["datasets"]}),
            "counts": self.plan["totals"],
        }

    def apply(self) -> dict[str, Any]:
        """Does what the plan says, or nothing. The certificate."""
        key = required_key(self.home.questions)
        with erasure_lock(self.home):
            known = self._erasure_record()
            if known is not None and known.state == "done":
                raise AppliedAlready(known)
            finish_publications(self.home.layout, self.home.reader)  # copies that wait hold rows that may have to go
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
                f"the plan '{self.plan_id}' no longer fits: {join_names(wrong)} or the files behind are not what they "
                "were when it was made",
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
                        f"the plan '{self.plan_id}' no longer fits: what would be done now is not what it says",
                        hint="make it again; nothing was changed",
                    )
                telling = self._identifying_values(scope)
                self._try_canary(scope, telling, key)
                with self.stages.stage("switching"):
                    self._commit(key, made, telling)
            except BaseException as caught:
                error = self._conflict_error() if isinstance(caught, LineageFinished) else caught
                # Interrupted just after the switch, they are what is to be put in place.
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

    def _try_canary(self, scope: RequestScope, telling: IdentifyingValues, key: HomeKey) -> None:
        """The scan that is to prove the erasure must find a text of the person while it is still there."""
        hashes = frozenset(key.value(each) for each in telling.texts if is_searchable(each))
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
                "the scan that is to prove the erasure does not find a value that is there",
                hint="nothing was changed; is a source file encrypted, or damaged?",
            )

    def _commit(self, key: HomeKey, made: Sequence[SupersedingRun], telling: IdentifyingValues) -> None:
        folders = [each.folder for each in made if each.folder is not None]
        for folder in folders:
            shutil.rmtree(folder.temporary, ignore_errors=True)
            make_private(folder.path)
            folder.mark_committed(catalog_mark(self.home.layout, self.home.reader))
            folder.sync()
            folder.hand_over()
        switched = [(each.old.id, None if each.commit is None else each.commit.run.id) for each in made]
        copies: dict[Path, Path | None] = {each.target: each.waiting for one in made for each in one.publications}
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
            "values": sorted(key.value(each) for each in telling.texts if is_searchable(each)),
            "numbers": sorted(key.value(each) for each in telling.numbers),
            "columns": sorted(telling.columns),
            "short_values": sum(not is_searchable(each) for each in telling.texts),
            "shared_values": telling.shared,
            "retained_values": telling.retained,
            "odd_values": telling.odd,
            "unread": len(telling.unread),
        }
        is_erasure = self.plan["kind"] == ERASURE
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = ErasureRecord(self.plan_id, self.plan["kind"], "switched", at, json.dumps(body))
        commits = [
            (each.old.id, None if each.commit is None else with_noted_files(each.commit, self.home.layout))
            for each in made
        ]
        with commit_lock(self.home.layout), log_transaction(self.home, self.actor) as writing:
            enable_secure_delete(writing.connection)
            if self.home.reader.stamp() != self.stamp or changed_runs(self.home.questions, self.plan):
                raise self._conflict_error()
            require_approval(self.home, self.plan["request"], self.plan_id, writing.connection)
            persons = self.plan["subjects"] if is_erasure else {}
            switch_runs(writing.connection, record, commits, persons, key.id)
            texts = redact(writing.connection, telling) if is_erasure else 0
            details = {**self._details(), "texts_redacted": texts, "switched": body["switched"]}
            writing.append(LogEntry(f"apply {self.plan['kind']}", result="switched", details=details, **self.entry))
        for folder in folders:
            folder.mark_committed()

    def _conflict_error(self) -> RunError:
        return RunError(
            f"the plan '{self.plan_id}' no longer fits: a run came in between",
            hint="make it again; nothing was changed",
        )

    def _details(self) -> dict[str, Any]:
        return {"plan": self.plan_id}

    # --- after the switch -------------------------------------------------------------------------------------

    def _finish(self, key: HomeKey) -> dict[str, Any]:
        """What is left to do: published copies, old files, the catalog's pages. Each may be done twice."""
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
        with self.stages.stage("writing the catalog anew"), self.home.erasing() as engine:
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
        certificate = seal_document(self._certificate(key, known, body, swept.left, written_since), key)
        with log_transaction(self.home, self.actor) as writing:
            text = json.dumps(certificate, indent=2, ensure_ascii=False) + "\n"
            finish_erasure(writing.connection, self.plan_id, text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            details = {**self._details(), "certificate": digest, "files_removed": swept.files}
            writing.append(LogEntry(f"apply {self.plan['kind']}", result="done", details=details, **self.entry))
            close_case(writing, self.plan["request"])
        return certificate

    def _certificate(
        self,
        key: HomeKey,
        known: ErasureRecord,
        body: Mapping[str, Any],
        left: Sequence[str],
        written_since: Sequence[str],
    ) -> dict[str, Any]:
        with log_connection(self.home) as connection:
            from lineage_catalog.audit import last_entry

            head = last_entry(connection)
        not_covered = [*self.plan["not_covered"]]
        if left:
            not_covered.append(
                f"folders of runs that were at work or belong to another catalog: {join_names(list(left))}"
            )
        if written_since:
            shown = join_names([f"'{path}'" for path in written_since])
            not_covered.append(f"source files that were written by others before they could be replaced: {shown}")
        if body["unread"]:
            not_covered.append("values in sources that have changed since: they could not be read to be searched for")
        return {
            "not_covered": not_covered,
            "certificate_of": self.plan["kind"],
            "plan_id": self.plan_id,
            "home": str(self.home.layout.path),
            "switched_at": known.at,
            "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request": self.plan["request"],
            "subjects": self.plan["subjects"],
            "persons": self.plan["persons"],
            "totals": self.plan["totals"],
            "runs": [
                {"superseded": old, "by": new, "workflow": run["workflow"], "datasets": run["datasets"]}
                for (old, new), run in zip(body["switched"], self.plan["runs"], strict=True)
            ],
            "retained": self.plan["retained"],
            "published": self.plan["published"],
            "sources_rewritten": [each for each in self.plan["sources"] if each["path"] not in written_since],
            "recipients": self.plan["recipients"],
            "values": {
                "keyed_hashes": body["values"],
                "keyed_hashes_of_numbers": body["numbers"],
                "columns_of_numbers": body["columns"],
                "too_short_to_search": body["short_values"],
                "shared_with_others": body["shared_values"],
                "of_other_types": body["odd_values"],
                "retained": body["retained_values"],
            },
            "log": None if head is None else {"number": head.number, "hash": head.hash},
            "key": key.id,
        }


@contextmanager
def erasure_lock(home: OpenHome) -> Iterator[None]:
    """One erasure at a time in a home."""
    with translate_disk_errors(home.layout.path):
        lock = os.open(home.layout.path / ".audit.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError("another erasure is at work in this home", hint="wait until it is done") from None
        yield
    finally:
        os.close(lock)


def _discard_waiting(plan: Mapping[str, Any]) -> None:
    """Copies that an earlier try of this plan has left waiting."""
    for each in plan["sources"]:
        waiting_source_path(each["path"], plan["plan_id"]).unlink(missing_ok=True)
    for each in plan["published"]:
        target = Path(each["path"])
        shutil.rmtree(target.with_name(f".{target.name}.{plan['plan_id']}.new"), ignore_errors=True)
