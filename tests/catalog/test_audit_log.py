"""The log in the database, on both engines: whatever is changed in it by hand is found; writers come one by one."""

import subprocess
import sys

import pytest
from lineage_catalog import audit as catalog
from lineage_catalog import models
from lineage_catalog.engine import connect
from sqlalchemy import func, select

from lineage_service import Home
from lineage_service.audit.actor import Actor
from lineage_service.audit.cases.case_lifecycle import CaseOptions, close_case, record_case_plan, require_approval
from lineage_service.audit.cases.decisions import approve
from lineage_service.audit.log.log_retention import remove_expired_log_entries
from lineage_service.audit.log.log_transactions import LogEntry, join_transaction, log_transaction, write_entry
from lineage_service.errors import StoreError
from tests.support.audit_logs import by_hand, database, entry, home_with_entries, in_days, problems

COLUMNS = [column.name for column in models.audit_log.c]


@pytest.fixture
def home(empty_url, tmp_path):
    with home_with_entries(tmp_path, 6, empty_url) as opened:
        yield opened


def test_a_log_that_nobody_touched_is_whole(home):
    verdict = home.audit.verify_log()
    assert verdict.ok
    assert (verdict.entries, verdict.first, verdict.last, verdict.removed) == (6, 1, 6, 0)
    assert (verdict.anchored, verdict.unanchored, verdict.notes) == (((1, 6),), (), ())
    assert verdict.head == home.audit.log_head()["hash"]


def test_an_empty_log_is_whole(url, tmp_path):
    with Home.open(tmp_path / "home", catalog=url) as home:
        assert home.audit.verify_log().ok
        assert home.audit.log_head()["number"] == 0
        assert home.audit.log().to_pylist() == []


def test_a_change_of_any_column_is_found(home):
    assert {"number", "actor", "details", "hash"} <= set(COLUMNS)
    for column in COLUMNS:
        with database(home) as execute:
            (before,) = execute(f'SELECT "{column}" FROM audit_log WHERE number = 3').one()
        value = 77 if column == "number" else f"{before or ''}x"[-60:]
        by_hand(home, f'UPDATE audit_log SET "{column}" = :value WHERE number = 3', value=value)
        found = problems(home)
        where = "number = 77" if column == "number" else "number = 3"
        by_hand(home, f'UPDATE audit_log SET "{column}" = :value WHERE {where}', value=before)
        assert any(problem.startswith("entry 3 ") for problem in found), column
        assert home.audit.verify_log().ok, f"{column}: as it was before"


def test_a_change_that_means_the_same_is_found(home):
    by_hand(home, "UPDATE audit_log SET counts = '{\"rows\":  2}' WHERE number = 3")
    assert problems(home) == ["entry 3 was changed"]


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("number = 1", "entry 1 is missing"),
        ("number = 4", "entry 4 is missing"),
        ("number IN (3, 4)", "entry 3 and all up to entry 4 are missing"),
        ("number = 6", "entry 6 is missing: the tail was cut off behind an anchored entry"),
        ("number > 2", "entry 3 and all up to entry 6 are missing: the tail was cut off behind an anchored entry"),
        ("number > 0", "entry 1 and all up to entry 6 are missing: the tail was cut off behind an anchored entry"),
    ],
)
def test_a_removed_entry_is_found(home, gone, told):
    by_hand(home, f"DELETE FROM audit_log WHERE {gone}")
    assert problems(home) == [told]


def test_two_that_were_swapped_are_found(home):
    by_hand(
        home,
        "UPDATE audit_log SET number = 99 WHERE number = 2",
        "UPDATE audit_log SET number = 2 WHERE number = 5",
        "UPDATE audit_log SET number = 5 WHERE number = 99",
    )
    found = problems(home)
    assert "entry 2 was changed" in found
    assert "entry 5 was changed" in found


def test_a_removed_entry_whose_successors_moved_up_is_found(home):
    by_hand(
        home,
        "DELETE FROM audit_log WHERE number = 3",
        *(f"UPDATE audit_log SET number = {number - 1} WHERE number = {number}" for number in (4, 5, 6)),
    )
    assert "entry 3 was changed" in problems(home)


def test_a_forged_entry_is_found(home):
    """Whoever has no key cannot hash one, however well the rest is copied."""
    head = home.audit.log_head()
    by_hand(
        home,
        "INSERT INTO audit_log SELECT 7, at, os_user, actor, verb, request, subjects, datasets, counts, result, "
        "details, key_id, :before, hash FROM audit_log WHERE number = 6",
        before=head["hash"],
    )
    assert problems(home) == ["entry 7 was changed"]
    assert home.audit.verify_log().unanchored == ((7, 7),)


def test_a_tail_that_was_cut_and_written_anew_is_found(home):
    by_hand(home, "DELETE FROM audit_log WHERE number > 4")
    write_entry(home._open, entry(40))
    write_entry(home._open, entry(50))
    assert problems(home) == ["entry 5 differs from the anchored entry", "entry 6 differs from the anchored entry"]


def test_ranges_end_where_the_chain_breaks(home):
    by_hand(home, "UPDATE audit_log SET verb = 'rows' WHERE number = 3", "DELETE FROM audit_log WHERE number = 5")
    verdict = home.audit.verify_log()
    assert (verdict.anchored, verdict.unanchored) == (((1, 2), (4, 4), (6, 6)), ((3, 3),))


def test_an_entry_and_its_deed_are_one_transaction(home):
    engine = connect(home._open.url)
    with pytest.raises(RuntimeError), engine.execution_options(writing=True).begin() as connection:
        join_transaction(home._open, connection).append(entry(7))
        raise RuntimeError("the deed failed")
    with engine.execution_options(writing=True).begin() as connection:
        record, notes = write_entry(home._open, entry(7), connection)
        assert (record.number, notes) == (7, [])
    engine.dispose()
    verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.anchored, verdict.unanchored) == (True, ((1, 6),), ((7, 7),))
    write_entry(home._open, entry(8))
    assert home.audit.verify_log().anchored == ((1, 8),), "the next anchor covers it"


def test_a_failure_inside_leaves_no_entry(home):
    with pytest.raises(StoreError), log_transaction(home._open) as writing:
        writing.append(entry(7))
        raise StoreError("the disk is full")
    assert home.audit.log_head()["number"] == 6
    assert home.audit.verify_log().ok


@pytest.mark.long
def test_writers_at_once_give_one_chain(empty_url, tmp_path):
    code = (
        "import sys; from tests.support.audit_logs import home_with_entries; from pathlib import Path;"
        "home_with_entries(Path(sys.argv[1]), 50, sys.argv[2]).close()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), empty_url]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    with Home.open(tmp_path / "home", catalog=empty_url) as home:
        verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.entries, verdict.first, verdict.last) == (True, 100, 1, 100)
    assert verdict.anchored == ((1, 100),)
    assert len((tmp_path / "home" / "audit.anchors").read_text().splitlines()) == 100


def test_entries_are_read_back_as_they_were_written(home):
    rows = home.audit.log(request="R-2").to_pylist()
    assert [row["number"] for row in rows] == [3]
    engine = connect(home._open.url)
    with engine.connect() as connection:
        assert [each.number for each in catalog.entries(connection, verb="access")] == [1, 2, 3, 4, 5, 6]
        assert connection.execute(select(func.count()).select_from(models.audit_log)).scalar_one() == 6
    engine.dispose()


def test_text_of_any_kind_verifies(home):
    write_entry(home._open, LogEntry("access", "Ärger – №7 😀", details={"note": 'quote " and \\ and \n'}))
    assert home.audit.verify_log().ok
    assert home.audit.log(request="Ärger – №7 😀").count() == 1


def test_retention_and_cases_go_together(home):
    for reference in ("DSR-1", "DSR-2"):
        with log_transaction(home._open, Actor("ada")) as writing:
            record_case_plan(
                writing, CaseOptions(reference), "erasure", "p1", four_eyes=True, recipients=["Auditor Ltd"]
            )
    assert approve(home._open, "DSR-1", Actor("bob")).case.status == "approved"
    require_approval(home._open, "DSR-1", "p1")
    with log_transaction(home._open) as writing:
        close_case(writing, "DSR-1")
    assert [row["reference"] for row in home.audit.requests().to_pylist()] == ["DSR-2"]
    assert home.audit.verify_log().ok
    result = remove_expired_log_entries(home._open, 1, today=in_days(2))
    assert (result.entries, result.cases, result.up_to) == (9, 1, 9)
    verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.first, verdict.last, verdict.removed) == (True, 10, 10, 9)
    assert [row["reference"] for row in home.audit.requests(all=True).to_pylist()] == ["DSR-2"]


def test_sqlite_overwrites_what_it_removes(tmp_path):
    """Many builds of SQLite do so anyway; ours must not depend on it."""
    with home_with_entries(tmp_path, 2) as home:
        engine = connect(home._open.url)
        with engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete = OFF")
            assert catalog.remove_entries(connection, 1) == 1
            assert connection.exec_driver_sql("PRAGMA secure_delete").scalar_one() == 1
        engine.dispose()
