"""Cases: a person's request from receipt to closure, with its due date and who verified, planned and approved it.

Every function that changes a case takes a `LogTransaction`, so that the case changes in the same transaction as the
action. Each case is sealed with the home's key, so that an approval cannot be forged in the database.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from lineage_catalog import audit as catalog
from lineage_catalog.audit import CaseRecord
from sqlalchemy import Connection

from lineage_service.audit.actor import Actor, current_actor, require_printable
from lineage_service.audit.log.log_transactions import CASE, LogEntry, LogTransaction, log_connection, log_errors, now
from lineage_service.errors import LineageError, NotFound, RunError, did_you_mean, join_names
from lineage_service.query.open_home import OpenHome
from lineage_service.store.home_key import existing_key

KINDS = ("access", "erasure", "rectification")


@dataclass(frozen=True)
class CaseOptions:
    """The case that a verb serves: its reference, the day of receipt, who verified the identity, and the claimed name
    of the actor.
    """

    request: str | None = None
    received: date | None = None
    verified_by: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        if self.request is None:
            if self.received is not None or self.verified_by is not None:
                raise LineageError("the day of receipt and the verifier need a case", hint="give --request REF")
            return
        object.__setattr__(self, "request", require_printable(self.request, "the reference of a case"))
        if self.verified_by is not None:
            object.__setattr__(self, "verified_by", require_printable(self.verified_by, "the name of the verifier"))
        if self.received is not None and self.received > date.today():
            raise LineageError(f"a request cannot have been received on {self.received}: that is in the future")

    @property
    def who(self) -> Actor:
        return current_actor(self.actor)


def due_date(received: date) -> date:
    """One month after receipt (Art. 12(3)), or the last day of that month if it has no such day."""
    year, month = received.year + received.month // 12, received.month % 12 + 1
    return date(year, month, min(received.day, calendar.monthrange(year, month)[1]))


# --- changes of a case ----------------------------------------------------------------------------------------


def open_or_update_case(
    writing: LogTransaction,
    options: CaseOptions,
    kind: str,
    *,
    four_eyes: bool = False,
    recipients: Iterable[str] = (),
) -> CaseRecord | None:
    """Opens the case that a verb serves or updates it; None without a reference.

    Four eyes and recipients, once set, stay. A case opened by an access becomes an erasure case if an erasure follows,
    but not the reverse. A refused case is not reopened.
    """
    if options.request is None:
        if four_eyes:
            raise LineageError("four eyes need a case, and none is named", hint="give --request REF")
        return None
    old = catalog.case(writing.connection, options.request)
    if old is None:
        if catalog.count_entries(writing.connection, request=options.request, verb=CASE):
            raise _removed_case_error(options.request)
        received = options.received or date.today()
        new = CaseRecord(
            reference=options.request,
            kind=kind,
            status="open",
            received=received.isoformat(),
            due=due_date(received).isoformat(),
            verified_by=options.verified_by,
            plan_id=None,
            planned_by=None,
            planned_name=None,
            four_eyes=four_eyes,
            approved_by=None,
            approved_name=None,
            approved_at=None,
            reason=None,
            recipients=_json(sorted(set(recipients))),
            updated_at=now(),
        )
    else:
        refuse_changed_case(writing, old)
        if old.status == "refused":
            raise refused_case_error(old)
        received = options.received or date.fromisoformat(old.received)
        new = replace(
            old,
            kind=old.kind if kind == "access" else kind,
            received=received.isoformat(),
            due=due_date(received).isoformat(),
            verified_by=options.verified_by or old.verified_by,
            four_eyes=old.four_eyes or four_eyes,
            recipients=_json(sorted({*json.loads(old.recipients), *recipients})),
        )
        if new == old:
            return old
    return save_case(writing, new, CASE)


def record_case_plan(
    writing: LogTransaction,
    options: CaseOptions,
    kind: str,
    plan_id: str,
    *,
    four_eyes: bool = False,
    recipients: Iterable[str] = (),
) -> CaseRecord | None:
    """Updates the case after a plan was made. An approval of an earlier plan does not apply to this one.

    The caller writes the entry of the plan, which names the plan.
    """
    case = open_or_update_case(writing, options, kind, four_eyes=four_eyes, recipients=recipients)
    if case is None:
        return None
    planned = replace(
        case,
        status="planned",
        plan_id=plan_id,
        planned_by=writing.actor.user,
        planned_name=writing.actor.name,
        approved_by=None,
        approved_name=None,
        approved_at=None,
    )
    return save_case(writing, planned)


def record_case_answer(
    writing: LogTransaction, options: CaseOptions, *, recipients: Iterable[str] = ()
) -> CaseRecord | None:
    """Updates the case after an access report. Closes it if it asked for access only and no plan is pending."""
    case = open_or_update_case(writing, options, "access", recipients=recipients)
    if case is None or case.kind != "access" or case.status != "open":
        return case
    return close_case(writing, case.reference)


def close_case(writing: LogTransaction, reference: str | None, status: str = "done") -> CaseRecord | None:
    """Closes the case; None without a reference. The caller writes the entry of the action that closed it."""
    if reference is None:
        return None
    case = require_case(writing.connection, reference)
    refuse_changed_case(writing, case)
    return save_case(writing, replace(case, status=status))


def require_approval(home: OpenHome, reference: str | None, plan_id: str, connection: Connection | None = None) -> None:
    """Raises RunError if a plan must not be applied; does nothing without a reference.

    A plan must not be applied if its case was refused, has a newer plan or was changed by hand, or if the case needs
    four eyes and no actor other than the planner has approved exactly this plan.
    """
    if reference is None:
        return
    if connection is None:
        with log_connection(home) as opened:
            require_approval(home, reference, plan_id, opened)
        return
    with log_errors(home):
        case = require_case(connection, reference)
    key = existing_key(home.layout)
    if key is None or case.seal != case.expected_seal(key.seal):
        raise _changed_case_error(case)
    if case.status == "refused":
        raise refused_case_error(case)
    if case.plan_id != plan_id:
        raise RunError(
            f"the plan '{plan_id}' is not that of the case '{reference}'",
            hint="a newer plan exists; apply that one, or plan again",
        )
    if not case.four_eyes:
        return
    if case.approved_by is None:
        raise RunError(
            f"the case '{reference}' needs four eyes, and nobody has approved its plan '{plan_id}'",
            hint=f"as another user than {planner_of(case)}: smoke-lineage audit approve {reference}",
        )
    if not Actor(case.approved_by, case.approved_name).is_another_than(planner_of(case)):
        raise same_actor_error(case)  # approved before four eyes were required


def save_case(writing: LogTransaction, case: CaseRecord, verb: str | None = None) -> CaseRecord:
    written = catalog.write_case(writing.connection, replace(case, updated_at=now()), writing.key.seal)
    if verb is not None:
        details = {"kind": case.kind, "received": case.received, "due": case.due, "four_eyes": case.four_eyes}
        if case.verified_by is not None:
            details["verified_by"] = case.verified_by
        counts = {"recipients": len(json.loads(case.recipients))}
        writing.append(LogEntry(verb, case.reference, counts=counts, result=case.status, details=details))
    return written


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- errors ---------------------------------------------------------------------------------------------------


def require_case(connection: Connection, reference: str) -> CaseRecord:
    case = catalog.case(connection, reference)
    if case is None:
        raise unknown_case_error(connection, reference)
    return case


def unknown_case_error(connection: Connection, reference: str, hint: str | None = None) -> NotFound:
    known = catalog.case_references(connection)
    return NotFound(
        f"there is no case '{reference}'; cases: {join_names(known)}", hint=hint or did_you_mean(reference, known)
    )


def refuse_changed_case(writing: LogTransaction, case: CaseRecord) -> None:
    if case.seal != case.expected_seal(writing.key.seal):
        raise _changed_case_error(case)


def _changed_case_error(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' is not as it was written: it was changed by hand, or with another key",
        hint="check its entries in the log: smoke-lineage audit log --verify",
    )


def _removed_case_error(reference: str) -> RunError:
    return RunError(
        f"the case '{reference}' was removed by hand: the log mentions it, the list of cases does not",
        hint="look closer: smoke-lineage audit log --verify",
    )


def refused_case_error(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' was refused on {case.updated_at[:10]}", hint="a new request has a new reference"
    )


def same_actor_error(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' needs four eyes: {planner_of(case)} has planned it, and cannot approve it",
        hint="another user of the operating system must approve it, under another name: see docs/audit-log.md",
    )


def planner_of(case: CaseRecord) -> Actor:
    return Actor(case.planned_by or "nobody", case.planned_name)
