"""Checks whether a result file that a user names can be written, before the result is computed."""

from __future__ import annotations

import os
from pathlib import Path

from lineage_service.errors import LineageError


def check_out_file(out: Path) -> tuple[Path, bool]:
    """The path that `out` means (links are followed), and whether it is a device. Raises LineageError if the file
    cannot be written. Missing folders are not created, because they are more often mistyped than new.
    """
    try:
        target = out.resolve()
        if target.is_dir():
            raise LineageError(f"cannot write '{out}': it is a folder")
        if not target.parent.is_dir():
            raise LineageError(f"cannot write '{out}': the folder '{out.parent}' does not exist")
        if target.exists() and not os.access(target, os.W_OK):
            raise LineageError(f"cannot write '{out}': permission denied")
        return target, target.exists() and not target.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: a NUL
        raise cannot_write(str(out), error) from error


def cannot_write(name: str, error: OSError | RuntimeError | ValueError) -> LineageError:
    """The error for a file that cannot be written, with the reason that the disk gave."""
    what = name if name == "standard output" else f"'{name}'"
    reason = ((error.strerror if isinstance(error, OSError) else None) or "it cannot be opened").lower()
    return LineageError(f"cannot write {what}: {reason}")
