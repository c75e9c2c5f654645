"""The verbs of `audit` as methods of `Home.open(path).audit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_service.arguments import checked_arguments
from lineage_service.progress import Tell
from lineage_service.query.catalog_snapshot import question
from lineage_service.query.open_home import OpenHome
from lineage_service.settings import IndexOptions
from lineage_service.subjects.subject_arguments import MOST_SUBJECTS

if TYPE_CHECKING:
    from lineage_service.audit.access.access_report import Access
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.audit.cases.decisions import CaseResult
    from lineage_service.audit.erasure.erasure_plan import PlanOptions
    from lineage_service.audit.erasure.erasure_verification import Verdict
    from lineage_service.audit.erasure.run_retention import ExpiredRuns
    from lineage_service.audit.log.log_retention import LogRetentionResult
    from lineage_service.audit.log.log_verification import LogVerdict
    from lineage_service.query.answer import Answer
    from lineage_service.subjects.subject_arguments import Given

Answered = TypeVar("Answered")


@checked_arguments
class Audit:
    """The audit verbs of a home."""

    def __init__(self, home: OpenHome) -> None:
        self._home = home

    def __repr__(self) -> str:
        return f"Audit({str(self._home.layout.path)!r})"

    def in_one_snapshot(self, answer: Callable[[], Answered]) -> Answered:
        """Calls `answer` on one snapshot of the catalog. See `OpenHome.in_one_snapshot` for when it is called again."""
        return self._home.in_one_snapshot(answer)

    # --- access, record of processing -------------------------------------------------------------------------

    def access(
        self,
        subjects: Given | Iterable[Given],
        *,
        case: CaseOptions | None = None,
        min_group: int | None = None,
    ) -> Access:
        """Everything held about one person and derived from it (GDPR Art. 15). docs/access.md describes the report.

        Several `subjects` are one person, identified by several kinds. The access is logged before the report is
        returned.
        """
        from lineage_service.audit.access.access_report import MIN_GROUP, build_access_report
        from lineage_service.subjects.subject_arguments import subjects_of

        return build_access_report(
            self._home, subjects_of(subjects), case, min_group=MIN_GROUP if min_group is None else min_group
        )

    def record(self, *files: str | Path) -> dict[str, Any]:
        """The record of processing (GDPR Art. 30) of these workflow files, otherwise of each workflow's latest run."""
        from lineage_service.audit.access.record_of_processing import record_of_processing

        if files:  # reading files needs no catalog
            return record_of_processing(self._home, files)
        return self.in_one_snapshot(lambda: record_of_processing(self._home, ()))

    @question
    def retain(self, *, dry_run: bool = False, actor: str | None = None) -> ExpiredRuns:
        """Removes everything held of runs past the `retention_days` of their workflow, as `gc --retention` does."""
        from lineage_service.audit.erasure.run_retention import remove_expired_runs

        return remove_expired_runs(self._home, dry_run=dry_run, actor=actor)

    # --- the log ----------------------------------------------------------------------------------------------

    @question
    def log(self, *, limit: int | None = None, request: str | None = None, verb: str | None = None) -> Answer:
        """Entries of the log, newest first: who did what, when, with what result."""
        from lineage_service.audit.log.log_listing import log_entries

        return log_entries(self._home, limit=limit, request=request, verb=verb)

    @question
    def log_head(self) -> dict[str, Any]:
        """Number, hash, time and key of the last entry; number 0 if the log is empty."""
        from lineage_service.audit.log.log_listing import log_head

        return log_head(self._home)

    @question
    def verify_log(self, anchors: str | Path | None = None) -> LogVerdict:
        """Verifies that the log is complete, by its chain and its anchors, or by anchors that were kept elsewhere."""
        from lineage_service.audit.log.log_verification import verify_log

        return verify_log(self._home, anchors)

    def retain_log(self, days: int, *, actor: str | None = None) -> LogRetentionResult:
        """Removes log entries and closed cases older than this many days."""
        from lineage_service.audit.actor import current_actor
        from lineage_service.audit.log.log_retention import remove_expired_log_entries

        return remove_expired_log_entries(self._home, days, current_actor(actor))

    # --- cases ------------------------------------------------------------------------------------------------

    @question
    def requests(self, *, all: bool = False, limit: int | None = None) -> Answer:
        """Open cases by due date; with `all`, closed ones too."""
        from lineage_service.audit.cases.case_listing import list_cases

        return list_cases(self._home, closed=all, limit=limit)

    def approve(self, plan: str | Path, *, actor: str | None = None) -> CaseResult:
        """Approves a plan, by its file or its case. If four eyes are required, the actor must not be the planner."""
        from lineage_service.audit.actor import current_actor
        from lineage_service.audit.cases.decisions import approve

        return approve(self._home, plan, current_actor(actor))

    def refuse(
        self, reference: str, reason: str, *, kind: str | None = None, case: CaseOptions | None = None
    ) -> CaseResult:
        """Refuses a case, with the reason. With a `kind`, opens the case first if it does not exist."""
        from lineage_service.audit.cases.decisions import refuse

        return refuse(self._home, reference, reason, kind=kind, options=case)

    # --- erasure and rectification ----------------------------------------------------------------------------

    def plan_erasure(
        self,
        subjects: Given | Iterable[Given],
        *,
        rewrite_sources: bool = False,
        drop_runs: bool = False,
        most: int = MOST_SUBJECTS,
        four_eyes: bool = False,
        case: CaseOptions | None = None,
        out: str | Path | None = None,
        options: IndexOptions | None = None,
        progress: Tell | None = None,
    ) -> dict[str, Any]:
        """Plans the erasure of these persons: returns a sealed plan, bound to the versions it was made from. Changes
        nothing.

        `subjects` is `"customer=42"`, a pair, or several of them.
        """
        from lineage_service.audit.erasure.erasure_plan import ERASURE, PlanOptions

        how = PlanOptions(rewrite_sources, drop_runs)
        return self._make_plan(ERASURE, subjects, how, None, most, four_eyes, case, out, options, progress)

    def plan_rectification(
        self,
        subjects: Given | Iterable[Given],
        values: Mapping[str, str | None],
        *,
        drop_runs: bool = False,
        most: int = MOST_SUBJECTS,
        four_eyes: bool = False,
        case: CaseOptions | None = None,
        out: str | Path | None = None,
        options: IndexOptions | None = None,
        progress: Tell | None = None,
    ) -> dict[str, Any]:
        """Plans a rectification: corrected values by column, in every source that has the column and rows of the
        person.
        """
        from lineage_service.audit.erasure.erasure_plan import RECTIFICATION, PlanOptions

        how = PlanOptions(drop_runs=drop_runs)
        return self._make_plan(RECTIFICATION, subjects, how, values, most, four_eyes, case, out, options, progress)

    @question
    def _make_plan(
        self,
        kind: str,
        subjects: Any,
        how: PlanOptions,
        values: Mapping[str, str | None] | None,
        most: int,
        four_eyes: bool,
        case: CaseOptions | None,
        out: str | Path | None,
        options: IndexOptions | None,
        progress: Tell | None,
    ) -> dict[str, Any]:
        from lineage_service.audit.cases.case_lifecycle import CaseOptions
        from lineage_service.audit.erasure.plan_lifecycle import issue_plan
        from lineage_service.audit.log.sealed_documents import write_document
        from lineage_service.store.out_file import check_out_file

        if out is not None:
            check_out_file(Path(out))  # before the work, and before a case is opened for it
        document = issue_plan(
            self._home, kind, subjects, how, case or CaseOptions(), options or IndexOptions(),
            progress or self._home.progress, most=most, four_eyes=four_eyes, values=values,
        )  # fmt: skip
        if out is not None:
            write_document(document, Path(out))
        return document

    def apply(
        self,
        plan: str | Path,
        *,
        out: str | Path | None = None,
        actor: str | None = None,
        options: IndexOptions | None = None,
        progress: Tell | None = None,
    ) -> dict[str, Any]:
        """Applies a plan, given by its file, completely or not at all. Returns its certificate, which is also written
        to `out`.

        If it was interrupted, applying it again finishes it.
        """
        from lineage_service.audit.actor import current_actor
        from lineage_service.audit.erasure.plan_lifecycle import apply_plan

        target, who = None if out is None else Path(out), current_actor(actor)
        return apply_plan(
            self._home, Path(plan), who, options or IndexOptions(), progress or self._home.progress, target
        )

    @question
    def verify(
        self, certificate: str | Path, *, values: Iterable[str] | None = None, progress: Tell | None = None
    ) -> Verdict:
        """Scans the home, the catalog and published copies for an erased person: by the keyed hashes in the
        certificate, and by `values` given again.

        Reports what was covered, what could not be, and whether the erasure holds.
        """
        from lineage_service.audit.erasure.erasure_verification import verify_certificate

        return verify_certificate(self._home, Path(certificate), values, progress or self._home.progress)
