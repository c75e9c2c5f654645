"""Catalogs of every earlier revision are brought up to date with all they hold; those of a later one are refused.

A new revision needs a file of its name in `revisions/`: a small run in plain SQL, as that revision keeps it.
"""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from lineage_catalog import models
from lineage_catalog.engine import CatalogError, connect, require_head, revision
from lineage_catalog.reader import CatalogReader
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.seals import all_broken_scopes, row_fetcher
from sqlalchemy import func, select, text

from lineage_service import Home
from lineage_service.errors import NotFound, StoreError

CONTENTS = Path(__file__).parent / "revisions"


def revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", "lineage_catalog:migrations")
    return sorted(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())


def test_there_is_a_catalog_of_every_revision_to_try():
    assert sorted(file.stem for file in CONTENTS.glob("*.sql")) == revisions()
    assert revisions()[-1] == models.HEAD


@pytest.mark.parametrize("old", revisions())
def test_what_an_older_catalog_holds_is_read_after_migration(empty_url, old):
    migrate(empty_url, old)
    engine = connect(empty_url)
    with engine.begin() as connection:
        for statement in (CONTENTS / f"{old}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.execute(text(statement.replace(":", r"\:")))
    assert revision(engine) == old
    migrate(empty_url)
    assert require_head(engine)
    reader = CatalogReader(engine)
    (run,) = reader.runs()
    assert (run.id, run.workflow, run.status, run.capture) == ("r1", "flow", "committed", "stage")
    assert (run.variables, run.report) == ('{"since": "1995"}', '{"run_id": "r1"}')
    assert reader.content("r1") == '{"name": "flow"}'
    assert [
        (each.full_name, each.role, each.space, each.version_id, each.declared) for each in reader.datasets("r1")
    ] == [
        ("flow.orders", "source", "source:orders", "v1", '{"path": "orders.csv"}'),
        ("flow.totals", "output", "step:totals", "v2", "{}"),
    ]
    assert [(each.node, each.operator, each.strategy, each.reason) for each in reader.steps("r1")] == [
        ("totals", "aggregate", "stage", "asked for")
    ]
    (hop,) = reader.hops("r1")
    assert (hop.from_space, hop.to_space, hop.role, hop.form, hop.rows, hop.bytes, hop.backward, hop.forward) == (
        "step:totals", "source:orders", 0, "pairs", 3, 10,
        "runs/r1/index/0.backward.parquet", "runs/r1/index/0.forward.parquet",
    )  # fmt: skip
    assert [(each.name, each.kind, each.rows) for each in reader.prepared_questions("r1")] == (
        [("monthly", "groups", 7)] if old >= "0004" else []
    )
    assert [(each.dataset, each.name, each.pii, each.reads) for each in reader.columns("r1")] == (
        [("totals", "revenue", True, '[["orders", "amount"]]')] if old >= "0005" else []
    )
    assert (reader.version("v1").rows, reader.version("v2").rows) == (3, 5_000_000_000)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(models.seals)).scalar_one() == 8
        assert all_broken_scopes(row_fetcher(connection)) == []
    reader.close()


def test_an_older_catalog_is_migrated_when_it_is_asked(empty_url, tmp_path):
    migrate(empty_url, revisions()[0])
    with Home.open(tmp_path, catalog=empty_url) as home:
        assert home.runs().to_pylist() == []
    engine = connect(empty_url)
    assert revision(engine) == models.HEAD
    engine.dispose()


@pytest.mark.parametrize("begun_at", [None, revisions()[0]], ids=["created", "migrated"])
def test_migrations_give_just_the_tables_of_the_models(empty_url, begun_at):
    """An empty database gets its tables at once, an older one by every migration: both are the models' tables."""
    if begun_at is not None:
        migrate(empty_url, begun_at)
        assert begun_at != models.HEAD
    migrate(empty_url)
    engine = connect(empty_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.metadata) == []
    assert revision(engine) == models.HEAD
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(models.seals)).scalar_one() > 0
    engine.dispose()


def test_tables_that_are_not_ours_are_left_alone(empty_url):
    """A database of a server may hold other tables; the catalog is created beside them."""
    engine = connect(empty_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE elsewhere (a INTEGER)"))
    migrate(empty_url)
    assert require_head(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM elsewhere")).scalar_one() == 0
    engine.dispose()


def test_migrating_twice_changes_nothing(url):
    migrate(url)
    engine = connect(url)
    assert require_head(engine)
    engine.dispose()


def test_many_that_come_first_create_one_catalog(empty_url):
    """From different homes: no lock of a home is between them."""
    code = "import sys; from lineage_catalog.schema_upgrade import migrate; migrate(sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", code, empty_url]) for _ in range(3)]
    threads = [threading.Thread(target=migrate, args=[empty_url]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0, 0]
    engine = connect(empty_url)
    assert require_head(engine)
    engine.dispose()


def test_a_catalog_of_a_newer_version_is_refused(url, tmp_path):
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CatalogError, match=f"newer version .revision 9999, this one knows {models.HEAD}"):
        require_head(engine)
    engine.dispose()
    with pytest.raises(StoreError, match=f"newer version.*{tmp_path}") as refused:
        Home.open(tmp_path, catalog=url).runs()
    assert "upgrade" in refused.value.problems[0].hint


def test_a_revision_that_nobody_knows_is_told(url):
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    engine.dispose()
    with pytest.raises(CatalogError, match="its revision is not known"):
        migrate(url)


def test_questions_create_no_tables(empty_url, tmp_path):
    with pytest.raises(NotFound, match="there is no catalog"):
        Home.open(tmp_path, catalog=empty_url).runs()
    if empty_url.startswith("sqlite"):
        assert list(tmp_path.iterdir()) == []
    else:
        engine = connect(empty_url)
        assert revision(engine) is None
        engine.dispose()
