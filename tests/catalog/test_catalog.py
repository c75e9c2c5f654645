"""The catalog on both engines: one transaction per run, readers that see only what is committed."""

import threading
from dataclasses import replace

import pytest
from lineage_catalog.engine import CatalogError, connect
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, StepRecord, VersionRecord
from lineage_catalog.writer import commit_run
from sqlalchemy import text

from lineage_service import Home
from lineage_service.errors import NotFound, StoreError


def commit(run_id: str, workflow: str = "flow", version: str = "v1") -> Commit:
    return Commit(
        RunRecord(run_id, workflow, "w" * 64, "committed", "stage", "{}", "{}", "2026-01-01", "2026-01-02"),
        "{}",
        (StepRecord("out", "aggregate", "stage", "asked for"),),
        (VersionRecord(version, "source", run_id, 3, 30, "{}"),),
        (DatasetRecord(run_id, workflow, "a", "source", "source:a", version, "{}"),),
        (HopRecord(run_id, "step:out", "source:a", 0, "pairs", 3, 10, "b", "f"),),
    )


@pytest.fixture
def engine(url):
    engine = connect(url)
    yield engine
    engine.dispose()


@pytest.fixture
def found(url):
    """A reader with a connection of its own."""
    reader = CatalogReader(connect(url))
    yield reader
    reader.close()


def test_what_was_committed_is_read_back(engine, found):
    commit_run(engine, commit("r1"))
    assert [run.id for run in found.runs()] == ["r1"]
    assert found.datasets("r1") == list(commit("r1").datasets)
    assert found.hops("r1") == list(commit("r1").hops)
    assert found.steps("r1") == list(commit("r1").steps)
    assert found.version("v1") == commit("r1").versions[0]
    assert found.readers_of(["v1"])[0].full_name == "flow.a"
    assert found.makers_of(["v1"]) == []


def test_the_latest_run_is_the_last_committed(engine, found):
    for run_id in ("r3", "r1", "r2"):
        commit_run(engine, commit(run_id))
    commit_run(engine, commit("other", workflow="flow2"))
    assert [run.id for run in found.runs("flow")] == ["r2", "r1", "r3"]
    assert found.latest_run("flow").id == "r2"
    assert [run.id for run in found.latest_runs_of_owners("a")] == ["r2", "other"]
    assert found.version("v1").run_id == "r3", "a version stays as it was first seen"


def test_a_run_is_visible_as_a_whole_or_not_at_all(engine, found):
    broken = commit("r1")
    broken = replace(broken, hops=(replace(broken.hops[0], rows=None),))  # the last table to be written refuses
    with pytest.raises(CatalogError):
        commit_run(engine, broken)
    assert found.runs() == []
    assert found.version("v1") is None


def test_many_runs_commit_at_once(url, engine, found):
    failures = []

    def work(number: int) -> None:
        engine = connect(url)
        try:
            commit_run(engine, commit(f"run{number}"))
        except CatalogError as error:
            failures.append(error)
        engine.dispose()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {run.id for run in found.runs()} == {f"run{number}" for number in range(12)}
    with engine.connect() as connection:
        ordinals = connection.execute(text("SELECT ordinal FROM runs ORDER BY ordinal")).scalars().all()
    assert ordinals == list(range(1, 13)), "no commit takes another's place"


def test_a_reader_sees_nothing_of_a_commit_under_way(engine, found):
    commit_run(engine, commit("r1"))
    with engine.execution_options(writing=True).connect() as connection:
        connection.execute(text("UPDATE runs SET content = 'other'"))
        assert found.content("r1") == "{}"
        connection.commit()
    assert found.content("r1") == "other"


def test_what_cannot_be_read_is_a_catalog_error_and_the_next_question_is_asked_anew(engine, found):
    commit_run(engine, commit("r1"))
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE hops RENAME TO hidden"))
    with pytest.raises(CatalogError, match=r"cannot read the catalog.*: .*hops") as failed:
        found.hops("r1")
    assert "SELECT" not in str(failed.value)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE hidden RENAME TO hops"))
    assert len(found.hops("r1")) == 1


def test_a_writer_that_waits_too_long_is_told_why(url, engine, monkeypatch):
    monkeypatch.setattr("lineage_catalog.engine.WRITING_WAIT", 0.2)
    with engine.execution_options(writing=True).connect() as connection:
        connection.execute(text("SELECT 1"))
        other = connect(url)
        with pytest.raises(CatalogError, match="could not be committed: it is locked: another process is writing"):
            commit_run(other, commit("r1"))
        other.dispose()


def test_a_reader_that_waits_too_long_is_told_why(url, engine):
    exclusively = "BEGIN EXCLUSIVE" if url.startswith("sqlite") else "LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"
    reader = CatalogReader(connect(url, wait=0.2))
    with engine.connect() as connection:
        connection.exec_driver_sql("ROLLBACK" if url.startswith("sqlite") else "SELECT 1")
        if url.startswith("sqlite"):
            connection.exec_driver_sql("PRAGMA locking_mode = EXCLUSIVE")
        connection.exec_driver_sql(exclusively)
        with pytest.raises(CatalogError, match=r"cannot read the catalog.*: it is locked: another process is writing"):
            reader.runs()
        if url.startswith("sqlite"):
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("PRAGMA locking_mode = NORMAL")
            connection.exec_driver_sql("BEGIN")
    engine.dispose()
    assert reader.runs() == []
    reader.close()


def test_one_catalog_of_two_homes(url, engine, found, tmp_path):
    """Runs of both are listed; a run of one is not read through the other."""
    commit_run(engine, commit("r1"))
    for name in ("one", "two"):
        with Home.open(tmp_path / name, catalog=url) as home:
            assert [row["run_id"] for row in home.runs().to_pylist()] == ["r1"]
            assert home.gc() == {"removed": 0, "bytes": 0}


def test_a_missing_or_broken_catalog_is_told_with_its_home(tmp_path):
    with pytest.raises(NotFound, match=str(tmp_path / "nowhere")):
        Home.open(tmp_path / "nowhere").runs()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "catalog.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="cannot open the catalog"):
        Home.open(tmp_path / "bad").runs()
    with pytest.raises(StoreError, match="catalog URL"):
        Home.open(tmp_path, catalog="nosuch://x").runs()


def test_runs_of_one_version_keep_the_workflow_as_each_read_it(engine, found):
    for run_id, content in (("r1", '{"since": 1995}'), ("r2", '{"since": 1996}')):
        commit_run(engine, replace(commit(run_id), content=content))
    assert [found.content(run.id) for run in found.runs()] == ['{"since": 1996}', '{"since": 1995}']
