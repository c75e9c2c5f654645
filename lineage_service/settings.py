"""Finds the home, its catalog and Spark: by option, by environment variable, or by searching parent folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lineage_service.errors import StoreError

PROGRAM = "smoke-lineage"
HOME_VARIABLE = "SMOKE_HOME"
CATALOG_VARIABLE = "SMOKE_CATALOG"
HOME_NAME = ".smoke"

INDEX_ENGINES = ("auto", "duckdb", "spark")


def _check_index_engine(engine: str) -> None:
    """Raises StoreError for an unknown index engine."""
    if engine not in INDEX_ENGINES:
        raise StoreError(f"unknown index engine '{engine}'; engines: {', '.join(INDEX_ENGINES)}")


@dataclass(frozen=True)
class IndexOptions:
    """Options of indexing: where Spark is, if it is needed, and which engine builds the index."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    engine: str = "auto"

    def __post_init__(self) -> None:
        _check_index_engine(self.engine)


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: capture (None: as in the workflow file), variables, where Spark is, which engine builds the
    index, and where tables are that a .sql file names.
    """

    capture: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    index_engine: str = "auto"
    sources: Mapping[str, str | Path] | Iterable[tuple[str, str | Path]] = ()

    def __post_init__(self) -> None:
        _check_index_engine(self.index_engine)


def home_path(given: str | Path | None = None) -> Path:
    """`given`, otherwise SMOKE_HOME, otherwise the nearest .smoke here or above, otherwise a new .smoke here."""
    if given is not None and not str(given).strip():
        raise StoreError("the path of the home is empty", hint="name a folder with --home, or leave out --home")
    if given is None:
        given = os.environ.get(HOME_VARIABLE) or None
    if given is not None:
        try:
            return Path(given).expanduser().absolute()
        except RuntimeError:
            raise StoreError(f"the home '{given}' begins with a user that is not known here") from None
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / HOME_NAME).is_dir():
            return folder / HOME_NAME
    return here / HOME_NAME


def command(home: Path, *words: str, catalog: str | None = None) -> str:
    """A command line to paste. It names the home and catalog if they would not be found by default."""
    where = [] if home_path() == home else ["--home", str(home)]
    return shlex.join([PROGRAM, *words, *where, *(["--catalog", catalog] if catalog else [])])


def catalog_url(home: Path, given: str | None = None) -> str:
    """`given`, else SMOKE_CATALOG, else SQLite in the home."""
    if "?" in str(home) and not given and not os.environ.get(CATALOG_VARIABLE):
        raise StoreError(f"a home cannot have a '?' in its path: '{home}'", hint="choose another with --home")
    return given or os.environ.get(CATALOG_VARIABLE) or f"sqlite:///{home / 'catalog.db'}"
