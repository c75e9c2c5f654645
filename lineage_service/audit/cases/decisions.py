"""Decisions about a case: approval of its plan, or refusal of the request."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import CLOSED, CaseRecord

from lineage_service.audit.actor import Actor, require_printable
from lineage_service.audit.cases.case_lifecycle import (
    KINDS,
    CaseOptions,
    open_or_update_case,
    planner_of,
    refuse_changed_case,
    refused_case_error,
    require_case,
    same_actor_error,
    save_case,
    unknown_case_error,
)
from lineage_service.audit.cases.case_listing import case_row
from lineage_service.audit.log.log_transactions import LogEntry, log_transaction, now
from lineage_service.errors import LineageError, NotFound, RunError
from lineage_service.query.open_home import OpenHome

LONGEST_REASON = 2000


@dataclass(frozen=True)
class CaseResult:
    """A case after a verb; `notes` are messages for the user."""

    case: CaseRecord
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return case_row(self.case)


def approve(home: OpenHome, plan: str | Path, actor: Actor | None = None) -> CaseResult:
    """Approves the plan of a case. `plan` is the plan's file, or the case's reference.

    If the case needs four eyes, the actor must not be the planner.
    """
    reference, plan_id = _parse_plan_reference(plan)
    with log_transaction(home, actor) as writing:
        case = require_case(writing.connection, reference)
        refuse_changed_case(writing, case)
        if plan_id is not None and case.plan_id != plan_id:
            raise RunError(
                f"the plan '{plan_id}' is not that of the case '{reference}'",
                hint="a newer plan exists; approve that one",
            )
        if case.status == "refused":
            raise refused_case_error(case)
        if case.status != "planned":
            raise RunError(
                f"the case '{reference}' has no plan to approve: it is {case.status}",
                hint=None if case.status in CLOSED else f"smoke-lineage audit plan-erasure … --request {reference}",
            )
        if case.four_eyes and not writing.actor.is_another_than(planner_of(case)):
            raise same_actor_error(case)
        approved = replace(
            case,
            status="approved",
            approved_by=writing.actor.user,
            approved_name=writing.actor.name,
            approved_at=now(),
        )
        written = save_case(writing, approved)
        details = {"plan_id": case.plan_id, "four_eyes": case.four_eyes}
        writing.append(LogEntry("approve", reference, result="approved", details=details))
    return CaseResult(written, tuple(writing.notes))


def refuse(
    home: OpenHome, reference: str, reason: str, *, kind: str | None = None, options: CaseOptions | None = None
) -> CaseResult:
    """Refuses a case, with the reason that the person is given (Art. 12(4)). With a `kind`, opens the case first if it
    does not exist.
    """
    reason = require_printable(reason, "the reason", LONGEST_REASON)
    given = replace(options or CaseOptions(), request=reference)
    reference = given.request or reference  # stored in this form
    with log_transaction(home, given.who) as writing:
        known = catalog.case(writing.connection, reference)
        if known is not None:
            kind = known.kind
        elif kind is None:
            raise unknown_case_error(
                writing.connection, reference, "to refuse a request that has no case yet, give its kind: --kind"
            )
        elif kind not in KINDS:
            raise LineageError(f"unknown kind of request '{kind}'; kinds: {', '.join(KINDS)}")
        case = open_or_update_case(writing, given, kind)
        assert case is not None
        if case.status == "done":
            raise RunError(f"the case '{reference}' is done: it cannot be refused any more")
        written = save_case(writing, replace(case, status="refused", reason=reason))
        writing.append(LogEntry("refuse", reference, result="refused", details={"reason": reason}))
    return CaseResult(written, tuple(writing.notes))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a reference that is too long to be a path
        return False


def _parse_plan_reference(plan: str | Path) -> tuple[str, str | None]:
    """The case's reference, and the plan's id if the plan was given as a file."""
    path = Path(plan)
    if not (isinstance(plan, Path) or path.suffix == ".json" or _is_file(path)):
        return str(plan), None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        reference, plan_id = found["request"], found["plan_id"]
    except OSError as error:
        raise NotFound(f"cannot read the plan '{path}': {(error.strerror or 'unreadable').lower()}") from error
    except (ValueError, KeyError, TypeError):
        raise LineageError(f"'{path}' is not a plan of an erasure or rectification") from None
    if not isinstance(reference, str):
        raise LineageError(f"the plan '{path}' belongs to no case", hint="plan again with --request REF")
    return reference, str(plan_id)
