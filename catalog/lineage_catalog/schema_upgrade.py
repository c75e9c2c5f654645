"""Brings a catalog to the current revision: all tables at once in an empty database, else migration by migration."""

from __future__ import annotations

import threading

from sqlalchemy import inspect, text
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog.engine import CatalogError, catalog_label, connect, short_message
from lineage_catalog.models import HEAD, metadata
from lineage_catalog.seals import seal_missing

ALEMBIC_TABLE = (  # as Alembic makes it
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_migrating = threading.Lock()  # Alembic keeps what it does in globals


def migrate(url: str, to: str = "head") -> None:
    """Brings the catalog to the current revision, creating it where there is none; of several at once, one does it."""
    try:
        if to != "head" or not _create(url):
            _upgrade(url, to)
    except SQLAlchemyError as error:
        raise CatalogError(f"cannot prepare {catalog_label(connect(url))}: {short_message(error)}") from error


def _upgrade(url: str, to: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "lineage_catalog:migrations")
    config.attributes["url"] = url
    try:
        with _migrating:
            command.upgrade(config, to)
    except CommandError:
        unknown = "its revision is not known to this version"
        raise CatalogError(f"cannot prepare {catalog_label(connect(url))}: {unknown}") from None


def _create(url: str) -> bool:
    """Creates the tables of the current revision at once in an empty database, and says whether it was empty. Running
    every migration there took most of the time of a first run's preparation."""
    engine = connect(url).execution_options(writing=True)
    try:
        with engine.begin() as connection:
            if inspect(connection).get_table_names():
                return False
            metadata.create_all(connection)
            connection.execute(text(ALEMBIC_TABLE))
            connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
            seal_missing(connection)
            return True
    finally:
        engine.dispose()
