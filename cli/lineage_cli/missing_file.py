"""A workflow file that is not there: which one beside it was meant?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

SUFFIXES = (".yml", ".yaml")


@contextlib.contextmanager
def suggest_close_file(file: Path) -> Iterator[None]:
    """Inside, an error about `file`, which does not exist, gains the closest workflow file of its folder as a hint."""
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
    """The workflow file beside `file` whose name is closest; suffixes are alike anyway, and do not count."""
    import difflib

    by_stem = {each.stem: each for each in _workflow_files(file.parent)}
    close = difflib.get_close_matches(file.stem, by_stem, n=1)
    return by_stem[close[0]] if close else None


def _exists(file: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return file.exists()
    return True  # whatever is the matter, it is not a wrong name


def _workflow_files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError, ValueError):
        return sorted(each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES)
    return []
