"""Homes that are empty, no folder, locked or half deleted: each question gets one clear message and exit code 1."""

import shutil
import sqlite3

import pytest
from lineage_cli.main import main

from tests.support.made_home import RUN, made_home

QUESTIONS = {
    "rows": ["rows", "out"],
    "runs": ["runs"],
    "backward": ["backward", "out", "--all", "--to", "a", "--rids"],
}


@pytest.fixture(autouse=True)
def no_other_catalog(monkeypatch):
    monkeypatch.delenv("SMOKE_CATALOG", raising=False)


@pytest.fixture
def ask(capsys):
    def ask(question, home):
        with pytest.raises(SystemExit) as left:
            main([*QUESTIONS.get(question, [question]), "--home", str(home)])
        out, err = capsys.readouterr()
        return left.value.code, out, err

    return ask


def refused(answer, message, hint):
    assert answer == (1, "", f"error: {message}\n  hint: {hint}\n")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_good_home_answers(ask, question, tmp_path):
    code, out, err = ask(question, made_home(tmp_path))
    assert (code, err) == (0, "")
    assert {"rows": "_rid", "runs": RUN, "backward": "3"}[question] in out


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_empty_home(ask, question, tmp_path):
    message = f"there is no catalog in the home '{tmp_path}'"
    refused(ask(question, tmp_path), message, "run a workflow first, or give --home")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_home_that_is_a_file(ask, question, tmp_path):
    (tmp_path / "home").write_text("")
    message = f"the home '{tmp_path}/home' is a file, not a folder"
    refused(ask(question, tmp_path / "home"), message, "choose another with --home")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_locked_catalog(ask, question, tmp_path, monkeypatch):
    home = made_home(tmp_path)
    monkeypatch.setattr("lineage_catalog.engine.connect.__kwdefaults__", {"wait": 0.1})
    holder = sqlite3.connect(home / "catalog.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")  # as of a process that lets nobody read beside it
    holder.execute("BEGIN EXCLUSIVE")
    message = f"cannot open the catalog 'catalog.db': it is locked: another process is writing to it (home '{home}')"
    refused(ask(question, home), message, f"look closer: smoke-lineage doctor --home {home}")
    holder.close()


@pytest.mark.parametrize("question", [*QUESTIONS, "gc"])
def test_runs_without_their_catalog(ask, question, tmp_path):
    home = made_home(tmp_path)
    (home / "catalog.db").unlink()
    refused(
        ask(question, home),
        f"the home '{home}' has runs, but no catalog (sqlite:///{home}/catalog.db)",
        f"is it elsewhere (--catalog, SMOKE_CATALOG)? look closer: smoke-lineage doctor --home {home}",
    )
    assert (home / "runs" / RUN / "data").is_dir(), "gc takes nothing that a lost catalog may need"


@pytest.mark.parametrize(
    ("question", "file"), [("rows", "data/out/part-0.parquet"), ("backward", "index/0.backward.parquet")]
)
@pytest.mark.parametrize("damage", ["folder gone", "file gone", "no Parquet"])
def test_files_of_a_run_that_are_gone_or_damaged(ask, question, file, damage, tmp_path):
    home = made_home(tmp_path)
    path = home / "runs" / RUN / file
    if damage == "folder gone":
        shutil.rmtree(home / "runs")
    elif damage == "file gone":
        path.unlink()
    else:
        path.write_bytes(b"no Parquet at all")
    refused(
        ask(question, home),
        f"a file of the home '{home}' is missing or damaged: 'runs/{RUN}/{file}'",
        f"look closer: smoke-lineage doctor --home {home}",
    )
    assert ask("runs", home)[0] == 0, "what the catalog alone knows is still told"


def test_a_file_that_is_damaged_inside(ask, tmp_path):
    home = made_home(tmp_path)
    path = home / "runs" / RUN / "data" / "out" / "part-0.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    code, _, err = ask("rows", home)
    assert code == 1
    assert err.startswith(
        f"error: a file of the home '{home}' is missing or damaged: 'runs/{RUN}/data/out/part-0.parquet'\n"
        "  hint: look closer: smoke-lineage doctor"
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_catalog_without_a_table(ask, question, tmp_path):
    home = made_home(tmp_path)
    with sqlite3.connect(home / "catalog.db") as connection:
        connection.execute("DROP TABLE runs")
    connection.close()
    message = f"cannot read the catalog 'catalog.db': no such table: runs (home '{home}')"
    refused(ask(question, home), message, f"look closer: smoke-lineage doctor --home {home}")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_catalog_that_is_no_database(ask, question, tmp_path):
    home = made_home(tmp_path)
    (home / "catalog.db").write_bytes(b"this is no database" * 100)
    message = f"cannot open the catalog 'catalog.db': file is not a database (home '{home}')"
    refused(ask(question, home), message, f"look closer: smoke-lineage doctor --home {home}")
