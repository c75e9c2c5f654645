"""The file that a user names for a result: whether it can be written, told before the work for it is done."""

from __future__ import annotations

import os
from pathlib import Path

from lineage_service.errors import LineageError


def check_out_file(out: Path) -> tuple[Path, bool]:
    """The file that `out` means (links stay links), and whether it is a device. LineageError for a file that cannot be
    written; missing folders are not made, since a wrong folder is more often mistyped than new."""
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
    """What the disk answered, in the user's words."""
    what = name if name == "standard output" else f"'{name}'"
    reason = ((error.strerror if isinstance(error, OSError) else None) or "it cannot be opened").lower()
    return LineageError(f"cannot write {what}: {reason}")
