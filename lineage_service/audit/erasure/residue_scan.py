"""Searches for values in everything the product stores: files of the home, published copies, the catalog.

The scan is independent of the erasure: it does not use runs, versions or lineage. Only its caller does, to tell which
columns have the name of a personal column and no personal data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_catalog import models
from sqlalchemy import Engine, select, text

from lineage_service.audit.erasure.identifying_values import is_searchable
from lineage_service.audit.erasure.parquet_values import DecodedCounts, DecodedValues, decode_parquet
from lineage_service.audit.erasure.text_redaction import STRUCTURE
from lineage_service.errors import StoreError
from lineage_service.store.home_key import NAME, HomeKey

CHUNK = 1 << 24
WRITTEN = ("content", "variables", "declared")  # columns of the catalog with user-written texts
_WORDS = re.compile(r"[^\s\"'`,;()\[\]{}=<>\\]+")
_SMALLER = re.compile(r"[/|:]")  # characters that separate values or occur inside them
_WORD = re.compile(r"[A-Za-z_]+\Z|[0-9]+\Z")
_PRINTED = re.compile(rb"[\x20-\x7e\x80-\xff]{4,}")
# Files whose numbers are row ids, positions and ordinals, whatever their columns are called.
_OWN_NUMBERS = re.compile(r"runs/[^/]+/(?:(?:subjects|patches)/.*|index/.*\.(?:backward|forward)(?:\.parquet|/.*))\Z")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'")


@dataclass
class SearchedValues:
    """The searched values: given values, or keyed hashes, which match complete values only.

    Numbers and dates occur by chance, so they are searched only in columns with these names.
    """

    given: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    key: HomeKey | None = None

    def __post_init__(self) -> None:
        self._long = sorted(value for value in self.given if is_searchable(value))
        self._known: dict[str, bool] = {}

    def occurs_in_values(self, part: DecodedValues, others: Collection[str] = ()) -> bool:
        """Whether values of a file equal or contain a searched value. `others`: its columns whose numbers are not about
        persons.
        """
        if part.is_text:
            return any(self.is_searched_value(each) or self.occurs_inside(each) for each in part.values)
        if part.column is None or part.column.rpartition(".")[2].lower() not in self.columns.difference(others):
            return False
        return any(
            each in self.given or (self.key is not None and bool(self.numbers) and self.key.value(each) in self.numbers)
            for each in part.values
        )

    def is_searched_value(self, value: str) -> bool:
        if value in self.given:
            return True
        if not self.hashes or self.key is None or not is_searchable(value):
            return False
        if value not in self._known:
            if len(self._known) > 1_000_000:
                self._known.clear()
            self._known[value] = self.key.value(value) in self.hashes
        return self._known[value]

    def occurs_inside(self, value: str) -> bool:
        return any(each in value and _stands_alone(each, value) for each in self._long)

    def occurs_in_prose(self, prose: str, *, words: bool = True) -> bool:
        """Whether a value occurs as a word, a quoted text or a part of a text such as JSON, SQL or a note. Without
        `words`, values that are plain words are skipped, because names and keys are words too.
        """
        if any(each in prose and _stands_alone(each, prose) for each in self._long if words or not _WORD.match(each)):
            return True
        parts = set(_WORDS.findall(prose))
        parts |= {part for word in parts for part in _SMALLER.split(word)}
        parts |= {part for pair in _QUOTED.findall(prose) for part in pair if part}
        return any(
            self.is_searched_value(part) for part in parts if not part.isdigit() and (words or not _WORD.match(part))
        )

    def occurs_in_bytes(self, raw: bytes, *, words: bool = True) -> bool:
        """Whether a value occurs in raw bytes, as text. Without `words`, plain words are not searched."""
        wanted = [each for each in self._long if words or not _WORD.match(each)]
        if any(each.encode() in raw and _stands_alone(each, raw.decode("latin-1")) for each in wanted):
            return True
        if not self.hashes:
            return False
        return any(self.occurs_in_prose(part.decode("utf-8", "replace"), words=words) for part in _PRINTED.findall(raw))


def _stands_alone(value: str, text: str) -> bool:
    """Whether an occurrence in a text is separate. A number inside a longer number is another number; times and file
    sizes have many digits.
    """
    return not value.isdecimal() or re.search(rf"(?<![0-9]){value}(?![0-9])", text) is not None


@dataclass
class ResidueScan:
    """What was covered, what could not be, and where something was found. `others`: by file, columns that are called
    like personal ones and whose numbers are not about persons.
    """

    values: SearchedValues
    others: Mapping[Path, Collection[str]] = field(default_factory=dict)
    files: int = 0
    parquet: int = 0
    rows_of_catalog: int = 0
    pages: int = 0
    decoded: DecodedCounts = field(default_factory=DecodedCounts)
    unreadable: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def folder(self, folder: Path, named: Callable[[Path], str], left_out: Iterable[Path] = ()) -> None:
        """Scans every file below a folder."""
        skipped = {*left_out, folder / NAME}
        try:
            paths = sorted(folder.rglob("*"))
        except OSError as error:
            self.unreadable.append(f"'{folder}' ({type(error).__name__})")
            return
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                if self.values.occurs_in_prose(named(path), words=False):
                    self.found.append(f"the name of '{named(path)}'")
            elif path not in skipped:
                self.file(path, named(path))

    def file(self, path: Path, name: str) -> None:
        if path.is_symlink() and not path.exists():
            return
        self.files += 1
        try:
            if self.values.occurs_in_prose(name, words=False):
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
        """Whether a Parquet file contains a searched value. Reading stops at the first match."""
        return any(self.values.occurs_in_values(part) for part in decode_parquet(path, self.decoded))

    def _parquet(self, path: Path, name: str) -> None:
        self.parquet += 1
        ours = _OWN_NUMBERS.match(Path(name).as_posix()) is not None
        others = self.others.get(path, ())
        for part in decode_parquet(path, self.decoded):
            if (part.is_text or not ours) and self.values.occurs_in_values(part, others):
                self.found.append(f"{part.where} of '{name}'")
        # Parts outside compressed pages: column indexes, column names.
        if self.values.given:
            self._bytes(path, name)

    def _bytes(self, path: Path, name: str, *, words: bool = True) -> None:
        """Scans raw bytes. Without `words`, values that are plain words are skipped, because keys and names are words
        too.
        """
        with path.open("rb") as stream:
            before = b""
            while chunk := stream.read(CHUNK):
                if self.values.occurs_in_bytes(before + chunk, words=words):
                    self.found.append(f"the bytes of '{name}'")
                    return
                before = chunk[-256:]

    # --- the catalog ------------------------------------------------------------------------------------------

    def catalog(self, engine: Engine) -> None:
        """Scans every row of every table; for SQLite, also every page of the file and of the files beside it."""
        with engine.connect() as connection:
            for table in models.metadata.sorted_tables:
                for row in connection.execute(select(table)):
                    self.rows_of_catalog += 1
                    for name, value in row._mapping.items():
                        words = name in WRITTEN
                        if isinstance(value, str) and any(
                            self.values.occurs_in_prose(each, words=words) for each in _texts_in_value(name, value)
                        ):
                            self.found.append(f"the catalog's table '{table.name}', column '{name}'")
            if engine.dialect.name == "sqlite":
                self.pages = int(connection.execute(text("PRAGMA page_count")).scalar_one())
        if engine.dialect.name == "sqlite" and engine.url.database:
            for path in sorted(Path(engine.url.database).parent.glob(Path(engine.url.database).name + "*")):
                self._bytes(path, path.name, words=False)
        self.found = list(dict.fromkeys(self.found))


def _texts_in_value(column: str, text: str) -> Iterator[str]:
    """The texts in a value of the catalog. For JSON, the texts inside, without keys."""
    if column in STRUCTURE:
        return
    try:
        yield from _leaves(json.loads(text))
    except ValueError:
        yield text


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in STRUCTURE or key == "path":
                yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value
