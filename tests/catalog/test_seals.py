"""Seals over the catalog's records, on both engines: whatever is changed or taken away by hand is found, and what we
write ourselves is always sealed."""

import random
from dataclasses import replace

import pytest
from lineage_catalog import engine as engine_module
from lineage_catalog import models
from lineage_catalog.engine import (
    CatalogError,
    DamagedCatalog,
    check_pages,
    connect,
    require_head,
    truncate_write_ahead_log,
)
from lineage_catalog.erasures import ErasureRecord, finish_erasure, replace_text, switch_runs, user_texts
from lineage_catalog.records import (
    ColumnRecord,
    Commit,
    DatasetRecord,
    FileRecord,
    HopRecord,
    Lineage,
    PreparedRecord,
    RunRecord,
    StepRecord,
    SubjectRecord,
    VersionRecord,
)
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.seals import NAMES, all_broken_scopes, row_fetcher
from lineage_catalog.verified_reader import VerifiedReader
from lineage_catalog.writer import commit_lineage, commit_run, expire_runs, forget_files, forget_runs
from sqlalchemy import delete, select, update

SEALED = (
    *(models.workflow_versions, models.runs, models.run_steps, models.dataset_versions, models.run_datasets),
    *(models.dataset_columns, models.hops, models.prepared, models.run_files, models.subject_rows, models.erasures),
    *(models.erased_subjects, models.seals),
)


def run(run_id, *, status="committed", lineage="pending", source="v0"):
    made = VersionRecord(f"v{run_id}", "output", run_id, 3, 10, "{}")
    read = VersionRecord(source, "source", run_id, 3, 10, "{}")
    return Commit(
        RunRecord(run_id, "flow", "w1", status, "stage", "{}", "{}", "2026", "2026", lineage),
        '{"name": "flow"}',
        (StepRecord("totals", "aggregate", "stage", "asked for"),),
        (read, made),
        (
            DatasetRecord(run_id, "flow", "orders", "source", "source:orders", source, "{}"),
            DatasetRecord(run_id, "flow", "totals", "output", "step:totals", made.id, "{}"),
        ),
        (HopRecord(run_id, "step:totals", "source:orders", 0, "pairs", 3, 10, "a", "b"),),
        (ColumnRecord(run_id, "totals", 0, "revenue", "bigint", True),),
        (SubjectRecord(source, "customer", "id", run_id, "k1", 2, 3, "{}"),),
        (FileRecord("data/totals/part-0.parquet", "[1]"),),
    )


def lineage(run_id):
    hop = HopRecord(run_id, "step:totals", "source:orders", 0, "pairs", 3, 10, "c", "d")
    made = PreparedRecord(run_id, "monthly", "groups", 7, 90, "p", "{}")
    files = (FileRecord("index/0.parquet", "[2]"),)
    return Lineage(run_id, "complete", None, (hop,), "{}", (("totals", 3),), (made,), (), files)


def broken(engine):
    with engine.connect() as connection:
        return all_broken_scopes(row_fetcher(connection))


@pytest.fixture
def engine(url):
    engine = connect(url)
    commit_run(engine, run("r1"))
    commit_lineage(engine, lineage("r1"))
    record = ErasureRecord("e1", "erasure", "switched", "2026", "{}")
    with engine.execution_options(writing=True).begin() as connection:
        switch_runs(connection, record, [], {"customer": ["h1"]}, "k1")
    yield engine
    engine.dispose()


def test_whatever_is_written_is_sealed(engine):
    assert broken(engine) == []
    commit_run(engine, run("r2"))
    commit_run(engine, run("r3", status="failed"))
    assert broken(engine) == []
    forget_runs(engine, ["r3"])
    assert broken(engine) == []
    again = run("r4", lineage="complete")
    again = replace(again, versions=(*again.versions, VersionRecord("vr1", "output", "r4", 2, 9, "{}")))
    with engine.execution_options(writing=True).begin() as connection:
        record = ErasureRecord("e2", "erasure", "switched", "2026", "{}")
        switch_runs(connection, record, [("r1", again), ("r2", None)], {"customer": ["h2"]}, "k1")
        for place, text in list(user_texts(connection)):
            replace_text(connection, place, text + " ")
        finish_erasure(connection, "e2", "{}")
    assert broken(engine) == []
    with engine.execution_options(writing=True).begin() as connection:
        forget_files(connection, {"r1": ["index/0.parquet"]})
        expire_runs(connection, ["r4"], {"v0": "{ }"})
    assert broken(engine) == []


@pytest.mark.parametrize("table", SEALED, ids=lambda table: table.name)
def test_a_row_that_is_gone_is_found(engine, table):
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        else:
            connection.exec_driver_sql("SET session_replication_role = replica")
        connection.execute(delete(table))
        assert all_broken_scopes(row_fetcher(connection)) != []
        connection.rollback()


@pytest.mark.parametrize("table", SEALED, ids=lambda table: table.name)
def test_a_value_that_is_changed_is_found(engine, table):
    chance = random.Random(table.name)
    assert len(table.c) > 1
    for column in table.c:
        with engine.connect() as connection:
            row = chance.choice(connection.execute(select(table)).all())
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET session_replication_role = replica")
            else:
                connection.commit()
                connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
            value = row._mapping[column.name]
            kind = column.type.python_type
            other = f"x{(value or '')[1:]}" if kind is str else (not value if kind is bool else (value or 0) + 1)
            same = [each == row._mapping[each.name] for each in table.primary_key.columns]
            connection.execute(update(table).where(*same).values({column.name: other}))
            assert all_broken_scopes(row_fetcher(connection)) != [], column.name
            connection.rollback()


def test_lineage_is_not_added_to_a_damaged_run(url):
    engine = connect(url)
    commit_run(engine, run("r1"))
    with engine.begin() as connection:
        connection.execute(update(models.run_steps).values(reason="another"))
    with pytest.raises(CatalogError, match="is damaged: what is held of run 'r1'"):
        commit_lineage(engine, lineage("r1"))
    engine.dispose()


# --- nothing is passed over -----------------------------------------------------------------------------------

LISTINGS = {
    "runs": lambda reader: reader.runs("flow"),
    "latest run": lambda reader: reader.latest_run("flow"),
    "workflows": lambda reader: reader.workflows(),
    "unfinished": lambda reader: reader.unfinished_runs(),
    "owners": lambda reader: reader.latest_runs_of_owners("totals"),
    "readers": lambda reader: reader.readers_of(["v0"]),
    "makers": lambda reader: reader.makers_of(["vr1", "vr2"]),
}
CHANGED = [
    *((models.runs, name, other) for name, other in (("workflow", "flaw"), ("lineage", "complete"), ("status", "x"))),
    *((models.run_datasets, name, other) for name, other in (("name", "tables"), ("role", "step"), ("workflow", "f"))),
]


@pytest.mark.parametrize(("table", "column", "other"), CHANGED, ids=str)
def test_what_a_changed_name_would_hide_is_missed(engine, table, column, other):
    """Not only records that are given out are compared: one with a damaged name is not among them."""
    commit_run(engine, run("r2"))
    mine = models.runs.c.id == "r2"
    if table is models.run_datasets:
        mine = (table.c.run_id == "r2") & (table.c.role == "output")
    with engine.begin() as connection:
        connection.execute(update(table).where(mine).values({column: other}))
    for ask in LISTINGS.values():
        with pytest.raises(DamagedCatalog, match="is not as it was written"):
            ask(VerifiedReader(engine))


def test_a_catalog_of_an_earlier_version_has_no_seal_of_names(engine):
    with engine.begin() as connection:
        connection.execute(delete(models.seals).where(models.seals.c.scope == NAMES))
    assert broken(engine) == []
    assert [each.id for each in VerifiedReader(engine).runs("flow")] == ["r1"]
    commit_run(engine, run("r2"))
    with engine.connect() as connection:
        assert NAMES in set(connection.execute(select(models.seals.c.scope)).scalars())


@pytest.mark.parametrize("column", ["status", "workflow"])
def test_damage_is_not_sealed_by_the_next_commit(engine, column):
    with engine.begin() as connection:
        connection.execute(update(models.runs).values({column: "x"}))
    with pytest.raises(DamagedCatalog, match=r"the list of (runs|names) is not as it was written"):
        commit_run(engine, run("r2"))


# --- SQLite's pages -------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """A catalog's file, closed."""
    migrate(f"sqlite:///{tmp_path / 'catalog.db'}")
    engine = connect(f"sqlite:///{tmp_path / 'catalog.db'}")
    for number in range(3):
        commit_run(engine, run(f"r{number}"))
    truncate_write_ahead_log(engine)
    engine.dispose()
    return tmp_path / "catalog.db"


INDEXES = {
    "ix_runs_workflow_ordinal": b"flow",
    "ix_run_datasets_version_id": b"vr1",
    "ix_run_datasets_name": b"totals",
}


@pytest.mark.parametrize("index", INDEXES)
def test_a_damaged_index_of_a_large_catalog_hides_nothing(file, monkeypatch, index):
    """Such a catalog is not looked through as a whole when it is opened."""
    monkeypatch.setattr(engine_module, "MOST_PAGES", 0)
    engine = connect(f"sqlite:///{file}")
    check_pages(engine)
    with engine.connect() as connection:
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        page = connection.exec_driver_sql("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).scalar_one()
    engine.dispose()
    content = bytearray(file.read_bytes())
    place = content.index(INDEXES[index], (page - 1) * size, page * size)
    content[place] ^= 1
    file.write_bytes(content)
    engine = connect(f"sqlite:///{file}")
    with pytest.raises(DamagedCatalog, match=r"the catalog 'catalog.db' is damaged"):
        check_pages(engine)
    engine.dispose()


def test_a_damaged_schema_is_told_as_such(file):
    """SQLite quotes it in its error, and what is no UTF-8 cannot be quoted."""
    content = bytearray(file.read_bytes())
    content[content.index(b"(", content.index(b"CREATE TABLE runs"))] = 0xCE
    file.write_bytes(content)
    for look in (check_pages, require_head):
        engine = connect(f"sqlite:///{file}")
        with pytest.raises(CatalogError, match=r"catalog 'catalog.db'.* damaged"):
            look(engine)
        engine.dispose()
