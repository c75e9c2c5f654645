"""Values looked for everywhere that bytes of the product lie: files of the home, published copies, the catalog.

By another way than an erasure takes: nothing here knows of runs, versions or lineage.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_catalog import models
from sqlalchemy import Engine, select, text

from lineage_service.audit.decoding import Decoded, decoded_values
from lineage_service.audit.redacting import is_telling
from lineage_service.errors import StoreError
from lineage_service.subjects.key import NAME, Key

CHUNK = 1 << 24
_WORDS = re.compile(r"[^\s\"'`,;()\[\]{}=<>\\]+")
_PRINTED = re.compile(rb"[\x20-\x7e\x80-\xff]{4,}")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'")


@dataclass
class Values:
    """What is looked for: values given again, or keyed hashes of values, which are found whole only."""

    given: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    key: Key | None = None

    def __post_init__(self) -> None:
        self._long = sorted(value for value in self.given if is_telling(value))
        self._known: dict[str, bool] = {}

    def in_texts(self, texts: Iterable[str]) -> bool:
        """Whether one of these texts is, or has in it, what is looked for."""
        return any(self.is_one(each) or self.inside(each) for each in texts)

    def is_one(self, value: str) -> bool:
        if value in self.given:
            return True
        if not self.hashes or self.key is None or not is_telling(value):
            return False
        if value not in self._known:
            if len(self._known) > 1_000_000:
                self._known.clear()
            self._known[value] = self.key.value(value) in self.hashes
        return self._known[value]

    def inside(self, value: str) -> bool:
        return any(each in value and _apart(each, value) for each in self._long)

    def in_prose(self, prose: str) -> bool:
        """Whether it is a word, a quoted text or a part of prose: JSON, SQL, notes."""
        if self.inside(prose):
            return True
        words = set(_WORDS.findall(prose))
        words |= {part for pair in _QUOTED.findall(prose) for part in pair if part}
        return any(self.is_one(word) for word in words)

    def in_bytes(self, raw: bytes) -> bool:
        """Whether it is among raw bytes, as text."""
        if any(each.encode() in raw and _apart(each, raw.decode("latin-1")) for each in self._long):
            return True
        return bool(self.hashes) and any(
            self.in_prose(part.decode("utf-8", "replace")) for part in _PRINTED.findall(raw)
        )


def _apart(value: str, text: str) -> bool:
    """Whether a value that occurs in a text is there by itself: a number that is a part of a longer one is another, and
    times and sizes of files have many digits."""
    return not value.isdecimal() or re.search(rf"(?<![0-9]){value}(?![0-9])", text) is not None


@dataclass
class Scan:
    """What was covered, what could not be, and where something was found."""

    values: Values
    files: int = 0
    parquet: int = 0
    rows_of_catalog: int = 0
    pages: int = 0
    decoded: Decoded = field(default_factory=Decoded)
    unreadable: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def folder(self, folder: Path, named: Callable[[Path], str], left_out: Iterable[Path] = ()) -> None:
        """Every file below a folder."""
        skipped = set(left_out)
        try:
            paths = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
        except OSError as error:
            self.unreadable.append(f"'{folder}' ({type(error).__name__})")
            return
        for path in paths:
            if path not in skipped and path.name != NAME:
                self.file(path, named(path))

    def file(self, path: Path, name: str) -> None:
        if path.is_symlink() and not path.exists():
            return
        self.files += 1
        try:
            if self.values.in_prose(name):
                self.found.append(f"the name of '{name}'")
            with path.open("rb") as stream:
                is_parquet = stream.read(4) == b"PAR1"
            if is_parquet:
                self._parquet(path, name)
            else:
                self._bytes(path, name)
        except StoreError as error:
            self.unreadable.append(error.problems[0].message)
        except OSError as error:
            self.unreadable.append(f"'{name}' ({type(error).__name__})")

    def finds(self, path: Path) -> bool:
        """Whether a Parquet file holds what is looked for; it is read up to there."""
        return any(self.values.in_texts(texts) for _, texts in decoded_values(path, self.decoded))

    def _parquet(self, path: Path, name: str) -> None:
        self.parquet += 1
        for where, texts in decoded_values(path, self.decoded):
            if self.values.in_texts(texts):
                self.found.append(f"{where} of '{name}'")
        # What is not in compressed pages: column indexes, names of columns.
        if self.values.given:
            self._bytes(path, name)

    def _bytes(self, path: Path, name: str) -> None:
        with path.open("rb") as stream:
            before = b""
            while chunk := stream.read(CHUNK):
                if self.values.in_bytes(before + chunk):
                    self.found.append(f"the bytes of '{name}'")
                    return
                before = chunk[-256:]

    # --- the catalog ------------------------------------------------------------------------------------------

    def catalog(self, engine: Engine) -> None:
        """Every row of every table; of SQLite, also every page of the file and of those beside it."""
        with engine.connect() as connection:
            for table in models.metadata.sorted_tables:
                for row in connection.execute(select(table)):
                    self.rows_of_catalog += 1
                    for name, value in row._mapping.items():
                        if value is not None and self.values.in_texts(_parts(value)):
                            self.found.append(f"the catalog's table '{table.name}', column '{name}'")
            if engine.dialect.name == "sqlite":
                self.pages = int(connection.execute(text("PRAGMA page_count")).scalar_one())
        if engine.dialect.name == "sqlite" and engine.url.database:
            for path in sorted(Path(engine.url.database).parent.glob(Path(engine.url.database).name + "*")):
                self._bytes(path, path.name)
        self.found = list(dict.fromkeys(self.found))


def _parts(value: Any) -> Iterator[str]:
    """The texts inside of a value of the catalog, which may be JSON."""
    whole = str(value)
    yield whole if len(whole) < 200 else ""
    if isinstance(value, str) and value[:1] in "{[":
        with contextlib.suppress(ValueError):
            yield from _leaves(json.loads(value))
    if isinstance(value, str):
        yield from set(_WORDS.findall(value))
        yield from (part for pair in _QUOTED.findall(value) for part in pair if part)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)
        yield from set(_WORDS.findall(str(value)))
        yield from (part for pair in _QUOTED.findall(str(value)) for part in pair if part)
