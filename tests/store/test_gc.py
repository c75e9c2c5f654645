"""`gc` removes what no run needs, file by file, and never what one needs, whatever folder it lies in."""

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog import models
from lineage_catalog.engine import connect
from lineage_catalog.records import Commit, DatasetRecord, RunRecord, VersionRecord
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.writer import clear_runs
from sqlalchemy import insert, update

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import RunError, StoreError
from lineage_service.store import garbage_collection as sweeping
from lineage_service.store.layout import HomeLayout, commit_lock, working_folder
from lineage_service.store.versions import Version
from tests.support.made_home import made_home
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

ROWS = pa.table({"k": [1, 2, 3]})
SAME = [(0, 0), (1, 1), (2, 2)]
NOTHING = {"removed": 0, "bytes": 0}


def shared(folder: Path) -> tuple[MadeHome, str, str]:
    """Two runs; the second reads on in the source of the first, as a refresh leaves it."""
    made = MadeHome(folder / "home")
    first = made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops={"s": SAME})})
    source = made.versions[first, "s"]
    renamed = Version("s-again", source.kind, source.files, source.columns)
    second = made.run("flow", {"s": Made(renamed, "source"), "out": Made(ROWS, hops={"s": SAME})})
    return made, first, second


def superseded(made: MadeHome, run_id: str) -> None:
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(update(models.runs).where(models.runs.c.id == run_id).values(status="superseded"))
        clear_runs(connection, [run_id])
        seal_anew(connection)
    engine.dispose()


def files(folder: Path, run_id: str) -> set[str]:
    own = folder / "runs" / run_id
    return {str(path.relative_to(own)) for path in own.rglob("*") if path.is_file()}


def told(folder: Path) -> list[tuple[str, str, str]]:
    found = examine(folder, deep=True).checks
    return [(each.name, each.status, each.detail) for each in found if each.name in ("deep", "leftovers")]


def test_files_in_the_folder_of_a_superseded_run_stay_where_a_run_shares_them(tmp_path):
    made, first, _ = shared(tmp_path)
    superseded(made, first)
    with made.home as home:
        assert home.gc(dry_run=True)["removed"] == 1
        assert home.gc()["removed"] == 1
        assert files(made.folder, first) == {"s/part-0.parquet", ".committed"}
        assert home.gc() == NOTHING
        assert [row["k"] for row in home.backward("out", to="s", rid=1).to_pylist()] == [2]
    assert [status for _, status, _ in told(made.folder)] == ["ok", "ok"]


def test_a_file_that_nobody_needs_goes_from_a_committed_run_too(tmp_path):
    made, first, _ = shared(tmp_path)
    folder = made.folder / "runs" / first
    for name in ("index/left.parquet", "temporary/spill", "data/half/part-0.parquet", "out/_SUCCESS", "out/.x.crc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"left")
    (folder / "out" / ".part-0.parquet.crc").write_bytes(b"crc")
    needed = files(made.folder, first)
    with made.home as home:
        assert home.gc() == {"removed": 1, "bytes": 16}
        assert len(home.rows("out").to_pylist()) == 3
    gone = {"index/left.parquet", "temporary/spill", "data/half/part-0.parquet", "out/.x.crc"}
    assert needed - files(made.folder, first) == gone


def test_what_is_known_of_persons_stays_though_a_failed_run_noted_it(tmp_path):
    """Who a version's rows are about is noted by the first run that reads it; that one may have failed a check."""
    made, first, _ = shared(tmp_path)
    noted = made.folder / "runs" / "feedfeedfeedfeed" / "subjects"
    noted.mkdir(parents=True)
    for name in ("persons", "rows", "other"):
        pq.write_table(ROWS, noted / f"{name}.parquet")
    layer = {name: f"runs/feedfeedfeedfeed/subjects/{name}.parquet" for name in ("persons", "rows")}
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(
            insert(models.subject_rows).values(
                version_id=f"s-{first}", kind="person", column="k", run_id="feedfeedfeedfeed", key_id="k", persons=1,
                rows=1, body=json.dumps({"layers": [layer]}),
            )
        )  # fmt: skip
        seal_anew(connection)
    engine.dispose()
    with made.home as home:
        home.gc()
        assert files(made.folder, "feedfeedfeedfeed") == {
            "subjects/persons.parquet",
            "subjects/rows.parquet",
            ".committed",
        }
        assert home.gc() == NOTHING
        assert ("leftovers", "ok", "none") in told(made.folder)
        superseded(made, first)
        home.gc()
    assert not (made.folder / "runs" / "feedfeedfeedfeed").exists()


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("damage", ["UPDATE dataset_versions SET body = '{'", "UPDATE hops SET body = '['", "note"])
def test_nothing_is_removed_where_nobody_can_say_what_is_needed(tmp_path, damage, sealed):
    made, first, second = shared(tmp_path)
    superseded(made, first)
    if damage == "note":
        (made.folder / "runs" / second / "index" / "aligned.json").write_text("{")
    else:
        engine = connect(made.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(damage)
            if sealed:  # as a home of an earlier version was, when it was brought up to date
                seal_anew(connection)
        engine.dispose()
    before = files(made.folder, first), files(made.folder, second)
    with made.home as home, pytest.raises(StoreError, match="damaged"):
        home.gc()
    assert (files(made.folder, first), files(made.folder, second)) == before
    assert not any("gc" in (each.hint or "") for each in examine(made.folder).checks)


def test_a_run_that_commits_while_files_are_looked_at_keeps_them(tmp_path, monkeypatch):
    """Its lock is gone by the time its folder's turn comes, and the catalog was read before it committed."""
    made, _, _ = shared(tmp_path)
    layout = HomeLayout(made.folder)
    asked, folders = sweeping.held_runs, []
    with working_folder(layout) as folder:
        folder.dataset("out").mkdir(parents=True)
        pq.write_table(ROWS, folder.dataset("out") / "part-0.parquet")
        folder.hand_over()
        folders.append(folder.path)

        def ending(reader):
            found = asked(reader)
            (folder.path / ".lock").rename(folder.path / ".ended")  # nobody holds the lock of a folder without one
            return found

        monkeypatch.setattr(sweeping, "held_runs", ending)
        with made.home as home:
            assert home.gc() == NOTHING
    assert (folders[0] / "data" / "out" / "part-0.parquet").exists()


def test_nobody_commits_while_files_are_removed(tmp_path, monkeypatch):
    made, _, _ = shared(tmp_path)
    layout = HomeLayout(made.folder)
    seen = []

    def looked(home, reader, **given):
        lock = os.open(home.path / ".sweep.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(lock)
        seen.append(given)
        return sweeping.SweepResult(0, 0, 0, ())

    monkeypatch.setattr(sweeping, "sweep", looked)
    with made.home as home:
        home.gc()
    assert seen
    with commit_lock(layout), commit_lock(layout):  # commits do not keep each other waiting
        pass


def test_a_run_that_shares_files_which_are_gone_is_not_committed(tmp_path):
    made, first, _ = shared(tmp_path)
    source = made.versions[first, "s"]
    new = Version("s-new", source.kind, (replace(source.files[0], path="runs/0000/s/gone.parquet"),), source.columns)
    with working_folder(HomeLayout(made.folder)) as folder, made.home as home:
        folder.hand_over()
        run = RunRecord(folder.run_id, "flow", "w", "committed", "stage", "{}", "{}", "2026-01-01", "2026-01-02")
        record = VersionRecord(new.id, new.kind, folder.run_id, new.rows, new.bytes, new.to_json())
        dataset = DatasetRecord(folder.run_id, "flow", "s", "source", "source:s", new.id, "{}")
        commit = Commit(run, "{}", (), (record,), (dataset,), ())
        with pytest.raises(RunError, match=r"were removed: 'runs/0000/s/gone.parquet'"):
            home._open.commit(commit, 0)
        unknown = replace(commit, versions=(), datasets=(replace(dataset, version_id="unknown"),))
        with pytest.raises(RunError, match=r"were removed: 'flow.s'"):
            home._open.commit(unknown, 0)
        assert len(home.runs().to_pylist()) == 2
    assert not folder.path.exists()


def test_what_runs_of_another_catalog_share_is_left_alone(tmp_path):
    """The run whose folder it is in was superseded there: only the mark tells this catalog that it is needed."""
    home = made_home(tmp_path)
    other = MadeHome(tmp_path / "elsewhere")
    other.folder, other.url = home, f"sqlite:///{tmp_path}/other.db"
    migrate(other.url)
    first = other.run("flow", {"s": Made(ROWS, "source")})
    source = other.versions[first, "s"]
    other.run("flow", {"s": Made(Version("again", source.kind, source.files, source.columns), "source")})
    superseded(other, first)
    with Home.open(home, catalog=other.url) as opened:
        opened.gc()
    with Home.open(home) as opened:
        assert opened.gc() == NOTHING
    assert (home / "runs" / first / "s" / "part-0.parquet").exists()


def test_a_home_that_goes_by_two_names(tmp_path):
    made, first, second = shared(tmp_path)
    (tmp_path / "link").symlink_to(made.folder)
    source = made.versions[first, "s"]
    path = str(tmp_path / "link" / source.files[0].path)
    engine = connect(made.url)
    with engine.begin() as connection:
        body = Version("s-again", source.kind, (replace(source.files[0], path=path),), source.columns).to_json()
        versions = models.dataset_versions
        connection.execute(update(versions).where(versions.c.id == "s-again").values(body=body))
        seal_anew(connection)
    engine.dispose()
    superseded(made, first)
    with made.home as home:
        home.gc()
        assert len(home.rows("s").to_pylist()) == 3
    assert second


@pytest.mark.long
def test_deep_reads_every_file_that_is_needed(tmp_path):
    made, first, second = shared(tmp_path)
    path = made.folder / "runs" / first / "s" / "part-0.parquet"
    whole = path.read_bytes()
    assert told(made.folder)[0][:2] == ("deep", "ok")
    (made.folder / "runs" / first / "left.parquet").write_bytes(b"nobody needs it")
    assert told(made.folder)[0][:2] == ("deep", "ok")
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])
    assert ("deep", "problem", f"run {second} (flow): 'runs/{first}/s/part-0.parquet': damaged") in told(made.folder)
    path.unlink()
    assert ("deep", "problem", f"run {second} (flow): 'runs/{first}/s/part-0.parquet': missing") in told(made.folder)
