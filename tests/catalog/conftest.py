"""Every test of the catalog runs on both engines; one server for all of them, a database for each."""

import itertools

import pytest

from tests.catalog.server import postgresql

numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """A function from a database's name to its URL."""
    with postgresql() as url, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PGCONNECT_TIMEOUT", "120")  # it is there, however busy the machine is
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request, tmp_path):
    """A database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'catalog.db'}"
    return new_database(request.getfixturevalue("server"))


def new_database(server) -> str:
    import psycopg

    name = f"test{next(numbers)}"
    with psycopg.connect(server("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server(name)


@pytest.fixture
def postgresql_url(server):
    return new_database(server)


@pytest.fixture
def url(empty_url):
    """A catalog of the current revision."""
    from lineage_catalog.engine import catalog_file
    from lineage_catalog.schema_upgrade import migrate

    from tests.support.empty_catalog import put_empty_catalog

    file = catalog_file(empty_url)
    if file is None:
        migrate(empty_url)
    else:
        put_empty_catalog(file)
    return empty_url
