"""`smoke-lineage doctor`: says what is fine and what is broken, of any home, and changes nothing."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.models import HEAD
from lineage_cli import options
from lineage_cli.main import main

from lineage_service import Home
from lineage_service.doctor import examination as doctor
from lineage_service.doctor import published_copies as doctor_published
from lineage_service.doctor.examination import examine
from lineage_service.errors import RunError
from lineage_service.spark import java
from lineage_service.store.published_folder import MARK, write_mark
from tests.support.made_home import RUN, made_home
from tests.support.made_runs import Made, MadeHome


@pytest.fixture(autouse=True)
def no_real_java(monkeypatch):
    """Java is looked at in tests/spark/test_java.py; here it is just there."""
    monkeypatch.setattr(java, "find_java", lambda: java.Java(None, "21.0.4", "java on PATH (/usr/bin/java)"))
    monkeypatch.delenv("SMOKE_CATALOG", raising=False)


def looked_at(home: Path, catalog: str | None = None) -> dict[str, tuple[str, str]]:
    """Status and detail per name; the last where there are several."""
    return {check.name: (check.status, check.detail) for check in examine(home, catalog).checks}


def test_a_home_that_is_fine(tmp_path):
    home = made_home(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    diagnosis = examine(home)
    assert diagnosis.ok
    assert [(check.name, check.status) for check in diagnosis.checks] == [
        ("python", "ok"), ("java", "ok"), ("spark", "ok"), ("home", "ok"), ("catalog", "ok"),
        ("files", "ok"), ("sources", "ok"), ("leftovers", "ok"),
    ]  # fmt: skip
    found = looked_at(home)
    assert found["java"][1] == "21.0.4, java on PATH (/usr/bin/java)"
    assert found["catalog"][1] == f"sqlite:///{home}/catalog.db, revision {HEAD}"
    assert found["files"][1] == "1 run: 1 data and 2 index files are as written"
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before, "nothing is changed"
    assert "pyspark" in found["spark"][1].lower()


def test_it_starts_no_spark_and_no_process(tmp_path, monkeypatch):
    home = made_home(tmp_path)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert examine(home).ok


def test_a_home_that_is_not_there_or_empty_is_only_noted(tmp_path):
    found = looked_at(tmp_path / "nowhere")
    assert found["home"] == ("note", f"'{tmp_path}/nowhere' is not there yet; the first run makes it")
    assert found["catalog"][0] == "note"
    assert not (tmp_path / "nowhere").exists()
    found = looked_at(tmp_path)
    assert (found["home"][0], found["catalog"][0]) == ("ok", "note")
    assert list(tmp_path.iterdir()) == []
    assert examine(tmp_path).ok


def test_a_home_that_is_a_file(tmp_path):
    (tmp_path / "home").write_text("")
    found = looked_at(tmp_path / "home")
    assert found["home"] == ("problem", f"'{tmp_path}/home' is a file, not a folder")
    assert "catalog" not in found


def test_a_home_that_may_only_be_read_or_not_even_that(tmp_path, monkeypatch):
    home = made_home(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert looked_at(home)["home"][0] == "warning"
    assert looked_at(home)["files"][0] == "ok"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert looked_at(home)["home"][0] == "problem"


def test_a_home_of_another_user_is_told(tmp_path, monkeypatch):
    home = made_home(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert " of user " in looked_at(home)["home"][1]


def test_a_disk_that_is_nearly_full_is_a_warning(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5_000_000))
    status, detail = looked_at(tmp_path)["home"]
    assert status == "warning"
    assert "5.0 MB free" in detail


def test_a_damaged_catalog(tmp_path):
    home = made_home(tmp_path)
    whole = (home / "catalog.db").read_bytes()
    for damaged in (b"this is no database" * 500, whole[:4096] + b"\xa5" * (len(whole) - 4096), whole[:5000]):
        (home / "catalog.db").write_bytes(damaged)
        diagnosis = examine(home)
        assert not diagnosis.ok
        assert {check.name for check in diagnosis.checks if check.status == "problem"} <= {
            "catalog",
            "files",
            "leftovers",
        }


def test_a_catalog_that_is_locked_is_told_soon(tmp_path, monkeypatch):
    home = made_home(tmp_path)
    waits, connect = [], doctor.connect

    def noted(url, *, wait):
        waits.append(wait)
        return connect(url, wait=0.01)

    monkeypatch.setattr(doctor, "connect", noted)
    holder = sqlite3.connect(home / "catalog.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    status, detail = looked_at(home)["catalog"]
    assert waits and sum(waits) <= 2, "seconds that it would have waited"
    assert status == "problem"
    assert detail.endswith("it is locked: another process is writing to it")
    holder.close()


@pytest.mark.parametrize(
    ("revision", "status", "words"), [("9999", "problem", "of a newer version"), ("0000", "note", "is brought to")]
)
def test_a_catalog_of_another_revision(tmp_path, revision, status, words):
    home = made_home(tmp_path)
    with sqlite3.connect(home / "catalog.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    connection.close()
    found = looked_at(home)
    assert found["catalog"][0] == status
    assert words in found["catalog"][1]
    assert "files" not in found


def test_runs_without_their_catalog(tmp_path):
    home = made_home(tmp_path)
    (home / "catalog.db").unlink()
    status, detail = looked_at(home)["catalog"]
    assert status == "problem"
    assert "there is none, but the home has the files of 1 run" in detail


def test_a_catalog_without_its_runs(tmp_path):
    home = made_home(tmp_path)
    shutil.rmtree(home / "runs")
    assert looked_at(home)["files"] == ("problem", f"run {RUN} (flow): its folder is gone from the home")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("data/out/part-0.parquet", None, "'data/out/part-0.parquet' is missing or cannot be read"),
        ("data/out/part-0.parquet", b"x", "'data/out/part-0.parquet' is not as it was written"),
        ("index/0.backward.parquet", None, "index 'index/0.backward.parquet' is missing"),
        ("index/0.forward.parquet", b"PAR1 no PAR1", "index 'index/0.forward.parquet' is no readable Parquet file"),
    ],
)
def test_files_that_are_missing_or_damaged(tmp_path, file, content, words):
    home = made_home(tmp_path)
    path = home / "runs" / RUN / file
    path.unlink() if content is None else path.write_bytes(content)
    assert looked_at(home)["files"] == ("problem", f"run {RUN} (flow): {words}")


@pytest.mark.parametrize(
    ("rows", "group", "words"),
    [
        ({"a": [0], "b": [0]}, 1, "has 1 pairs instead of 4"),
        ({"a": [1, 1, 0, 0], "b": [0, 1, 2, 3]}, 2, "is not in order"),
        ({"a": [0, 0, 1, 1], "b": [0, 1, 2, 3]}, 1, "and its inverse have .* bytes instead of"),
    ],
)
def test_an_index_that_is_not_what_was_counted(tmp_path, rows, group, words):
    home = made_home(tmp_path)
    pq.write_table(pa.table(rows), home / "runs" / RUN / "index" / "0.backward.parquet", row_group_size=group)
    status, detail = looked_at(home)["files"]
    assert status == "problem"
    assert re.search(words, detail)


def test_a_copied_home_is_fine(tmp_path):
    shutil.copytree(made_home(tmp_path), tmp_path / "copy", copy_function=shutil.copyfile)
    assert looked_at(tmp_path / "copy")["files"][0] == "ok"


def test_sources_that_changed_are_only_noted(tmp_path):
    home = made_home(tmp_path)
    (tmp_path / "a.parquet").unlink()
    assert looked_at(home)["sources"] == ("note", "files changed since they were read: flow.a (1 version)")
    assert examine(home).ok


def test_leftovers_of_killed_runs_are_noted_with_their_size(tmp_path):
    home = made_home(tmp_path)
    killed = home / "runs" / "fedcba9876543210" / "temporary"
    killed.mkdir(parents=True)
    (killed / "rows").write_bytes(b"x" * 1500)
    assert looked_at(home)["leftovers"] == ("note", "1 folder with files that no run needs, 1.5 kB")
    assert examine(home).ok
    assert killed.is_dir()


def test_runs_of_another_catalog_are_told_and_left_alone(tmp_path):
    home = made_home(tmp_path)
    made_home(tmp_path, "fedcba9876543210", catalog=f"sqlite:///{tmp_path}/other.db")
    checks = [check for check in examine(home).checks if check.name == "leftovers"]
    assert checks[0].status == "warning"
    assert checks[0].detail == "1 finished run that this catalog does not know: fedcba9876543210"
    assert "another catalog" in checks[0].hint
    with Home.open(home) as opened:
        assert opened.gc() == {"removed": 0, "bytes": 0}
    with Home.open(home, catalog=f"sqlite:///{tmp_path}/other.db") as opened:
        assert opened.gc() == {"removed": 0, "bytes": 0}
        assert opened.rows("out").count() == 2


def test_what_the_catalog_holds_may_be_damaged_too(tmp_path):
    home = made_home(tmp_path)
    with sqlite3.connect(home / "catalog.db") as connection:
        connection.execute("UPDATE dataset_versions SET body = '{' WHERE kind = 'output'")
    connection.close()
    status, told = looked_at(home)["files"]
    assert status == "problem"
    assert told.startswith("the catalog 'catalog.db' is damaged: dataset version")


def test_whatever_a_part_brings_up_the_others_are_looked_at(tmp_path, monkeypatch):
    def surprise(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(doctor, "_index_faults", surprise)
    found = looked_at(made_home(tmp_path))
    assert found["files"] == ("problem", "cannot be examined: ZeroDivisionError")
    assert found["leftovers"][0] == "ok"


def test_java_that_is_missing_or_was_passed_over(tmp_path, monkeypatch):
    def none():
        raise RunError("Spark needs Java 17 or later, and there is none: JAVA_HOME is not set", hint="pip install it")

    monkeypatch.setattr(java, "find_java", none)
    assert not examine(tmp_path).ok
    assert looked_at(tmp_path)["java"][0] == "problem"
    passed = java.Java(
        None, "17", "java on PATH (/java)", ("JAVA_HOME (/old): it is Java 11, Spark needs 17 or later",)
    )
    monkeypatch.setattr(java, "find_java", lambda: passed)
    checks = [(check.status, check.detail) for check in examine(tmp_path).checks if check.name == "java"]
    assert checks == [
        ("warning", "not used: JAVA_HOME (/old): it is Java 11, Spark needs 17 or later"),
        ("ok", "17, java on PATH (/java)"),
    ]


def test_spark_is_started_where_it_is_asked_for(spark, tmp_path):
    checks = {check.name: check for check in examine(tmp_path, spark=True).checks}
    assert checks["spark"].detail.endswith("started, and counted 1,000 rows")
    assert spark.range(3).count() == 3, "a session that was there before stays open"


def called(arguments: list[str], capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code, *capsys.readouterr()


def test_the_verb(tmp_path, capsys):
    home = made_home(tmp_path)
    code, out, err = called(["doctor", "--home", str(home)], capsys)
    assert (code, err) == (0, "")
    assert f"ok       catalog   sqlite:///{home}/catalog.db, revision {HEAD}\n" in out
    assert out.endswith("\n\nall fine\n")
    assert "\x1b" not in out
    shutil.rmtree(home / "runs")
    code, out, _ = called(["doctor", "--home", str(home)], capsys)
    assert code == 4
    assert f"problem  files     run {RUN} (flow): its folder is gone from the home\n" in out
    assert out.endswith("\n\n1 problem\n")
    code, out, _ = called(["doctor", "--json", "--home", str(home)], capsys)
    assert code == 4
    answer = json.loads(out)
    assert answer["ok"] is False
    assert {"name", "status", "detail", "hint"} == set(answer["checks"][0])


def test_on_a_narrow_terminal_lines_are_folded_under_themselves(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(options, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    _, out, _ = called(["doctor", "--home", str(made_home(tmp_path))], capsys)
    assert "\x1b" not in out
    assert all(len(line) <= 60 or len(line.split()[-1]) > 30 for line in out.splitlines())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[32mok" in called(["doctor", "--home", str(tmp_path / "home")], capsys)[1]


def test_a_password_is_not_shown(tmp_path, capsys):
    url = "postgresql://me:sesame@127.0.0.1:1/db"
    code, out, err = called(["doctor", "--home", str(tmp_path), "--catalog", url], capsys)
    assert code == 4
    assert "postgresql://me:***@127.0.0.1:1/db: cannot open the catalog" in out
    assert "sesame" not in out + err


def test_an_erasure_that_was_not_finished_is_a_problem(tmp_path):
    home = made_home(tmp_path)
    with sqlite3.connect(home / "catalog.db") as connection:
        values = ("e1", "erasure", "switched", "2026-01-01", "{}")
        connection.execute("INSERT INTO erasures (id, kind, state, at, body) VALUES (?, ?, ?, ?, ?)", values)
    connection.close()
    status, told = looked_at(home)["erasures"]
    assert status == "problem" and "1 erasure begun and not finished: e1" in told


def test_a_run_of_a_version_before_has_no_checksums(tmp_path):
    home = made_home(tmp_path, checksums=False)
    checks = [check for check in examine(home).checks if check.name == "files"]
    assert [check.status for check in checks] == ["ok", "note"]
    assert "1 run not checksummed, made by an earlier version" in checks[1].detail
    with Home.open(home) as opened:
        assert opened.rows("out").count() == 2
        assert opened.backward("out", to="a", all=True, pairs=True).count() == 4


# --- published copies -------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """A home with a run that has published its output, and the folder it lies in."""
    made, rows = MadeHome(tmp_path / "home"), pa.table({"k": list(range(5_000))})
    declared = {"path": "out", "folder": str(tmp_path)}
    run_id = made.run("flow", {"s": Made(rows, "source"), "report": Made(rows, declared=declared)})
    copy = tmp_path / "out"
    copy.mkdir()
    pq.write_table(rows, copy / "part-0.parquet")
    (copy / "_SUCCESS").touch()
    write_mark(copy, run_id, "flow", "report")
    return copy


def told_of_copies(copy: Path, *, deep: bool = False) -> list[tuple[str, str, str | None]]:
    found = examine(copy.parent / "home", deep=deep)
    assert found.ok, "a copy that others have changed is no damage of the home"
    start = f"the copy of 'flow.report' at '{copy}' "
    return [(each.status, each.detail.removeprefix(start), each.hint)
            for each in found.checks if each.name == "published"]  # fmt: skip


def flip(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def test_a_published_copy_that_is_as_it_was(copy):
    (copy / "_SUCCESS").unlink()  # no rows
    assert told_of_copies(copy) == told_of_copies(copy, deep=True) == []


def test_a_published_copy_that_was_moved_or_removed(copy):
    copy.rename(copy.with_name("elsewhere"))
    hint = "run workflow 'flow' again to publish it once more; an erasure cannot reach a copy that was moved"
    assert told_of_copies(copy) == [("warning", "was moved or removed since it was published", hint)]


@pytest.mark.parametrize("deep", [False, True])
def test_a_published_copy_that_was_changed(copy, deep):
    flip(copy / "part-0.parquet")
    (found,) = told_of_copies(copy, deep=deep)
    assert found[:2] == ("warning", "was changed since it was published: 'part-0.parquet' was changed")
    assert found[2] is not None and "move the folder elsewhere, and run workflow 'flow' again" in found[2]
    (copy / "part-0.parquet").rename(copy / "part-1.parquet")
    ((_, told, _),) = told_of_copies(copy, deep=deep)
    assert told.endswith("'part-0.parquet' is missing, 'part-1.parquet' was added")


def test_large_published_files_are_compared_by_their_size_unless_asked_for(copy, monkeypatch):
    monkeypatch.setattr(doctor_published, "MOST_COMPARED", 1_000)
    flip(copy / "part-0.parquet")
    ((status, told, hint),) = told_of_copies(copy)
    assert (status, told) == ("note", "of 1 large published file only the size was compared")
    assert hint is not None and "doctor --deep" in hint
    ((status, told, _),) = told_of_copies(copy, deep=True)
    assert status == "warning" and "was changed" in told


def test_a_published_copy_that_was_replaced(copy):
    write_mark(copy, "feedfeedfeedfeed", "other", "rows")
    ((_, told, _),) = told_of_copies(copy)
    assert told == "was replaced by one of 'other.rows'"
    (copy / MARK).unlink()
    ((_, told, _),) = told_of_copies(copy)
    assert told == "was replaced by something that smoke-lineage did not publish"
    shutil.rmtree(copy)
    copy.write_text("")
    assert told_of_copies(copy)[0][1] == told


def test_a_published_copy_of_an_earlier_version(copy):
    body = json.loads((copy / MARK).read_text())
    del body["sums"]
    (copy / MARK).write_text(json.dumps(body))
    flip(copy / "part-0.parquet")
    assert told_of_copies(copy, deep=True) == []
    with (copy / "part-0.parquet").open("ab") as stream:
        stream.write(b"x")
    assert "was changed" in told_of_copies(copy)[0][1]
    (copy / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
    assert told_of_copies(copy) == []
