"""The catalog: migrations, one transaction per run, readers that see only what is committed."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from lineage_catalog import models
from lineage_catalog.engine import CatalogError, connect, migrate, require_head, revision
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, StepRecord, VersionRecord
from lineage_catalog.writer import commit_run
from sqlalchemy import text

from lineage_service import Home
from lineage_service.errors import NotFound, StoreError


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'catalog.db'}"
    migrate(url)
    return url


def commit(run_id: str, workflow: str = "flow", version: str = "v1") -> Commit:
    return Commit(
        RunRecord(run_id, workflow, "w" * 64, "committed", "stage", "{}", "{}", "2026-01-01", "2026-01-02"),
        "{}",
        (StepRecord("out", "aggregate", "stage", "asked for"),),
        (VersionRecord(version, "source", run_id, 3, 30, "{}"),),
        (DatasetRecord(run_id, workflow, "a", "source", "source:a", version, "{}"),),
        (HopRecord(run_id, "step:out", "source:a", 0, "pairs", 3, 10, "b", "f"),),
    )


def reader(url: str) -> CatalogReader:
    return CatalogReader(connect(url))


def test_migrations_give_just_the_tables_of_the_models(url):
    engine = connect(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.metadata) == []
    assert revision(engine) == models.HEAD
    engine.dispose()


def test_migrating_twice_changes_nothing(url):
    migrate(url)
    assert require_head(connect(url))


def test_a_catalog_of_a_newer_version_is_refused(url, tmp_path):
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(CatalogError, match="newer version"):
        require_head(connect(url))
    with pytest.raises(StoreError, match="newer version"):
        Home.open(tmp_path).runs()


def test_what_was_committed_is_read_back(url):
    engine = connect(url)
    commit_run(engine, commit("r1"))
    found = reader(url)
    assert [run.id for run in found.runs()] == ["r1"]
    assert found.datasets("r1") == list(commit("r1").datasets)
    assert found.hops("r1") == list(commit("r1").hops)
    assert found.steps("r1") == list(commit("r1").steps)
    assert found.version("v1") == commit("r1").versions[0]
    assert found.readers_of(["v1"])[0].full_name == "flow.a"
    assert found.makers_of(["v1"]) == []
    found.close()


def test_the_latest_run_is_the_last_committed(url):
    engine = connect(url)
    for run_id in ("r3", "r1", "r2"):
        commit_run(engine, commit(run_id))
    commit_run(engine, commit("other", workflow="flow2"))
    found = reader(url)
    assert [run.id for run in found.runs("flow")] == ["r2", "r1", "r3"]
    assert found.latest_run("flow").id == "r2"
    assert [run.id for run in found.latest_runs_of_owners("a")] == ["r2", "other"]
    assert found.version("v1").run_id == "r3", "a version stays as it was first seen"
    found.close()


def test_a_run_is_visible_as_a_whole_or_not_at_all(url):
    engine = connect(url)
    broken = commit("r1")
    broken = replace(broken, hops=(replace(broken.hops[0], rows=None),))  # the last table to be written refuses
    with pytest.raises(CatalogError):
        commit_run(engine, broken)
    found = reader(url)
    assert found.runs() == []
    assert found.version("v1") is None
    found.close()


def test_many_runs_commit_at_once(url):
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
    assert len(reader(url).runs()) == 12


def test_a_missing_or_broken_catalog_is_told_with_its_home(tmp_path):
    with pytest.raises(NotFound, match=str(tmp_path / "nowhere")):
        Home.open(tmp_path / "nowhere").runs()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "catalog.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="cannot open the catalog"):
        Home.open(tmp_path / "bad").runs()
    with pytest.raises(StoreError, match="catalog URL"):
        Home.open(tmp_path, catalog="nosuch://x").runs()
