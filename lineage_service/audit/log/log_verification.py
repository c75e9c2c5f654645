"""Verifies the log: finds entries that were changed, removed, reordered or cut off, and entries covered by anchors.

The log begins with entry 1, or after the last entry that its own retention removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lineage_catalog import audit as catalog
from lineage_catalog.audit import CaseRecord, LogRecord

from lineage_service.audit.log.anchors import AnchorLine, anchor_file, read_anchors
from lineage_service.audit.log.log_transactions import CASE, RETENTION, log_connection
from lineage_service.errors import NotFound, StoreError
from lineage_service.query.open_home import OpenHome
from lineage_service.store.home_key import HomeKey, existing_key

Range = tuple[int, int]  # first and last, both inclusive


@dataclass(frozen=True, slots=True)
class LogProblem:
    """One problem; `number` is the entry concerned, if there is one."""

    what: str
    number: int | None = None

    def __str__(self) -> str:
        return self.what if self.number is None else f"entry {self.number} {self.what}"


@dataclass(frozen=True)
class LogVerdict:
    """What was checked and found.

    Entries are `anchored` if an anchor covers them. Entries after the last anchor are not, which is not a fault.
    `removed` is the last entry that retention removed, 0 if none.
    """

    entries: int
    first: int | None
    last: int | None
    head: str | None
    removed: int
    anchored: tuple[Range, ...]
    unanchored: tuple[Range, ...]
    problems: tuple[LogProblem, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def verify_log(home: OpenHome, anchors: str | Path | None = None) -> LogVerdict:
    """Reads the whole log, its cases and its anchors, or the anchors of another file that was kept elsewhere."""
    path = anchor_file(home.layout) if anchors is None else Path(anchors)
    # Anchors first: an anchor written while the log is read would name an entry that was not seen.
    lines = read_anchors(path)
    if lines is None and anchors is not None:
        raise NotFound(f"there is no anchor file '{path}'")
    try:
        key = existing_key(home.layout)
    except StoreError:  # damaged: treated as missing
        key = None
    with log_connection(home) as connection:
        examination = LogVerifier(key)
        examination.take_anchors(lines, path)
        for entry in catalog.entries(connection):
            examination.take(entry)
        examination.take_cases(catalog.cases(connection, closed=True))
    return examination.verdict(path)


@dataclass
class LogVerifier:
    """Checks the log once, in the order of numbers."""

    key: HomeKey | None
    anchors: dict[int, set[str]] = field(default_factory=dict)
    problems: list[LogProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    anchored: list[Range] = field(default_factory=list)
    unanchored: list[Range] = field(default_factory=list)
    cases: set[str] = field(default_factory=set)
    entries: int = 0
    first: LogRecord | None = None
    last: LogRecord | None = None
    removed: tuple[int, str] = (0, "")  # number and hash of the last entry removed by retention
    _segment: Range | None = None  # the current run of linked entries
    _vouched: int = 0  # the last of them that an anchor names

    # --- anchors ----------------------------------------------------------------------------------------------

    def take_anchors(self, lines: Sequence[AnchorLine] | None, path: Path) -> None:
        """The valid anchors. An unreadable line is not a fault if a later line can be read."""
        others, torn = 0, 0
        for line in lines or ():
            if line.anchor is None:
                torn = line.number
                continue
            if self.key is not None and line.anchor.log != self.key.id:
                others += 1
                continue
            if self.key is not None and line.anchor.seal != line.anchor.expected_seal(self.key.seal):
                self._add_problem(f"line {line.number} of the anchors '{path}' was forged or changed")
                continue
            if torn:
                self.notes.append(f"line {torn} of the anchors '{path}' cannot be read; a later one covers it")
                torn = 0
            self.anchors.setdefault(line.anchor.number, set()).add(line.anchor.hash)
        if torn:
            self._add_problem(f"line {torn} of the anchors '{path}' cannot be read, and none behind it covers it")
        if others:
            self.notes.append(f"{others:,} anchors in '{path}' are of logs with another key")

    # --- entries ----------------------------------------------------------------------------------------------

    def take(self, entry: LogRecord) -> None:
        """Checks the next entry."""
        if not self._is_linked(entry):
            self._end_segment()
        if self._is_as_written(entry):
            self._segment = (self._segment[0] if self._segment else entry.number, entry.number)
            named = self.anchors.get(entry.number, set())
            if entry.hash in named:
                self._vouched = entry.number
            if named - {entry.hash}:
                self._add_problem("differs from the anchored entry", entry.number)
            self._note_retention_or_case(entry)
        else:
            self._end_segment()
            _add(self.unanchored, entry.number, entry.number)
        self.first = self.first or entry
        self.last = entry
        self.entries += 1

    def _is_linked(self, entry: LogRecord) -> bool:
        """Whether an entry follows the one before it. The front of the log is checked at the end."""
        before = self.last
        if before is None:
            return True
        if entry.number != before.number + 1:
            self._missing(before.number + 1, entry.number - 1)
            return False
        if entry.previous != before.hash:
            self._add_problem("does not follow the entry before it", entry.number)
            return False
        return True

    def _is_as_written(self, entry: LogRecord) -> bool:
        if self.key is None:
            return True  # a missing key is reported once, for all entries
        if entry.key_id != self.key.id:
            self._add_problem(f"was written with another key ({entry.key_id}), or changed", entry.number)
            return False
        if entry.hash != entry.expected_seal(self.key.seal):
            self._add_problem("was changed", entry.number)
            return False
        return True

    def _note_retention_or_case(self, entry: LogRecord) -> None:
        if entry.verb == RETENTION:
            with suppress(ValueError, KeyError, TypeError):  # changed by hand, if no key proves otherwise
                details = json.loads(entry.details)
                self.removed = (int(details["removed_to"]), str(details["hash"]))
        elif entry.verb == CASE and entry.request is not None:
            self.cases.add(entry.request)

    def take_cases(self, cases: Iterable[CaseRecord]) -> None:
        """Checks cases. Each is sealed; the log records which were opened."""
        known = set()
        for case in cases:
            known.add(case.reference)
            if self.key is not None and case.seal != case.expected_seal(self.key.seal):
                self._add_problem(f"the case '{case.reference}' was changed by hand")
        for reference in sorted(self.cases - known):
            self._add_problem(f"the case '{reference}' was removed by hand")

    # --- result -----------------------------------------------------------------------------------------------

    def verdict(self, path: Path) -> LogVerdict:
        """The verdict after all entries were checked."""
        self._end_segment()
        self._look_at_the_front()
        self._look_at_the_tail()
        if self.entries and self.key is None:
            self._add_problem("the key of this home is lost: whether entries were changed cannot be checked without it")
        if self.entries and not self.anchors:
            self._add_problem(
                f"there are no anchors in '{path}': whether the tail of the log was cut off cannot be determined"
            )
        known = self.key is not None
        return LogVerdict(
            entries=self.entries,
            first=None if self.first is None else self.first.number,
            last=None if self.last is None else self.last.number,
            head=None if self.last is None else self.last.hash,
            removed=self.removed[0],
            anchored=tuple(self.anchored) if known else (),
            unanchored=tuple(self.unanchored) if known else (),
            problems=tuple(sorted(self.problems, key=lambda each: each.number or 0)),
            notes=tuple(self.notes),
        )

    def _look_at_the_front(self) -> None:
        number, hash_ = self.removed
        if any(anchor != hash_ for anchor in self.anchors.get(number, ())):
            self._add_problem("was removed by retention, and differs from the anchored entry", number)
        if self.first is None:
            return
        if self.first.number > number + 1:
            self._missing(number + 1, self.first.number - 1)
        elif self.first.number <= number:
            self._add_problem("was removed by retention, and is there again", self.first.number)
        elif self.first.previous != hash_:
            self._add_problem("does not follow the entry before it, which is no longer there", self.first.number)

    def _look_at_the_tail(self) -> None:
        last = 0 if self.last is None else self.last.number
        named = max(self.anchors, default=0)
        if named > last:
            self._missing(last + 1, named, ": the tail was cut off behind an anchored entry")

    def _end_segment(self) -> None:
        """Ends a run of linked entries. Entries up to its last anchor are covered."""
        if self._segment is not None:
            first, last = self._segment
            _add(self.anchored, first, self._vouched)
            _add(self.unanchored, max(first, self._vouched + 1), last)
        self._segment, self._vouched = None, 0

    def _missing(self, first: int, last: int, why: str = "") -> None:
        self._add_problem(
            f"is missing{why}" if first == last else f"and all up to entry {last} are missing{why}", first
        )

    def _add_problem(self, what: str, number: int | None = None) -> None:
        self.problems.append(LogProblem(what, number))


def _add(ranges: list[Range], first: int, last: int) -> None:
    if first > last:
        return
    if ranges and ranges[-1][1] == first - 1:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
