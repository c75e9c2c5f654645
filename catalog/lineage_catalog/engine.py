"""Connections to the catalog, and its revision: an older one is migrated before writing, a newer one is refused."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, Index, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import LRUCache

from lineage_catalog.models import HEAD, run_datasets, runs

READING_WAIT = 10.0  # seconds that a question waits for a commit
WRITING_WAIT = 60.0  # seconds that a commit waits for other writers
CONNECT_WAIT = 5  # seconds to wait for a connection to the server
WRITER_LOCK = 0x736D6F6B65  # an arbitrary constant
MOST_PAGES = 16 << 20  # largest catalog that is checked when it is opened: 3 ms per MB
FOUND_BY = (runs, run_datasets)  # tables that are queried by other columns than those that seals are computed by
RESTORE = "restore it from a backup; the files of runs are not affected"
SECRETS = ("password", "sslpassword")  # of a URL's query


class CatalogError(Exception):
    """The catalog cannot be used; message and hint are for the user and never contain a password."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class DamagedCatalog(CatalogError):
    """The catalog's contents differ from what was written."""


class _SharedStatements(LRUCache[Any, Any]):
    """Compiled statements, shared by all engines of one dialect. Every write opens an engine of its own, and SQLAlchemy
    would compile its statements again: its cache keys begin with the dialect, of which each engine has an instance."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(self._key_without_engine(key), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(self._key_without_engine(key), value)

    def _key_without_engine(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(type(part) if isinstance(part, Dialect) else part for part in key)


# SQLite's dialect has no settings that differ between engines. PostgreSQL's learns them from its server.
_SQLITE_STATEMENTS = _SharedStatements(1000)


def connect(url: str, *, wait: float = READING_WAIT) -> Engine:
    """An engine for the catalog at `url`, SQLite or PostgreSQL; nothing is opened yet.

    A question waits `wait` seconds for a lock. Who writes (execution option `writing`) is alone until it has
    committed: on SQLite by the lock on the file, on PostgreSQL by a lock that belongs to the transaction.
    """
    parsed = _parse_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    try:
        if sqlite:
            # One connection per concurrent question; a file has no limit of connections.
            engine = create_engine(
                parsed, poolclass=QueuePool, max_overflow=-1, connect_args={"timeout": wait},
                execution_options={"compiled_cache": _SQLITE_STATEMENTS},
            )  # fmt: skip
        else:
            engine = create_engine(parsed, pool_pre_ping=True, connect_args=_server_settings(parsed))
    except ImportError:
        driver = parsed.get_driver_name()
        hint = 'pip install "smoke-lineage[postgres]"' if driver == "psycopg" else f"install the driver '{driver}'"
        raise CatalogError(f"a catalog on PostgreSQL needs the package '{driver}'", hint) from None
    except (ArgumentError, NoSuchModuleError):
        raise _bad_url(f"no such driver: '{parsed.drivername}'") from None
    if sqlite:
        event.listen(engine, "do_connect", partial(_connect_sqlite, str(parsed.database or "")))
    event.listen(engine, "connect", _prepare_sqlite if sqlite else partial(_prepare_postgresql, wait))
    event.listen(engine, "begin", _begin_sqlite if sqlite else _begin_postgresql)
    return engine


def url_without_password(url: str) -> str:
    """Returns the URL without its password, to be shown."""
    try:
        parsed = _parse_url(url)
    except CatalogError:
        return "a URL that cannot be read"
    shown = parsed.set(query={key: "***" if key in SECRETS else value for key, value in parsed.query.items()})
    return shown.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=True)


def catalog_label(engine: Engine) -> str:
    """Returns the catalog's name in messages, with its file on SQLite."""
    database = engine.url.database
    return f"the catalog '{Path(database).name}'" if engine.dialect.name == "sqlite" and database else "the catalog"


def may_exist(url: str) -> bool:
    """Whether there may be a catalog: on SQLite if its file exists; on a server always, since it is not asked."""
    parsed = _parse_url(url)
    return parsed.get_backend_name() != "sqlite" or (bool(parsed.database) and Path(str(parsed.database)).is_file())


def catalog_file(url: str) -> Path | None:
    """Returns the file of a catalog on SQLite, whether it exists or not; None for a server."""
    parsed = _parse_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database and not parsed.database.startswith("file:")
    return Path(str(parsed.database)) if is_file and parsed.database != ":memory:" else None


def _parse_url(url: str) -> URL:
    """The URL's parts, with our driver where it names none. Errors quote nothing: a password may be anywhere in it."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise _bad_url("it is no database URL") from None
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise _bad_url(f"a catalog is on SQLite or PostgreSQL, not on '{backend}'")
    if "@" in (parsed.host or ""):
        raise _bad_url("it has more than one '@'; in a user's name or password, write it as %40")
    if parsed.drivername in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _bad_url(reason: str) -> CatalogError:
    hint = "write postgresql://USER@HOST/DATABASE, or leave it out"
    return CatalogError(f"cannot use the catalog URL: {reason}", hint)


def _server_settings(url: URL) -> dict[str, Any]:
    """What libpq is told, unless the user has: a server that is down must be noticed soon, also behind a firewall."""
    is_set = "connect_timeout" in url.query or "PGCONNECT_TIMEOUT" in os.environ
    return {} if is_set or url.get_driver_name() != "psycopg" else {"connect_timeout": CONNECT_WAIT}


def _connect_sqlite(path: str, *_: Any) -> sqlite3.Connection | None:
    """A copy in memory of a catalog in a folder where nothing can be written; None for every other, which the driver
    opens. SQLite cannot open a database with a write-ahead log where it cannot make the log's files."""
    file = Path(path)
    if not file.is_file() or os.access(file.parent, os.W_OK) or Path(f"{path}-wal").exists():
        return None
    before = file.stat()
    image = bytearray(file.read_bytes())
    after = file.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or Path(f"{path}-wal").exists():
        return None  # its owner is writing: then a log exists, and SQLite can open the file
    image[18:20] = b"\x01\x01"  # a database in memory has no log
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    with suppress(sqlite3.Error):  # if the file is no database, the first statement reports it
        connection.deserialize(bytes(image))
    return connection


def _prepare_sqlite(connection: Any, _: Any) -> None:
    # The driver would begin transactions late, and two writers could deadlock.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # A question reads one snapshot for as long as it takes; with a rollback journal nobody could commit meanwhile.
    # Where the log cannot be kept (a read-only home, a file that is no database) the next statement tells what is
    # wrong, or reads with the journal.
    with suppress(sqlite3.Error, UnicodeDecodeError):  # the latter: its own words quote a damaged schema
        connection.execute("PRAGMA journal_mode = WAL")


def _prepare_postgresql(wait: float, connection: Any, _: Any) -> None:
    # Not as a setting of the connection: poolers such as PgBouncer refuse those.
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = {int(wait * 1000)}")
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: Any) -> None:
    if connection.get_execution_options().get("writing", False):
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(WRITING_WAIT * 1000)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")


def _begin_postgresql(connection: Any) -> None:
    # One writer at a time, as on SQLite: the order of commits is counted, and tables are created once.
    if connection.get_execution_options().get("writing", False):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(WRITING_WAIT * 1000)}")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")


def truncate_write_ahead_log(engine: Engine) -> None:
    """Has SQLite write its log into the file and empty it, so that removed rows are in neither. Where somebody is
    reading it stays: the last process that closes the catalog does the same."""
    if engine.dialect.name != "sqlite":
        return
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        with suppress(sqlite3.Error):
            cursor.execute("PRAGMA busy_timeout = 0")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def revision(engine: Engine) -> str | None:
    """The revision the catalog is at; None where it is empty."""
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
            return None if row is None else str(row[0])
    except SQLAlchemyError as error:
        raise CatalogError(f"cannot open {catalog_label(engine)}: {short_message(error)}") from error
    except ValueError as error:
        raise _invalid_utf8(engine) from error


def check_pages(engine: Engine, *, whole: bool = False) -> None:
    """Has SQLite look through its file: a damaged page may hide rows. CatalogError where it finds anything.

    Of a large file, unless it is to be the `whole`, just those indexes are compared with their tables by which runs and
    datasets are found: every record that is read is compared with its seal, whatever the size. Servers look after their
    own files.
    """
    database = engine.url.database
    if engine.dialect.name != "sqlite" or not database:
        return
    try:
        large = Path(database).stat().st_size > MOST_PAGES
        with engine.connect() as connection:
            if large and not whole:
                sound = all(_is_index_consistent(connection, index) for table in FOUND_BY for index in table.indexes)
            else:
                sound = connection.execute(text("PRAGMA integrity_check(1)")).scalar_one() == "ok"
    except (SQLAlchemyError, OSError) as error:
        reason = short_message(error) if isinstance(error, SQLAlchemyError) else (error.strerror or "").lower()
        raise CatalogError(f"cannot open {catalog_label(engine)}: {reason}") from error
    except ValueError as error:
        raise _invalid_utf8(engine) from error
    if not sound:
        raise DamagedCatalog(f"{catalog_label(engine)} is damaged: SQLite finds its pages inconsistent", RESTORE)


def _is_index_consistent(connection: Connection, index: Index) -> bool:
    """Whether an index of SQLite has exactly the rows of its table."""
    assert index.table is not None
    table, columns = index.table.name, ", ".join(["rowid", *(column.name for column in index.columns)])
    if connection.execute(text("SELECT 1 FROM sqlite_master WHERE name = :name"), {"name": index.name}).first() is None:
        return True  # of an earlier revision
    sides = [f"SELECT {columns} FROM {table} {hint}" for hint in (f"INDEXED BY {index.name}", "NOT INDEXED")]
    found = [Counter(tuple(row) for row in connection.execute(text(side))) for side in sides]
    return found[0] == found[1]


def _invalid_utf8(engine: Engine) -> DamagedCatalog:
    return DamagedCatalog(f"{catalog_label(engine)} is damaged: a text in it is no valid UTF-8", RESTORE)


def require_head(engine: Engine) -> bool:
    """Whether the catalog is there and current; CatalogError where it is of a newer version of the product."""
    found = revision(engine)
    if found is None:
        return False
    if found > HEAD:
        raise CatalogError(
            f"{catalog_label(engine)} is of a newer version (revision {found}, this one knows {HEAD})",
            "upgrade: pip install --upgrade smoke-lineage",
        )
    return found == HEAD


def short_message(error: SQLAlchemyError) -> str:
    """The database's own words, without the statement and its parameters; a lock in plain words."""
    words = str(getattr(error, "orig", None) or error).splitlines()
    message = words[0] if words else type(error).__name__
    if "database is locked" in message or "lock timeout" in message:
        return "it is locked: another process is writing to it"
    if "decode" in message:  # its message would quote the text
        return "a text in it is no valid UTF-8: it is damaged"
    return message
