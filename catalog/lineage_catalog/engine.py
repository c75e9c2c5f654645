"""Connections to the catalog, and its revision: an old one is migrated before writing, a newer one refused."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from lineage_catalog.models import HEAD


class CatalogError(Exception):
    """The catalog cannot be used; the message is for the user."""


def connect(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite":
            return create_engine(parsed, pool_pre_ping=True)
        engine = create_engine(parsed, connect_args={"timeout": 60})
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise CatalogError(f"cannot use the catalog URL: {error}") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    # The driver would begin transactions late, and two writers could then block each other for good.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Any) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def revision(engine: Engine) -> str | None:
    """The revision the catalog is at; None where it is empty."""
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
            return None if row is None else str(row[0])
    except SQLAlchemyError as error:
        raise CatalogError(f"cannot open the catalog: {short_message(error)}") from error


def require_head(engine: Engine) -> bool:
    """Whether the catalog is there and current; CatalogError where it is of a newer version of the product."""
    found = revision(engine)
    if found is None:
        return False
    if found > HEAD:
        raise CatalogError(f"the catalog is of a newer version (revision {found}, this one knows {HEAD}); upgrade")
    return found == HEAD


def migrate(url: str) -> None:
    """Brings the catalog to the current revision, creating it where there is none."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "lineage_catalog:migrations")
    config.attributes["url"] = url
    try:
        command.upgrade(config, "head")
    except SQLAlchemyError as error:
        raise CatalogError(f"cannot prepare the catalog: {short_message(error)}") from error


def short_message(error: SQLAlchemyError) -> str:
    """The database's own words, without the statement and its parameters."""
    return str(getattr(error, "orig", None) or error).splitlines()[0]
