"""Cases: opened by any verb, due in a month, approved by another where four eyes are wanted, refused with a reason."""

import json
from datetime import date, timedelta

import click
import pytest
from click.testing import CliRunner
from lineage_cli.case_options import case_options, four_eyes_option
from lineage_cli.commands.audit_verbs.refuse import KINDS as OFFERED
from lineage_cli.main import main

from lineage_service import Home
from lineage_service.audit import actor as actors
from lineage_service.audit.cases.case_lifecycle import (
    KINDS,
    CaseOptions,
    close_case,
    due_date,
    open_or_update_case,
    record_case_answer,
    record_case_plan,
    require_approval,
)
from lineage_service.audit.cases.case_listing import list_cases
from lineage_service.audit.log.log_retention import remove_expired_log_entries
from lineage_service.audit.log.log_transactions import LogEntry, log_transaction
from lineage_service.errors import LineageError, NotFound, RunError
from tests.support.audit_logs import by_hand, in_days, problems

REF = "DSR-1"


@pytest.fixture(autouse=True)
def ada(monkeypatch):
    """Ada is at work, at her own account."""
    monkeypatch.setattr(actors, "_user", lambda: "ada")
    monkeypatch.delenv("SMOKE_ACTOR", raising=False)


@pytest.fixture
def bob(monkeypatch):
    return lambda: monkeypatch.setattr(actors, "_user", lambda: "bob")


@pytest.fixture
def home(tmp_path):
    with Home.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def call(home, capsys):
    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([*map(str, words), "--home", str(home.layout.path)])
        return left.value.code, *capsys.readouterr()

    return run


def plan(home, plan_id="p1", four_eyes=True, reference=REF, recipients=("Auditor Ltd",)):
    options = CaseOptions(reference)
    with log_transaction(home._open, options.who) as writing:
        case = record_case_plan(writing, options, "erasure", plan_id, four_eyes=four_eyes, recipients=recipients)
        writing.append(LogEntry("plan-erasure", reference, details={"plan_id": plan_id}))
    return case


def opened(home, kind="access", **options):
    given = CaseOptions(REF, **options)
    with log_transaction(home._open, given.who) as writing:
        return open_or_update_case(writing, given, kind)


def listed(home, **options):
    return {row["reference"]: row for row in list_cases(home._open, **options).to_pylist()}


# --- due ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("received", "due"),
    [
        ("2021-01-15", "2021-02-15"),
        ("2021-01-31", "2021-02-28"),
        ("2028-01-31", "2028-02-29"),
        ("2021-02-28", "2021-03-28"),
        ("2021-03-31", "2021-04-30"),
        ("2021-12-01", "2022-01-01"),
        ("2021-12-31", "2022-01-31"),
        ("2021-11-30", "2021-12-30"),
    ],
)
def test_a_case_is_due_in_a_month(received, due):
    assert due_date(date.fromisoformat(received)) == date.fromisoformat(due)


def test_open_cases_come_by_due_date_and_overdue_ones_are_marked(home):
    today = date(2021, 6, 10)
    for reference, received in (("late", "2021-04-01"), ("today", "2021-05-10"), ("later", "2021-06-01")):
        options = CaseOptions(reference, date.fromisoformat(received))
        with log_transaction(home._open) as writing:
            open_or_update_case(writing, options, "access")
    rows = list_cases(home._open, today=today)
    assert [(row["reference"], row["days_left"], row["overdue"]) for row in rows.to_pylist()] == [
        ("late", -40, True),
        ("today", 0, False),
        ("later", 21, False),
    ]
    assert rows.notes == ["1 case is overdue"]


def test_what_is_to_come_cannot_have_been_received():
    with pytest.raises(LineageError, match="in the future"):
        CaseOptions(REF, date.today() + timedelta(days=2))


@pytest.mark.parametrize("reference", ["", " ", "a\tb", "x" * 201])
def test_a_reference_must_be_one(reference):
    with pytest.raises(LineageError, match="the reference of a case"):
        CaseOptions(reference)


def test_details_of_a_case_need_a_case():
    with pytest.raises(LineageError, match="need a case"):
        CaseOptions(verified_by="Ada")


# --- the way of a case ----------------------------------------------------------------------------------------


def test_a_verb_without_a_reference_has_no_case(home):
    with log_transaction(home._open) as writing:
        assert open_or_update_case(writing, CaseOptions(), "access") is None
        assert record_case_plan(writing, CaseOptions(), "erasure", "p1") is None
        assert record_case_answer(writing, CaseOptions()) is None
        assert close_case(writing, None) is None
        with pytest.raises(LineageError, match="four eyes need a case"):
            record_case_plan(writing, CaseOptions(), "erasure", "p1", four_eyes=True)
    require_approval(home._open, None, "p1")
    assert listed(home) == {}


def test_what_is_new_about_a_case_is_kept_and_logged(home):
    opened(home, received=date(2021, 1, 31))
    opened(home, verified_by="Front desk")
    opened(home)  # nothing new
    row = listed(home)[REF]
    assert (row["received"], row["due"], row["verified_by"]) == ("2021-01-31", "2021-02-28", "Front desk")
    entries = home.audit.log(verb="case").to_pylist()
    assert [entry["request"] for entry in entries] == [REF, REF]
    assert json.loads(entries[0]["details"])["verified_by"] == "Front desk"


def test_an_access_is_done_when_it_is_answered(home):
    with log_transaction(home._open) as writing:
        assert record_case_answer(writing, CaseOptions(REF)).status == "done"
    assert listed(home) == {}
    assert listed(home, closed=True)[REF]["days_left"] is None


def test_an_access_on_the_way_to_an_erasure_does_not_end_it(home):
    plan(home)
    with log_transaction(home._open) as writing:
        case = record_case_answer(writing, CaseOptions(REF))
    assert (case.kind, case.status, case.plan_id) == ("erasure", "planned", "p1")


def test_recipients_are_gathered(home):
    plan(home, recipients=["B", "A"])
    plan(home, recipients=["C", "A"])
    assert listed(home)[REF]["recipients"] == ["A", "B", "C"]


def test_a_case_and_its_deed_are_one_transaction(home):
    opened(home)
    with pytest.raises(RunError), log_transaction(home._open) as writing:
        record_case_plan(writing, CaseOptions(REF), "erasure", "p1")
        raise RunError("the plan could not be written")
    assert listed(home)[REF]["status"] == "open"


# --- four eyes ------------------------------------------------------------------------------------------------


def test_a_plan_that_needs_four_eyes_waits_for_another(home, bob):
    plan(home)
    with pytest.raises(RunError, match="nobody has approved"):
        require_approval(home._open, REF, "p1")
    with pytest.raises(RunError, match="ada has planned it, and cannot approve it"):
        home.audit.approve(REF)
    with pytest.raises(RunError, match="cannot approve it"):
        home.audit.approve(REF, actor="Bob")  # a name is typed by whoever likes
    assert listed(home)[REF]["status"] == "planned"
    bob()
    result = home.audit.approve(REF)
    assert (result.case.status, result.case.approved_by, result.case.plan_id) == ("approved", "bob", "p1")
    require_approval(home._open, REF, "p1")
    (entry,) = home.audit.log(verb="approve").to_pylist()
    assert (entry["os_user"], json.loads(entry["details"])["plan_id"]) == ("bob", "p1")


def test_one_person_with_two_accounts_is_one(home, bob, monkeypatch):
    monkeypatch.setenv("SMOKE_ACTOR", "Ada Byron")
    plan(home)
    bob()
    with pytest.raises(RunError, match=r"Ada Byron \(ada\) has planned it"):
        home.audit.approve(REF)


def test_an_approval_is_of_one_plan(home, bob):
    plan(home, "p1")
    bob()
    home.audit.approve(REF)
    plan(home, "p2")
    with pytest.raises(RunError, match="'p1' is not that of the case"):
        require_approval(home._open, REF, "p1")
    with pytest.raises(RunError, match="nobody has approved its plan 'p2'"):
        require_approval(home._open, REF, "p2")


def test_four_eyes_once_asked_for_stay(home):
    plan(home, four_eyes=True)
    plan(home, "p2", four_eyes=False)
    with pytest.raises(RunError, match="needs four eyes"):
        require_approval(home._open, REF, "p2")


def test_without_four_eyes_no_approval_is_needed_and_ones_own_will_do(home):
    plan(home, four_eyes=False)
    require_approval(home._open, REF, "p1")
    assert home.audit.approve(REF).case.approved_by == "ada"
    with pytest.raises(RunError, match="no plan to approve: it is approved"):
        home.audit.approve(REF)


def test_an_approval_of_ones_own_is_worth_nothing_once_four_eyes_are_asked_for(home):
    plan(home, four_eyes=False)
    home.audit.approve(REF)
    with log_transaction(home._open) as writing:
        open_or_update_case(writing, CaseOptions(REF), "erasure", four_eyes=True)
    with pytest.raises(RunError, match="cannot approve it"):
        require_approval(home._open, REF, "p1")


def test_a_plan_is_approved_by_its_file(home, bob, tmp_path):
    plan(home)
    bob()
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"plan_id": "p0", "request": REF}))
    with pytest.raises(RunError, match="'p0' is not that of the case"):
        home.audit.approve(file)
    file.write_text(json.dumps({"plan_id": "p1", "request": None}))
    with pytest.raises(LineageError, match="belongs to no case"):
        home.audit.approve(file)
    for text in ("{", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(LineageError, match="is not a plan"):
            home.audit.approve(file)
    with pytest.raises(NotFound, match="cannot read the plan"):
        home.audit.approve(str(tmp_path / "none.json"))
    file.write_text(json.dumps({"plan_id": "p1", "request": REF}))
    assert home.audit.approve(str(file)).case.status == "approved"


# --- by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "approved_by = 'bob', approved_at = '2021-01-01', status = 'approved'",
        "four_eyes = false",
        "planned_by = 'carol'",
        "recipients = '[]'",
    ],
)
def test_a_case_that_was_changed_by_hand_is_found_and_stops(home, bob, change):
    plan(home)
    by_hand(home, f"UPDATE audit_requests SET {change}")
    with pytest.raises(RunError, match="is not as it was written"):
        require_approval(home._open, REF, "p1")
    bob()
    with pytest.raises(RunError, match="is not as it was written"):
        home.audit.approve(REF)
    assert problems(home) == [f"the case '{REF}' was changed by hand"]


def test_a_case_that_was_removed_by_hand_is_found_and_stops(home):
    plan(home)
    by_hand(home, "DELETE FROM audit_requests")
    with pytest.raises(NotFound, match="there is no case"):
        require_approval(home._open, REF, "p1")
    with pytest.raises(RunError, match="was removed by hand"):
        plan(home, "p2", four_eyes=False)
    assert problems(home) == [f"the case '{REF}' was removed by hand"]


# --- the end --------------------------------------------------------------------------------------------------


def test_a_refusal_has_its_reason_and_is_the_end(home):
    plan(home)
    with pytest.raises(LineageError, match="the reason is empty"):
        home.audit.refuse(REF, " ")
    assert home.audit.refuse(REF, "identity could not be verified").case.status == "refused"
    assert listed(home) == {}
    assert listed(home, closed=True)[REF]["reason"] == "identity could not be verified"
    (entry,) = home.audit.log(verb="refuse").to_pylist()
    assert (entry["request"], entry["result"]) == (REF, "refused")
    for deed in (lambda: require_approval(home._open, REF, "p1"), lambda: plan(home), lambda: home.audit.approve(REF)):
        with pytest.raises(RunError, match="was refused on"):
            deed()


def test_what_was_never_begun_can_be_refused(home):
    with pytest.raises(NotFound, match="there is no case 'DSR-1'; cases: none"):
        home.audit.refuse(REF, "not ours")
    case = home.audit.refuse(REF, "not ours", kind="erasure", case=CaseOptions(received=None)).case
    assert (case.kind, case.status) == ("erasure", "refused")


def test_what_is_done_is_not_refused(home):
    plan(home, four_eyes=False)
    with log_transaction(home._open) as writing:
        close_case(writing, REF)
    with pytest.raises(RunError, match="is done"):
        home.audit.refuse(REF, "too late")


def test_closed_cases_go_with_the_log(home):
    plan(home)
    with log_transaction(home._open) as writing:
        record_case_answer(writing, CaseOptions("DSR-2"))
    assert remove_expired_log_entries(home._open, 1, today=in_days(2)).cases == 1
    assert list(listed(home, closed=True)) == [REF], "open ones stay"
    assert home.audit.verify_log().ok
    with log_transaction(home._open) as writing:
        assert open_or_update_case(writing, CaseOptions("DSR-2"), "access") is not None, "it may come again"


def test_a_case_stays_as_long_as_the_log_knows_it(home):
    with log_transaction(home._open) as writing:
        writing.append(LogEntry("access"))
        record_case_answer(writing, CaseOptions(REF))
    by_hand(home, "UPDATE audit_log SET at = '2999-01-01T00:00:00.000+00:00' WHERE verb = 'case'")
    result = remove_expired_log_entries(home._open, 1, today=in_days(2))
    assert (result.entries, result.cases) == (1, 0)


# --- the verbs ------------------------------------------------------------------------------------------------


def test_audit_requests(home, call):
    with log_transaction(home._open):
        pass
    assert call("audit", "requests")[0] == 0, "an empty list is a list"
    plan(home)
    code, out, _ = call("audit", "requests")
    assert code == 0
    assert "Auditor Ltd" in out
    (row,) = json.loads(call("audit", "requests", "--json")[1])
    assert (row["reference"], row["status"], row["four_eyes"], row["recipients"]) == (
        REF, "planned", True, ["Auditor Ltd"],
    )  # fmt: skip
    home.audit.refuse(REF, "no")
    assert json.loads(call("audit", "requests", "--json")[1]) == []
    assert len(json.loads(call("audit", "requests", "--all", "--json")[1])) == 1


def test_audit_approve_and_refuse(home, call, bob):
    plan(home)
    code, _, err = call("audit", "approve", REF)
    assert code == 1
    assert "needs four eyes" in err
    bob()
    assert call("audit", "approve", REF, "--actor", "Bob")[:2] == (0, f"approved plan p1 of case {REF}\n")
    code, out, _ = call("audit", "refuse", REF, "--reason", "withdrawn", "--json")
    assert code == 0
    assert (json.loads(out)["status"], json.loads(out)["reason"]) == ("refused", "withdrawn")
    code, _, err = call("audit", "refuse", "DSR-9", "--reason", "x")
    assert code == 1
    assert f"there is no case 'DSR-9'; cases: {REF}" in err
    code, _, err = call("audit", "refuse", "DSR-9", "--reason", "x", "--kind", "access", "--received", "2021-01-31")
    assert code == 0
    assert listed(home, closed=True)["DSR-9"]["due"] == "2021-02-28"


def test_the_kinds_on_the_command_line_are_those_of_the_service():
    assert OFFERED == KINDS


def test_case_options_give_the_verb_one_argument():
    got = {}

    @click.command()
    @case_options
    @four_eyes_option
    def verb(case, four_eyes):
        got.update(case=case, four_eyes=four_eyes)

    run = CliRunner().invoke
    assert (
        run(verb, ["--request", REF, "--received", "2021-01-31", "--verified-by", "V", "--actor", "A"]).exit_code == 0
    )
    assert got == {"case": CaseOptions(REF, date(2021, 1, 31), "V", "A"), "four_eyes": False}
    assert run(verb, ["--four-eyes"]).exit_code == 0
    assert got == {"case": CaseOptions(), "four_eyes": True}
    assert run(verb, ["--received", "2021-01-31"]).exit_code == 2
    assert run(verb, ["--request", REF, "--received", "31.1."]).exit_code == 2
