"""The catalog of a home. Its errors are reported with the home's path and a hint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lineage_catalog.engine import (
    CatalogError,
    DamagedCatalog,
    check_pages,
    connect,
    may_exist,
    require_head,
    revision,
    url_without_password,
)
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.verified_reader import VerifiedReader
from sqlalchemy import Engine, Select

from lineage_service.errors import DamagedFile, LineageError, NotFound, StoreError
from lineage_service.settings import command
from lineage_service.store.checksums import register, unregister
from lineage_service.store.layout import HomeLayout


class HomeCatalog(VerifiedReader):
    """A reader that translates errors into StoreError with the home's path."""

    def __init__(self, engine: Engine, home: HomeLayout) -> None:
        super().__init__(engine)
        self.home = home
        register(home, self)

    def close(self) -> None:
        unregister(self.home, self)
        super().close()

    def recorded_sums(self, run_id: str) -> dict[str, str]:
        with catalog_errors(self.home):
            return super().recorded_sums(run_id)

    def _rows(self, query: Select[Any], parameters: Mapping[str, Any] | None = None, /) -> Sequence[Any]:
        with catalog_errors(self.home):
            return super()._rows(query, parameters)

    def _require(self, *scopes: str) -> None:
        with catalog_errors(self.home):
            super()._require(*scopes)


def open_catalog(home: HomeLayout, url: str) -> HomeCatalog:
    """The catalog for questions, migrated if it is old. Creates nothing: raises NotFound if there is none."""
    with catalog_errors(home):
        if not may_exist(url):
            raise missing_catalog(home, url)
        engine = connect(url)
        try:
            check_pages(engine)
            if not require_head(engine):
                if revision(engine) is None:
                    raise missing_catalog(home, url)
                migrate(url)
                if not require_head(engine):  # a copy in memory was migrated
                    message = "the catalog is of an earlier version, and cannot be migrated in place"
                    raise CatalogError(f"{message}: nothing can be written there", "copy the home, and open the copy")
        except BaseException:
            engine.dispose()
            raise
    return HomeCatalog(engine, home)


def has_catalog(home: HomeLayout, url: str) -> bool:
    """Whether there may be a catalog. A server is not queried."""
    with catalog_errors(home):
        return may_exist(url)


def missing_catalog(home: HomeLayout, url: str) -> LineageError:
    """The reason why there is no catalog: the home is new, is no folder, or has lost it."""
    if home.path.is_file():
        return StoreError(f"the home '{home.path}' is a file, not a folder", hint="choose another with --home")
    if home.runs.is_dir() and any(home.runs.iterdir()):
        return StoreError(
            f"the home '{home.path}' has runs, but no catalog ({url_without_password(url)})",
            hint=f"is it elsewhere (--catalog, SMOKE_CATALOG)? {_doctor(home)}",
        )
    where = "" if str(home.path) in url else f" ({url_without_password(url)})"
    return NotFound(
        f"there is no catalog in the home '{home.path}'{where}", hint="run a workflow first, or give --home"
    )


@contextmanager
def catalog_errors(home: HomeLayout) -> Iterator[None]:
    """Translates errors of the catalog into errors with the home's path."""
    try:
        yield
    except DamagedCatalog as error:
        raise DamagedFile(f"{error} (home '{home.path}')", hint=error.hint or _doctor(home)) from error
    except CatalogError as error:
        raise StoreError(f"{error} (home '{home.path}')", hint=error.hint or _doctor(home)) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot read the home '{home.path}': {reason.lower()}", hint=_doctor(home)) from error


def _doctor(home: HomeLayout) -> str:
    return f"look closer: {command(home.path, 'doctor', catalog=home.catalog)}"
