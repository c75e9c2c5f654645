"""Permissions of written files: only the owner may read them, unless SMOKE_UMASK says otherwise."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lineage_service.errors import StoreError

VARIABLE = "SMOKE_UMASK"
PRIVATE = 0o077


def permission_mask() -> int:
    """The permissions that files and folders do not get: those of group and others, or SMOKE_UMASK, in octal as for
    umask.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return PRIVATE
    try:
        found = int(given, 8)
    except ValueError:
        found = -1
    if not 0 <= found <= 0o077:
        raise StoreError(f"{VARIABLE} must be three octal digits from 000 to 077, not '{given}'", hint="022 or 027")
    return found


def make_private(*paths: Path) -> None:
    """Removes permissions from files, and from folders with everything below. Files of other owners, and files removed
    meanwhile, are skipped.
    """
    removed = permission_mask()
    for top in paths:
        for path in _below(top):
            with suppress(OSError):
                mode = stat.S_IMODE(path.lstat().st_mode)
                if mode & removed and not path.is_symlink():
                    path.chmod(mode & ~removed)


def is_private(path: Path) -> bool:
    """Whether a file or folder grants no more permissions than allowed."""
    return not stat.S_IMODE(path.stat().st_mode) & permission_mask()


def _below(top: Path) -> Iterator[Path]:
    yield top
    if top.is_dir() and not top.is_symlink():
        for folder, folders, files in os.walk(top):
            yield from (Path(folder) / name for name in (*folders, *files))
