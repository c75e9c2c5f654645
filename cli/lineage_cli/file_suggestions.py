"""Suggestions for a workflow file that does not exist."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

SUFFIXES = (".yml", ".yaml", ".sql")


@contextlib.contextmanager
def suggest_close_file(file: Path) -> Iterator[None]:
    """Adds a hint to a NotFound error for `file`: the workflow file in its folder with the closest name."""
    from lineage_service.errors import NotFound

    try:
        yield
    except NotFound as error:
        if len(error.problems) != 1 or error.problems[0].hint or _exists(file):
            raise
        close = _closest(file)
        if close is None:
            raise
        raise NotFound(replace(error.problems[0], hint=f"did you mean '{close}'?")) from error


def _closest(file: Path) -> Path | None:
    """Returns the workflow file in the same folder whose name, without its suffix, is closest."""
    import difflib

    by_stem = {each.stem: each for each in _workflow_files(file.parent)}
    close = difflib.get_close_matches(file.stem, by_stem, n=1)
    return by_stem[close[0]] if close else None


def _exists(file: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return file.exists()
    return True  # the error has another cause than the name


def _workflow_files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError, ValueError):
        return sorted(each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES)
    return []
