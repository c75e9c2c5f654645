"""Parses persons as users name them: `customer=42`, a CSV file, or standard input."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_service.arguments import is_column_value
from lineage_service.errors import QuestionError

MOST_SUBJECTS = 100
_FORM = "a subject is KIND=VALUE, such as customer=42"
_HINT = "or a pair of kind and value, ('customer', 42), or several of them"


@dataclass(frozen=True, order=True)
class Subject:
    """A kind of person and an identifying value, which is never shown."""

    kind: str
    value: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Subject:
        kind, equals, value = text.partition("=")
        if not equals or not kind.strip() or not value:
            raise QuestionError(_FORM)
        return cls(kind.strip(), value)


Given = Subject | str | tuple[str, object]


def subjects_of(given: Given | Iterable[Given], most: int = MOST_SUBJECTS) -> list[Subject]:
    """The distinct persons. Raises QuestionError if there is none, or more than `most`."""
    single = isinstance(given, Subject | str) or _is_pair(given)
    if not single and (not isinstance(given, Iterable) or isinstance(given, bytes | Mapping)):
        raise QuestionError(_FORM, hint=_HINT)
    each: list[Any] = [given] if single else list(given)  # type: ignore[arg-type]  # _is_pair recognises a pair
    found = list(dict.fromkeys(_subject(one) for one in each))
    if not found:
        raise QuestionError("name the person: --subject KIND=VALUE")
    if len(found) > most:
        raise QuestionError(
            f"{len(found):,} persons are named, and at most {most:,} are taken at once",
            hint="raise it if that is meant: --max-subjects",
        )
    return found


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and "=" not in given[0]


def _subject(given: object) -> Subject:
    if isinstance(given, Subject):
        return given
    if isinstance(given, str):
        return Subject.parse(given)
    if not isinstance(given, tuple) or not _is_pair(given) or not is_column_value(given[1]):
        raise QuestionError(_FORM, hint=_HINT)
    return Subject(given[0], str(given[1]))


def subjects_in(lines: Iterable[str], where: str) -> list[Subject]:
    """Persons from text: lines KIND=VALUE, or CSV with the columns `kind` and `value`, or with one column named by a
    kind.
    """
    rows: list[Sequence[str]] = [row for row in csv.reader(lines) if row]
    if not rows:
        return []
    head = [name.strip() for name in rows[0]]
    if [name.lower() for name in head] == ["kind", "value"]:
        return [_row(row, 2, where, number) for number, row in enumerate(rows[1:], 2)]
    if len(head) == 1 and "=" not in head[0]:
        return [Subject(head[0], row[0]) for row in rows[1:]]
    return [_line(row, where, number) for number, row in enumerate(rows, 1)]


def subjects_in_file(path: Path) -> list[Subject]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return subjects_in(stream, str(path))
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise QuestionError(f"the persons in '{path}' cannot be read: {reason}") from None
    except (UnicodeDecodeError, csv.Error):
        raise QuestionError(
            f"the persons in '{path}' cannot be read: the file is no CSV in UTF-8",
            hint="lines KIND=VALUE, or CSV: columns kind and value, or one column named by a kind",
        ) from None


def _row(row: Sequence[str], width: int, where: str, number: int) -> Subject:
    if len(row) != width or not row[0].strip() or not row[1]:
        raise QuestionError(f"{where}, line {number}: expected a kind and a value")
    return Subject(row[0].strip(), row[1])


def _line(row: Sequence[str], where: str, number: int) -> Subject:
    try:
        return Subject.parse(",".join(row))
    except QuestionError:
        raise QuestionError(
            f"{where}, line {number}: expected KIND=VALUE", hint="or CSV with the columns kind and value"
        ) from None
