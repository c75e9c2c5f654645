"""Makes, stores and applies plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lineage_service.audit.actor import Actor
from lineage_service.audit.cases.case_lifecycle import CaseOptions, record_case_plan
from lineage_service.audit.erasure.correction_values import load_correction_values, save_correction_values
from lineage_service.audit.erasure.erasure_plan import (
    ERASURE,
    RECTIFICATION,
    PlanOptions,
    ValueCorrection,
    build_erasure_plan,
    scope_of,
)
from lineage_service.audit.erasure.plan_application import AppliedAlready, PlanApplication
from lineage_service.audit.log.log_transactions import LogEntry, log_transaction
from lineage_service.audit.log.sealed_documents import read_document, seal_document, write_document
from lineage_service.audit.person_search import (
    SubjectRows,
    key_for_persons,
    refuse_nobody,
    required_key,
    rows_of_hashes,
    rows_of_subjects,
)
from lineage_service.errors import LineageError, NotFound, QuestionError, did_you_mean, join_names
from lineage_service.progress import Stages, Tell
from lineage_service.query.open_home import OpenHome
from lineage_service.settings import IndexOptions
from lineage_service.store.out_file import check_out_file
from lineage_service.subjects.subject_arguments import MOST_SUBJECTS, subjects_of


def issue_plan(
    home: OpenHome,
    kind: str,
    subjects: Any,
    options: PlanOptions,
    case: CaseOptions,
    spark: IndexOptions,
    tell: Tell,
    *,
    most: int = MOST_SUBJECTS,
    four_eyes: bool = False,
    values: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Makes a sealed plan. The plan is logged and recorded in its case before it is returned."""
    persons = subjects_of(subjects, most)
    ask = home.questions
    key = key_for_persons(ask)
    rows = rows_of_subjects(ask, key, persons)
    refuse_nobody(rows, persons)
    if not rows.unsearched:
        rows = rows_of_hashes(ask, key, rows.hashes)  # as `apply` will find them
    corrected = None
    if kind == RECTIFICATION:
        _refuse_unknown_columns(home, rows, values or {})
        corrected = ValueCorrection(dict(values or {}))
    scope = scope_of(ask, rows, options, corrected)
    document = build_erasure_plan(home, kind, scope, options, spark, Stages(tell))
    document["request"] = case.request
    if corrected is not None:
        document["columns"] = sorted(corrected.values)
        save_correction_values(home.layout, str(document["plan_id"]), corrected.values)
    with log_transaction(home, case.who) as writing:
        datasets = sorted({each["dataset"] for run in document["runs"] for each in run["datasets"]})
        writing.append(
            LogEntry(
                f"plan {kind}",
                case.request,
                document["subjects"],
                datasets,
                document["totals"],
                details={"plan": document["plan_id"]},
            )
        )
        record_case_plan(
            writing, case, kind, str(document["plan_id"]), four_eyes=four_eyes, recipients=document["recipients"]
        )
    return seal_document(document, key)


def apply_plan(
    home: OpenHome, path: Path, actor: Actor, spark: IndexOptions, tell: Tell, out: Path | None = None
) -> dict[str, Any]:
    """Applies a plan and returns its certificate, which is also written to `out`."""
    if out is not None:
        check_out_file(out)  # before anything is erased: the certificate must be writable
    key = required_key(home.questions)
    document = read_document(path, key, "plan")
    if document.get("kind") not in (ERASURE, RECTIFICATION) or "bound_to" not in document:
        raise LineageError(f"'{path}' is not a plan", hint="audit plan-erasure makes one")
    corrected = None
    if document["kind"] == RECTIFICATION:
        corrected = ValueCorrection(load_correction_values(home.layout, str(document["plan_id"])))
    try:
        certificate = PlanApplication(home, document, corrected, actor, spark, Stages(tell)).apply()
    except AppliedAlready as error:
        # A killed process may have left only this to do.
        if out is not None and not out.exists():
            write_document(error.certificate, out)
        raise
    if out is not None:
        write_document(certificate, out)
    return certificate


def _refuse_unknown_columns(home: OpenHome, rows: SubjectRows, values: Mapping[str, str | None]) -> None:
    if not values:
        raise QuestionError("say what is to be corrected: --set COLUMN=VALUE")
    names = {each.name for found in rows.found for each in home.questions.scan(found.dataset).version.columns}
    for name in values:
        if name.lower() not in {each.lower() for each in names}:
            raise NotFound(
                f"no source with rows of the person has a column '{name}'; columns: {join_names(sorted(names))}",
                hint=did_you_mean(name, names),
            )
