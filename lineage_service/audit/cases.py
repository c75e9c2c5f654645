"""Cases: a person's request from the day it came, its due date, who verified, planned and approved, how it ended.

Every function that changes one takes a `Writing` (log.py): a case changes in the transaction of the deed, or not at
all. Each row is sealed with the home's key, so that an approval cannot be made by hand in the database.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import CLOSED, CaseRecord
from sqlalchemy import Connection

from lineage_service.audit.actor import Actor, current_actor, plain
from lineage_service.audit.facade import Audit
from lineage_service.audit.log import CASE, Entry, Writing, log_errors, logged, now, reading
from lineage_service.errors import LineageError, NotFound, RunError, did_you_mean, listed
from lineage_service.query.answer import Answer, records
from lineage_service.subjects.key import existing_key

KINDS = ("access", "erasure", "rectification")
LONGEST_REASON = 2000


@dataclass(frozen=True)
class CaseOptions:
    """What a verb is told about the case it serves: its reference, the day it came, who verified the identity, and the
    name that whoever calls the verb claims.
    """

    request: str | None = None
    received: date | None = None
    verified_by: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        if self.request is None:
            if self.received is not None or self.verified_by is not None:
                raise LineageError("the day of receipt and who verified belong to a case", hint="give --request REF")
            return
        object.__setattr__(self, "request", plain(self.request, "the reference of a case"))
        if self.verified_by is not None:
            object.__setattr__(self, "verified_by", plain(self.verified_by, "the name of who verified"))
        if self.received is not None and self.received > date.today():
            raise LineageError(f"a request cannot have been received on {self.received}: that is still to come")

    @property
    def who(self) -> Actor:
        return current_actor(self.actor)


def due_date(received: date) -> date:
    """One month later (Art. 12(3)); the last day of that month where it has no such day."""
    year, month = received.year + received.month // 12, received.month % 12 + 1
    return date(year, month, min(received.day, calendar.monthrange(year, month)[1]))


# --- what verbs do to a case ----------------------------------------------------------------------------------


def case_opened(
    writing: Writing,
    options: CaseOptions,
    kind: str,
    *,
    four_eyes: bool = False,
    recipients: Iterable[str] = (),
) -> CaseRecord | None:
    """The case that a verb serves: opened where it is new, else with what is new about it; None without a reference.

    What was once asked for stays: four eyes, recipients. A case opened by an access becomes that of the erasure which
    follows, and not the other way round. A refused case is not taken up again.
    """
    if options.request is None:
        if four_eyes:
            raise LineageError("four eyes look at a case, and none is named", hint="give --request REF")
        return None
    old = catalog.case(writing.connection, options.request)
    if old is None:
        if catalog.count_entries(writing.connection, request=options.request, verb=CASE):
            raise _was_removed(options.request)
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
        _refuse_changed(writing, old)
        if old.status == "refused":
            raise _was_refused(old)
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
    return _written(writing, new, CASE)


def case_planned(
    writing: Writing,
    options: CaseOptions,
    kind: str,
    plan_id: str,
    *,
    four_eyes: bool = False,
    recipients: Iterable[str] = (),
) -> CaseRecord | None:
    """The case once a plan was made for it. An approval of an earlier plan is worth nothing for this one.

    The plan's own entry is the caller's; it names the plan.
    """
    case = case_opened(writing, options, kind, four_eyes=four_eyes, recipients=recipients)
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
    return _written(writing, planned)


def case_answered(writing: Writing, options: CaseOptions, *, recipients: Iterable[str] = ()) -> CaseRecord | None:
    """The case once an access was answered: done, where access is what was asked for and nothing is planned."""
    case = case_opened(writing, options, "access", recipients=recipients)
    if case is None or case.kind != "access" or case.status != "open":
        return case
    return case_closed(writing, case.reference)


def case_closed(writing: Writing, reference: str | None, status: str = "done") -> CaseRecord | None:
    """The case at its end; None without a reference. The entry of what ended it is the caller's."""
    if reference is None:
        return None
    case = _found(writing.connection, reference)
    _refuse_changed(writing, case)
    return _written(writing, replace(case, status=status))


def require_approval(audit: Audit, reference: str | None, plan_id: str, connection: Connection | None = None) -> None:
    """RunError where a plan may not be applied: its case was refused, has another plan by now, was changed by hand, or
    wants four eyes and another actor than the planner has not approved just this plan. Nothing without a reference.
    """
    if reference is None:
        return
    if connection is None:
        with reading(audit) as opened:
            require_approval(audit, reference, plan_id, opened)
        return
    with log_errors(audit):
        case = _found(connection, reference)
    key = existing_key(audit.layout)
    if key is None or case.seal != case.sealed(key.seal):
        raise _was_changed(case)
    if case.status == "refused":
        raise _was_refused(case)
    if case.plan_id != plan_id:
        raise RunError(
            f"the plan '{plan_id}' is not that of the case '{reference}'",
            hint="it was planned anew since; apply the later plan, or plan again",
        )
    if not case.four_eyes:
        return
    if case.approved_by is None:
        raise RunError(
            f"the case '{reference}' needs four eyes, and nobody has approved its plan '{plan_id}'",
            hint=f"as another user than {_planner(case)}: smoke-lineage audit approve {reference}",
        )
    if not Actor(case.approved_by, case.approved_name).is_another_than(_planner(case)):
        raise _same_actor(case)  # approved before four eyes were asked for


def _written(writing: Writing, case: CaseRecord, verb: str | None = None) -> CaseRecord:
    written = catalog.write_case(writing.connection, replace(case, updated_at=now()), writing.key.seal)
    if verb is not None:
        details = {"kind": case.kind, "received": case.received, "due": case.due, "four_eyes": case.four_eyes}
        if case.verified_by is not None:
            details["verified_by"] = case.verified_by
        counts = {"recipients": len(json.loads(case.recipients))}
        writing.append(Entry(verb, case.reference, counts=counts, result=case.status, details=details))
    return written


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- what people do to a case ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CaseResult:
    """A case as a verb left it; `notes` are for people."""

    case: CaseRecord
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return shown(self.case)


def approve(audit: Audit, plan: str | Path, actor: Actor | None = None) -> CaseResult:
    """The plan of a case approved: `plan` is the plan's file, or the case's reference.

    Where the case needs four eyes, by another actor than planned it.
    """
    reference, plan_id = _meant(plan)
    with logged(audit, actor) as writing:
        case = _found(writing.connection, reference)
        _refuse_changed(writing, case)
        if plan_id is not None and case.plan_id != plan_id:
            raise RunError(
                f"the plan '{plan_id}' is not that of the case '{reference}'",
                hint="it was planned anew since; approve the later plan",
            )
        if case.status == "refused":
            raise _was_refused(case)
        if case.status != "planned":
            raise RunError(
                f"the case '{reference}' has no plan to approve: it is {case.status}",
                hint=None if case.status in CLOSED else f"smoke-lineage audit plan-erasure … --request {reference}",
            )
        if case.four_eyes and not writing.actor.is_another_than(_planner(case)):
            raise _same_actor(case)
        approved = replace(
            case,
            status="approved",
            approved_by=writing.actor.user,
            approved_name=writing.actor.name,
            approved_at=now(),
        )
        written = _written(writing, approved)
        details = {"plan_id": case.plan_id, "four_eyes": case.four_eyes}
        writing.append(Entry("approve", reference, result="approved", details=details))
    return CaseResult(written, tuple(writing.notes))


def refuse(
    audit: Audit, reference: str, reason: str, *, kind: str | None = None, options: CaseOptions | None = None
) -> CaseResult:
    """The case refused, with the reason that the person is given (Art. 12(4)). With a `kind`, one that nobody has
    opened yet is opened for it.
    """
    reason = plain(reason, "the reason", LONGEST_REASON)
    given = replace(options or CaseOptions(), request=reference)
    reference = given.request or reference  # as it is written
    with logged(audit, given.who) as writing:
        known = catalog.case(writing.connection, reference)
        if known is not None:
            kind = known.kind
        elif kind is None:
            raise _unknown(writing.connection, reference, "to refuse what was never begun, say what it was: --kind")
        elif kind not in KINDS:
            raise LineageError(f"unknown kind of request '{kind}'; kinds: {', '.join(KINDS)}")
        case = case_opened(writing, given, kind)
        assert case is not None
        if case.status == "done":
            raise RunError(f"the case '{reference}' is done: it cannot be refused any more")
        written = _written(writing, replace(case, status="refused", reason=reason))
        writing.append(Entry("refuse", reference, result="refused", details={"reason": reason}))
    return CaseResult(written, tuple(writing.notes))


def _meant(plan: str | Path) -> tuple[str, str | None]:
    """The reference that is meant, and the plan's id where it was given by its file."""
    path = Path(plan)
    if not (isinstance(plan, Path) or path.suffix == ".json" or path.is_file()):
        return str(plan), None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        reference, plan_id = found["request"], found["plan_id"]
    except OSError as error:
        raise NotFound(f"cannot read the plan '{path}': {(error.strerror or 'unreadable').lower()}") from error
    except (ValueError, KeyError, TypeError):
        raise LineageError(f"'{path}' is no plan of an erasure or rectification") from None
    if not isinstance(reference, str):
        raise LineageError(f"the plan '{path}' belongs to no case", hint="plan again with --request REF")
    return reference, str(plan_id)


# --- errors ---------------------------------------------------------------------------------------------------


def _found(connection: Connection, reference: str) -> CaseRecord:
    case = catalog.case(connection, reference)
    if case is None:
        raise _unknown(connection, reference)
    return case


def _unknown(connection: Connection, reference: str, hint: str | None = None) -> NotFound:
    known = catalog.references(connection)
    return NotFound(
        f"there is no case '{reference}'; cases: {listed(known)}", hint=hint or did_you_mean(reference, known)
    )


def _refuse_changed(writing: Writing, case: CaseRecord) -> None:
    if case.seal != case.sealed(writing.key.seal):
        raise _was_changed(case)


def _was_changed(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' is not as it was written: it was changed by hand, or with another key",
        hint="look at what the log has of it: smoke-lineage audit log --verify",
    )


def _was_removed(reference: str) -> RunError:
    return RunError(
        f"the case '{reference}' was removed by hand: the log knows it, the list of cases does not",
        hint="look closer: smoke-lineage audit log --verify",
    )


def _was_refused(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' was refused on {case.updated_at[:10]}", hint="a new request has a new reference"
    )


def _same_actor(case: CaseRecord) -> RunError:
    return RunError(
        f"the case '{case.reference}' needs four eyes: {_planner(case)} has planned it, and cannot approve it",
        hint="another user of the operating system has to, and under another name: see docs/audit-log.md",
    )


def _planner(case: CaseRecord) -> Actor:
    return Actor(case.planned_by or "nobody", case.planned_name)


# --- listing --------------------------------------------------------------------------------------------------


def requests(audit: Audit, *, closed: bool = False, limit: int | None = None, today: date | None = None) -> Answer:
    """Cases by due date: the open ones, or all. `days_left` is below 0 where it is overdue, null where it is closed."""
    with reading(audit) as connection:
        found = catalog.cases(connection, closed=closed)
    rows = [tuple(shown(case, today).values()) for case in found]
    answer = records(list(COLUMNS), rows, limit)
    overdue = sum(case.status not in CLOSED and _days_left(case, today) < 0 for case in found)
    if overdue:
        answer.notes.append(f"{overdue:,} {'case is' if overdue == 1 else 'cases are'} overdue")
    return answer


COLUMNS = (
    "reference", "kind", "status", "received", "due", "days_left", "overdue", "verified_by", "four_eyes", "plan_id",
    "planned_by", "planned_name", "approved_by", "approved_name", "approved_at", "reason", "recipients", "updated_at",
)  # fmt: skip


def shown(case: CaseRecord, today: date | None = None) -> dict[str, Any]:
    """A case as it is told: by column."""
    left = None if case.status in CLOSED else _days_left(case, today)
    derived = {
        "days_left": left,
        "overdue": left is not None and left < 0,
        "recipients": json.loads(case.recipients),
    }
    return {name: derived[name] if name in derived else getattr(case, name) for name in COLUMNS}


def _days_left(case: CaseRecord, today: date | None) -> int:
    return (date.fromisoformat(case.due) - (today or date.today())).days
