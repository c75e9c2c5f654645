"""The files that a read of a program means at a moment."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

States = frozenset[tuple[str, int, int]]


def states_below(paths: Iterable[str]) -> States:
    """Path, size and time of all files below these paths (files, folders or globs). What does not exist has none."""
    found: set[tuple[str, int, int]] = set()
    for path in paths:
        for each in glob.glob(path, recursive=True) if glob.has_magic(path) else [path]:  # noqa: PTH207 (as Spark)
            found.update(_walk(each))
    return frozenset(found)


def exists(path: str) -> bool:
    """Whether there is anything at a path, which is all that Spark's writer asks."""
    return Path(path).exists()


def _walk(path: str) -> Iterable[tuple[str, int, int]]:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield from _walk(entry.path)
                elif not entry.name.startswith(("_", ".")):
                    yield _state(entry.path)
    except NotADirectoryError:
        yield _state(path)
    except OSError:
        return


def _state(path: str) -> tuple[str, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return path, -1, -1
    return path, found.st_size, found.st_mtime_ns
