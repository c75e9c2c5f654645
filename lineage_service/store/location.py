"""Checks, when a home is opened, whether a home and a catalog file can be at their paths."""

from __future__ import annotations

import os
from pathlib import Path

from lineage_catalog.engine import CatalogError, catalog_file

from lineage_service.errors import StoreError

_HINT = "choose another with --home"


def check_location(home: Path, url: str) -> None:
    """Raises StoreError if there cannot be a home at a path, or a catalog at its URL. Both may be missing; they are
    created.
    """
    try:
        _check_home(home)
        file = catalog_file(url)
        if file is not None:
            _check_catalog(file, home)
    except CatalogError as error:
        raise StoreError(f"{error} (home '{home}')", hint=error.hint) from None
    except ValueError:  # a NUL in the path
        raise StoreError("the path of the home has a character that no path can have", hint=_HINT) from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"cannot read the home '{home}': {reason}", hint=_HINT) from None


def _nearest(path: Path) -> Path:
    """The path, or the nearest existing folder above it; a link counts as existing wherever it leads."""
    for each in (path, *path.parents):
        try:
            os.lstat(each)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return each
    return path


def _check_home(home: Path) -> None:
    above = _nearest(home)
    if above.is_symlink() and not above.exists():
        what = f"the home '{home}'" if above == home else f"'{above}', above the home '{home}',"
        raise StoreError(f"{what} is a link that leads nowhere", hint=f"create what it leads to, or {_HINT}")
    if not above.is_dir():
        if above == home:
            raise StoreError(f"the home '{home}' is a file, not a folder", hint=_HINT)
        raise StoreError(f"there can be no home '{home}': '{above}' is a file, not a folder", hint=_HINT)
    if not os.access(above, os.X_OK) or (above == home and not os.access(above, os.R_OK)):
        raise StoreError(f"cannot read the home '{home}': permission denied", hint=_HINT)


def _check_catalog(file: Path, home: Path) -> None:
    hint = "name another with --catalog or SMOKE_CATALOG"
    if file.is_dir():
        raise StoreError(f"the catalog '{file}' is a folder, not a file (home '{home}')", hint=hint)
    if file.is_symlink() and not file.exists():
        raise StoreError(f"the catalog '{file}' is a link that leads nowhere (home '{home}')", hint=hint)
    above = _nearest(file.absolute().parent)
    if above.exists() and not above.is_dir():
        raise StoreError(f"there can be no catalog '{file}': '{above}' is a file, not a folder", hint=hint)
