"""Runs past their retention: what goes, what stays, and what is said of it. Without Spark."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.engine import connect
from sqlalchemy import text

from lineage_service.audit.erasure.run_retention import remove_expired_runs
from lineage_service.errors import NotFound, SourceError
from lineage_service.store.patched_rids import write_positions
from lineage_service.store.published_folder import write_mark
from lineage_service.store.versions import Version
from tests.support.killing import counted
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

ROWS = pa.table({"k": [1, 2, 3]})
SAME = [(0, 0), (1, 1), (2, 2)]
SHORT = {"privacy": {"retention_days": 10}}
LONG = {"privacy": {"retention_days": 100_000}}


def first_run(made, spec=SHORT):
    return made.run("first", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops={"s": SAME})}, spec=spec)


def chain(folder):
    """A run that is past its days, and one of another workflow that has read what it made."""
    made = MadeHome(folder / "home")
    old = first_run(made)
    new = made.run("second", {"in": Made(made.versions[old, "out"], "source"), "sum": Made(ROWS, hops={"in": SAME})})
    return made, old, new


def files(made):
    return {str(path.relative_to(made.folder)) for path in (made.folder / "runs").rglob("*") if path.is_file()}


def test_a_run_past_its_days_goes_with_all_its_files(tmp_path):
    made = MadeHome(tmp_path / "home")
    old, young, unlimited = first_run(made), first_run(made, LONG), first_run(made, {})
    with made.home as home:
        result = home.gc(retention=True)
        assert result["expired"] == [old] and result["files"] == 4
        assert [row["run_id"] for row in home.runs().to_pylist()] == [unlimited, young]
        with pytest.raises(NotFound, match="past the retention of its workflow 'first'"):
            home.rows(f"out@{old}")
    assert {path.split("/")[1] for path in files(made)} == {young, unlimited}


def test_days_count_from_the_commit_of_the_data(tmp_path):
    made = MadeHome(tmp_path / "home")
    run = first_run(made)
    with made.home as home:
        assert not remove_expired_runs(home._open, dry_run=True, at=datetime(2026, 1, 10, tzinfo=UTC)).runs
        assert remove_expired_runs(home._open, dry_run=True, at=datetime(2026, 1, 12, tzinfo=UTC)).runs
    engine = connect(made.url)
    with engine.begin() as connection:  # it stands for an earlier run
        connection.execute(text("UPDATE runs SET held_since = '2025-01-01T00:00:00'"))
        seal_anew(connection)
    engine.dispose()
    with made.home as home:
        assert [
            each.id for each in remove_expired_runs(home._open, dry_run=True, at=datetime(2026, 1, 2, tzinfo=UTC)).runs
        ] == [run]


def test_a_dry_run_changes_nothing(tmp_path):
    made, old, _ = chain(tmp_path)
    before = files(made)
    with made.home as home:
        result = home.gc(retention=True, dry_run=True)
        assert result["expired"] == [old] and result["files"] > 0 and result["bytes"] > 0
        assert len(home.runs().to_pylist()) == 2
    assert files(made) == before
    assert entries(made) == []


def test_what_a_later_run_made_stays_and_its_lineage_is_cut(tmp_path):
    made, old, new = chain(tmp_path)
    with made.home as home:
        assert "behind" not in str(home.backward("sum", rid=0).notes)
        assert home.gc(retention=True)["cut"] == [f"second.in@{new}"]
    assert {path.split("/")[1] for path in files(made)} == {new}
    with made.home as home:
        assert [row["k"] for row in home.rows("sum").to_pylist()] == [1, 2, 3]
        answer = home.backward("sum", rid=1)
        assert answer.to_pylist() == [{"dataset": "second.in", "rows": 1}]
        assert any(f"lineage is cut at 'second.in': run '{old}'" in note for note in answer.notes)
        assert home.backward("sum", to="in", rid=1, rids=True).to_pylist() == [{"_rid": 1}]
        with pytest.raises(SourceError, match="are gone"):
            home.backward("sum", to="in", rid=1).to_pylist()
        assert any("cut" in note for note in home.trace("sum", rid=0).notes)
        assert any("cut" in note for note in home.backward("second.in", rid=0).notes)


def test_files_that_a_run_needs_for_its_own_rows_stay(tmp_path):
    made = MadeHome(tmp_path / "home")
    old = first_run(made)
    base = made.versions[old, "out"]
    write_positions(made.folder / "runs" / "0002first" / "without.parquet", pa.array([1]))
    patched = replace(base.files[0], without="runs/0002first/without.parquet", left_out=1)
    version = Version("patched", "output", (patched,), base.columns)
    new = made.run(
        "first", {"s": Made(made.versions[old, "s"], "source"), "out": Made(version, hops={"s": SAME})}, spec=LONG
    )
    with made.home as home:
        assert home.gc(retention=True)["expired"] == [old]
        assert [row["k"] for row in home.rows("out").to_pylist()] == [1, 3]
        assert [row["k"] for row in home.rows("s").to_pylist()] == [1, 2, 3]
        home.gc()  # nor does this take what is shared
        assert len(home.rows("out").to_pylist()) == 2
    left = {path for path in files(made) if path.startswith(f"runs/{old}/")}
    assert left == {f"runs/{old}/{name}" for name in ("s/part-0.parquet", "out/part-0.parquet", ".committed")}
    assert new


def test_what_was_shared_goes_with_the_last_that_needs_it(tmp_path):
    made = MadeHome(tmp_path / "home")
    old = first_run(made)
    new = made.run(
        "first", {"s": Made(made.versions[old, "s"], "source"), "out": Made(ROWS, hops={"s": SAME})}, spec=LONG
    )
    with made.home as home:
        home.gc(retention=True)
        assert any(path.startswith(f"runs/{old}/s/") for path in files(made))
        far = datetime(2400, 1, 1, tzinfo=UTC)
        assert [run.id for run in remove_expired_runs(home._open, at=far).runs] == [new]
    assert files(made) == set()


def test_a_sweep_that_was_cut_off_is_finished_the_next_time(tmp_path, monkeypatch):
    made = MadeHome(tmp_path / "home")
    old = first_run(made)
    with monkeypatch.context() as patched, made.home as home:
        patched.setattr("lineage_service.audit.erasure.run_retention._sweep", killed)
        with pytest.raises(KeyboardInterrupt):
            home.gc(retention=True)
    assert files(made)
    with made.home as home:
        assert home.gc(retention=True)["expired"] == []
    assert files(made) == set()
    assert len(entries(made)) == 1 and old in entries(made)[0]["details"]["runs"]


def test_it_is_logged_in_the_same_transaction(tmp_path, monkeypatch):
    made, old, _ = chain(tmp_path)
    with monkeypatch.context() as patched, made.home as home:
        patched.setattr("lineage_service.audit.log.log_transactions.append_entry", killed)
        with pytest.raises(KeyboardInterrupt):
            home.gc(retention=True)
    with made.home as home:
        assert len(home.runs().to_pylist()) == 2 and len(home.rows(f"out@{old}").to_pylist()) == 3
        home.gc(retention=True)
    (entry,) = entries(made)
    assert entry["verb"] == "retention" and entry["counts"]["runs"] == 1 and entry["details"] == {"runs": [old]}


def test_doctor_finds_nothing_wrong_afterwards(tmp_path):
    from lineage_service.doctor.examination import examine

    def told():
        found = {(check.status, check.detail) for check in examine(made.folder).checks if check.status != "ok"}
        return {each for each in found if "not checksummed" not in each[1]}  # made by hand, and one run less by then

    made, old, _ = chain(tmp_path)
    before = told()
    with made.home as home:
        home.gc(retention=True)
    assert {each for each in told() - before if old not in each[1]} == set()


@pytest.mark.long
def test_a_published_copy_goes_and_what_others_put_there_stays(tmp_path):
    made = MadeHome(tmp_path / "home")
    declared = {"path": "out", "folder": str(tmp_path)}
    old = made.run("first", {"s": Made(ROWS, "source"), "out": Made(ROWS, declared=declared)}, spec=SHORT)
    copy = tmp_path / "out"
    copy.mkdir()
    pq.write_table(ROWS, copy / "part-0.parquet")
    write_mark(copy, old, "first", "out")
    (copy / "letter.txt").write_text("dear")
    with counted(tmp_path) as done, made.home as home:
        assert home.gc(retention=True, dry_run=True)["published"] == [str(copy)]
    assert (copy / "part-0.parquet").exists()
    for kill_at in range(40):
        with counted(tmp_path, kill_at=kill_at) as done, made.home as home:
            result = home.gc(retention=True)
        if len(done) < kill_at:
            break
    assert kill_at < 39 and result["removed"] == 0, "each try goes on where the one before was killed"
    assert [path.name for path in copy.iterdir()] == ["letter.txt"]
    assert files(made) == set()


# --- helpers --------------------------------------------------------------------------------------------------


def killed(*_):
    raise KeyboardInterrupt


def entries(made):
    engine = connect(made.url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT verb, counts, details FROM audit_log ORDER BY number")).all()
    engine.dispose()
    return [{"verb": verb, "counts": json.loads(counts), "details": json.loads(more)} for verb, counts, more in rows]
