"""Several processes and several catalogs in one home, folders that vanish, a key that is lost: nothing is lost over it."""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.engine import connect
from lineage_catalog.records import Commit, DatasetRecord, RunRecord, VersionRecord
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.writer import commit_run

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import LineageError, StoreError
from lineage_service.query.open_home import OpenHome
from lineage_service.store import garbage_collection as sweeping
from lineage_service.store import pending_publications as unpublished
from lineage_service.store.home_key import home_key
from lineage_service.store.layout import HomeLayout, try_lock, working_folder
from lineage_service.store.layout import sweep_lock as sweeping_home
from lineage_service.store.notes import note_text
from lineage_service.store.published_folder import MARK, write_mark
from tests.support.made_runs import Made, MadeHome

ROWS = pa.table({"k": [1, 2, 3]})
NOTHING = {"removed": 0, "bytes": 0}


def commit_of(made: MadeHome, folder, status: str = "committed") -> Commit:
    """A run with one output in its folder, to be committed."""
    (folder.path / "out").mkdir()
    pq.write_table(ROWS, folder.path / "out" / "part-0.parquet")
    shape = made.versions[next(iter(made.versions))]
    file = replace(shape.files[0], path=f"runs/{folder.run_id}/out/part-0.parquet")
    version = replace(shape, id=f"out-{folder.run_id}", kind="output", files=(file,))
    run = RunRecord(folder.run_id, "flow", "w", status, "stage", "{}", "{}", "2026-01-01", "2026-01-02")
    record = VersionRecord(version.id, version.kind, run.id, version.rows, version.bytes, version.to_json())
    dataset = DatasetRecord(run.id, "flow", "out", "output", "step:out", version.id, "{}")
    return Commit(run, "{}", (), (record,), (dataset,), ())


def home_of(folder: Path) -> MadeHome:
    made = MadeHome(folder / "home")
    made.run("flow", {"out": Made(ROWS)})
    return made


def other_catalog(folder: Path) -> str:
    url = f"sqlite:///{folder / 'other.db'}"
    migrate(url)
    return url


# --- two catalogs ---------------------------------------------------------------------------------------------


def test_a_run_killed_just_after_its_commit_is_left_alone_by_another_catalog(tmp_path):
    made = home_of(tmp_path)
    with working_folder(HomeLayout(made.folder)) as folder, made.home as home:
        folder.hand_over()
        home._open.commit(commit_of(made, folder), 0)
    file = folder.path / "out" / "part-0.parquet"
    with Home.open(made.folder, catalog=other_catalog(tmp_path)) as other:
        other.gc()
    assert file.exists()
    with made.home as home:
        assert home.gc() == NOTHING
        assert len(home.rows(f"out@{folder.run_id}").to_pylist()) == 3


def test_a_run_killed_just_before_its_commit_is_removed_by_its_own_catalog(tmp_path, monkeypatch):
    made = home_of(tmp_path)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lineage_catalog.writer.commit_run", killed)
    with suppress(KeyboardInterrupt), working_folder(HomeLayout(made.folder)) as folder, made.home as home:
        folder.hand_over()
        home._open.commit(commit_of(made, folder), 0)
    assert folder.path.exists()
    with made.home as home:
        home.gc()
    assert not folder.path.exists()


def test_a_run_that_failed_its_checks_goes_after_an_erasure_has_swept(tmp_path):
    made = home_of(tmp_path)
    layout = HomeLayout(made.folder)
    with working_folder(layout) as folder, made.home as home:
        folder.hand_over()
        home._open.commit(commit_of(made, folder, "failed"), 0)
    with made.home as home:
        with sweeping_home(layout):
            sweeping.sweep(layout, home._open.reader, spill=False)
        assert (folder.path / "out" / "part-0.parquet").exists()
        home.gc()
    assert not folder.path.exists()
    assert ("leftovers", "ok") in [(each.name, each.status) for each in examine(made.folder).checks]


# --- what vanishes meanwhile ----------------------------------------------------------------------------------


def test_folders_of_runs_that_end_while_somebody_looks(tmp_path, monkeypatch):
    made = home_of(tmp_path)
    left = made.folder / "runs" / "feedfeedfeedfeed"
    (left / "data").mkdir(parents=True)
    (left / "data" / "part-0.parquet").write_bytes(b"rows")
    asked = sweeping.with_companions

    def vanishing(needed, paths):
        found = asked(needed, paths)
        shutil.rmtree(left, ignore_errors=True)
        return found

    monkeypatch.setattr(sweeping, "with_companions", vanishing)
    with made.home as home:
        home.gc(dry_run=True)
    assert try_lock(left) is None


def test_a_run_that_begins_while_somebody_looks(tmp_path):
    """Its folder is moved from where it is made; here it is a name that leads nowhere."""
    made = home_of(tmp_path)
    (made.folder / "tmp").mkdir(exist_ok=True)
    (made.folder / "tmp" / "new-feedfeedfeedfeed").symlink_to(tmp_path / "nowhere")
    with made.home as home:
        assert home.gc(dry_run=True) == NOTHING


# --- published copies -----------------------------------------------------------------------------------------


def waiting_copy(target: Path, run_id: str) -> Path:
    waiting = target.with_name(f".{target.name}.{run_id}.new")
    waiting.mkdir(parents=True)
    pq.write_table(ROWS, waiting / "part-0.parquet")
    write_mark(waiting, run_id, "flow", "out")
    return waiting


def test_a_run_that_commits_and_is_killed_while_others_look_for_copies_is_published(tmp_path, monkeypatch):
    made = home_of(tmp_path)
    target = tmp_path / "published" / "out"
    with working_folder(HomeLayout(made.folder)) as folder:
        folder.hand_over()
        commit = commit_of(made, folder)
    waiting = waiting_copy(target, folder.run_id)
    note = [{"output": "out", "step": "out", "target": str(target), "waiting": str(waiting)}]
    (folder.path / "publications.json").write_text(note_text(note))
    asked = unpublished.try_lock

    def committing(path):
        if path == folder.path:
            engine = connect(made.url)
            commit_run(engine, commit)
            engine.dispose()
        return asked(path)

    monkeypatch.setattr(unpublished, "try_lock", committing)
    with made.home as home:
        home.gc()
    assert pq.read_table(target).num_rows == 3 and not waiting.exists()


def test_a_refresh_looks_for_copies_before_it_reads_one_state_of_the_catalog(tmp_path, monkeypatch):
    made, seen = home_of(tmp_path), []
    monkeypatch.setattr(OpenHome, "finish_publications", lambda home: seen.append(home.reader.in_snapshot))
    with made.home as home, pytest.raises(LineageError):
        home.refresh("out", removed="k = 1")
    assert seen == [False]


@pytest.mark.parametrize(("new", "rows"), [(True, 2), (False, 3)])
def test_a_copy_that_an_earlier_version_was_killed_in_the_middle_of_replacing(tmp_path, new, rows):
    """It left no note: the new copy is put in place if it was marked, as was done after the commit, else the old one."""
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"out": Made(ROWS, declared={"path": "published/out", "folder": str(tmp_path)})})
    target = tmp_path / "published" / "out"
    for name, table, marked in (("old", ROWS, True), ("new", ROWS.slice(1), new)):
        copy = target.with_name(f".out.0123456789abcdef.{name}")
        copy.mkdir(parents=True)
        pq.write_table(table, copy / "part-0.parquet")
        if marked:
            (copy / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
    with made.home as home:
        home.gc()
    assert pq.read_table(target).num_rows == rows
    assert [path.name for path in target.parent.iterdir()] == ["out"]


# --- the key --------------------------------------------------------------------------------------------------


def test_no_new_key_is_made_where_persons_were_noted_with_one_that_is_lost(tmp_path):
    made = home_of(tmp_path)
    layout = HomeLayout(made.folder)
    key = home_key(layout)
    subjects = made.folder / "runs" / "0001flow" / "subjects"
    subjects.mkdir()
    pq.write_table(ROWS, subjects / "persons.parquet")
    text = (made.folder / "audit.key").read_text()
    (made.folder / "audit.key").unlink()
    pq.write_table(ROWS, tmp_path / "t.parquet")
    body = {
        "version": 1,
        "name": "other",
        "sources": {"t": {"path": "t.parquet", "subject": {"person": "k"}}},
        "steps": [{"name": "small", "op": "filter", "input": "t", "where": "k < 100"}],
        "outputs": {"small": {}},
    }
    (tmp_path / "other.json").write_text(json.dumps(body))
    with made.home as home, pytest.raises(StoreError, match="is lost: persons were noted with it"):
        home.run(tmp_path / "other.json")
    assert not (made.folder / "audit.key").exists()
    assert [path.name for path in (made.folder / "runs").iterdir()] == ["0001flow"]
    (made.folder / "audit.key").write_text(text)
    assert home_key(layout) == key


# --- a home of the version before, where nothing can be written -----------------------------------------------


def test_an_old_catalog_where_nothing_can_be_written_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    migrate(f"sqlite:///{folder / 'catalog.db'}", "0006")
    asked = os.access
    monkeypatch.setattr("os.access", lambda path, mode: (path != folder or mode != os.W_OK) and asked(path, mode))
    with Home.open(folder) as home, pytest.raises(StoreError, match="of an earlier version, and cannot be migrated"):
        home.runs()
