"""A catalog on PostgreSQL by its URL: drivers, servers that do not answer, and passwords that nobody sees."""

import socket
import sys

import psycopg
import pytest
from lineage_catalog.engine import CatalogError, connect, revision, url_without_password

from lineage_service import Home
from lineage_service.errors import StoreError

WORKFLOW = """\
version: 1
name: tiny
sources: {a: {path: a.csv, format: csv, options: {header: true}, schema: "k BIGINT, v BIGINT"}}
steps: [{name: sums, op: aggregate, input: a, by: [k], measures: {v: sum(v)}}]
outputs: {sums: {}}
"""


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_the_url_uses_one_driver(postgresql_url, scheme):
    engine = connect(postgresql_url.replace("postgresql", scheme, 1))
    assert engine.dialect.driver == "psycopg"
    assert revision(engine) is None
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:sesame@h:abc/d", "it is no database URL"),
        ("postgresql://u:ses:ame", "it is no database URL"),
        ("u:sesame@h/d", "it is no database URL"),
        ("postgresql://u:open@sesame@h/d", "more than one '@'"),
        ("mysql://u:sesame@h/d", "SQLite or PostgreSQL, not on 'mysql'"),
        ("postgresql+nosuch://u:sesame@h/d", "no such driver"),
    ],
)
def test_a_wrong_url_is_told_without_its_password(url, message, tmp_path):
    with pytest.raises(StoreError, match=message) as wrong:
        Home.open(tmp_path, catalog=url).runs()
    assert "ame" not in str(wrong.value).replace("name", "")


def test_a_password_is_never_shown():
    assert url_without_password("postgresql://me:sesame@host:5433/db?sslmode=require") == (
        "postgresql://me:***@host:5433/db?sslmode=require"
    )
    assert "sesame" not in url_without_password("postgresql://host/db?password=sesame")
    assert url_without_password("u:sesame@h/d") == "a URL that cannot be read"


def test_without_the_driver_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="a catalog on PostgreSQL needs the package 'psycopg'") as missing:
        Home.open(tmp_path, catalog="postgresql://u@h/d").runs()
    assert missing.value.problems[0].hint == 'pip install "smoke-lineage[postgres]"'


def test_a_server_that_is_down_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        with pytest.raises(StoreError, match=f"cannot open the catalog: .*refused.*{tmp_path}") as down:
            Home.open(tmp_path, catalog=f"postgresql://u:sesame@127.0.0.1:{taken.getsockname()[1]}/d").runs()
    assert "sesame" not in str(down.value)


@pytest.mark.long
def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    monkeypatch.setattr("lineage_catalog.engine.CONNECT_WAIT", 2)  # libpq waits no less
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(StoreError, match=r"cannot open the catalog: .*timeout"):
            Home.open(tmp_path, catalog=f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d").runs()


def test_a_database_that_is_not_there_is_told(server, tmp_path):
    with pytest.raises(StoreError, match=r'cannot open the catalog: .*"nowhere" does not exist'):
        Home.open(tmp_path, catalog=server("nowhere")).runs()


def test_a_connection_that_broke_is_opened_again(postgresql_url, server, tmp_path):
    from lineage_catalog.schema_upgrade import migrate

    migrate(postgresql_url)
    with Home.open(tmp_path, catalog=postgresql_url) as home:
        assert home.runs().to_pylist() == []
        with home._open.reader.snapshot():
            home._open.reader.runs()
            with psycopg.connect(server("postgres"), autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'")
            with pytest.raises(StoreError, match="cannot read the catalog"):
                home._open.reader.runs()
            # A question does not go on with another state of the catalog.
            with pytest.raises(StoreError, match="could not be read while a question was answered"):
                home._open.reader.runs()
        assert home.runs().to_pylist() == []


def test_a_catalog_error_has_a_hint_of_its_own():
    with pytest.raises(CatalogError) as wrong:
        connect("mysql://h/d")
    assert wrong.value.hint == "write postgresql://USER@HOST/DATABASE, or leave it out"


def test_a_workflow_from_run_to_answer(spark, postgresql_url, tmp_path):
    (tmp_path / "a.csv").write_text("k,v\n1,10\n2,20\n1,30\n")
    (tmp_path / "tiny.yml").write_text(WORKFLOW)
    with Home.open(tmp_path / "home", catalog=postgresql_url) as home:
        report = home.run(tmp_path / "tiny.yml")
        assert not (tmp_path / "home" / "catalog.db").exists()
        rows = home.rows("sums").to_pylist()
        assert sorted((row["k"], row["v"]) for row in rows) == [(1, 40), (2, 20)]
        rid = next(row["_rid"] for row in rows if row["k"] == 1)
        assert [row["_rid"] for row in home.backward("sums", to="a", rid=rid).to_pylist()] == [0, 2]
        assert [row["_rid"] for row in home.forward("a", to="sums", rid=2).to_pylist()] == [rid]
        assert [row["run_id"] for row in home.runs().to_pylist()] == [report.run_id]
        (tmp_path / "home" / "runs" / "killed" / "temporary").mkdir(parents=True)
        assert home.gc()["removed"] == 1
    with Home.open(tmp_path / "home", catalog=postgresql_url) as home:
        assert home.rows("sums", all=True).count() == 2, "gc left what the catalog on the server needs"
    with pytest.raises(StoreError, match="has runs, but no catalog"):
        Home.open(tmp_path / "home").gc()
