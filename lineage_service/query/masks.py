"""Masks of personal data: which columns of a dataset are masked, the masked values, and what a question hid or
revealed.

A column is masked if its workflow declares it as `pii` or if the mark was propagated to it: through the run's columns,
the version's columns, or the output that a source reads. One of these is sufficient.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.equivalence.intervals import printed_interval
from lineage_service.errors import QuestionError, join_names
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.version_scan import VersionScan

MASK = "•••"
HINT = "--reveal allows it, and is logged"
Masked = frozenset[str]  # column names in lower case
NONE: Masked = frozenset()
_TEXT = ("string", "varchar", "char")


class _Ledger(threading.local):
    """The columns that this thread's current question hid, and the datasets that it revealed."""

    def __init__(self) -> None:
        self.hid: dict[str, None] = {}
        self.revealed: dict[str, None] = {}
        self.log_notes: list[str] = []  # results of logging the reveals


@dataclass
class Masks:
    """The masks of a home's datasets, cached per dataset. `scan` returns a dataset's version under its own column
    names.

    Records what a question hides and reveals. Callers must call `start` before each question.
    """

    reader: CatalogReader
    scan: Callable[[DatasetRecord], VersionScan]
    _ledger: _Ledger = field(default_factory=_Ledger)
    _known: dict[tuple[str, str], Masked] = field(default_factory=dict)
    _marked: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def of(self, dataset: DatasetRecord) -> Masked:
        """The masked columns of a dataset, independent of the user. No other code decides which columns are masked."""
        key = (dataset.run_id, dataset.name)
        if key not in self._known:
            self._known[key] = frozenset(self._find_masked_columns(dataset))
        return self._known[key]

    def over(self, dataset: DatasetRecord, *, reveal: bool) -> Masked:
        """The columns that a question must mask. Empty if it reveals; the reveal is recorded."""
        masked = self.of(dataset)
        if masked and reveal:
            self.note_revealed(dataset)
        return NONE if reveal else masked

    def note_revealed(self, dataset: DatasetRecord) -> None:
        self._ledger.revealed[f"{dataset.full_name}@{dataset.run_id}"] = None

    def note_hidden(self, names: Iterable[str]) -> None:
        self._ledger.hid |= dict.fromkeys(names)

    def start(self) -> None:
        """Resets the record of hidden and revealed data before a question."""
        self._ledger.hid.clear()
        self._ledger.revealed.clear()
        self._ledger.log_notes.clear()

    def note_logged(self, notes: Iterable[str]) -> None:
        """Records messages about the log entry of a reveal, such as a failed anchor."""
        self._ledger.log_notes += notes

    def take_revealed(self) -> list[str]:
        """The datasets that a question revealed and that were not returned before."""
        found = list(self._ledger.revealed)
        self._ledger.revealed.clear()
        return found

    @property
    def notes(self) -> list[str]:
        """The notes to show beside an answer with masked values."""
        hid = self._ledger.hid
        masked = [f"masked: {join_names(hid)} (--reveal shows them, and is logged)"] if hid else []
        return [*masked, *self._ledger.log_notes]

    def _find_masked_columns(self, dataset: DatasetRecord) -> Iterable[str]:
        declared = json.loads(dataset.declared)
        yield from (name.lower() for name in declared.get("pii") or ())
        yield from self._pii_columns_of_run(dataset.run_id).get(dataset.name, ())
        yield from (each.name.lower() for each in self.scan(dataset).version.columns if each.pii)
        if dataset.role == "source":
            renamed = {old.lower(): new.lower() for old, new in (declared.get("rename") or {}).items()}
            for maker in self.reader.makers_of([dataset.version_id]):
                yield from (renamed.get(name, name) for name in self.of(maker))

    def _pii_columns_of_run(self, run_id: str) -> dict[str, set[str]]:
        if run_id not in self._marked:
            found: dict[str, set[str]] = {}
            for each in self.reader.columns(run_id):
                if each.pii:
                    found.setdefault(each.dataset, set()).add(each.name.lower())
            self._marked[run_id] = found
        return self._marked[run_id]


def masked_value(expression: str, spark_type: str) -> str:
    """SQL of the masked value: `•••` for a text, otherwise a null of the same type."""
    if spark_type.lower().startswith(_TEXT):
        return f"CASE WHEN {expression} IS NOT NULL THEN {literal(MASK)} END"
    return f"CASE WHEN false THEN {expression} END"


def masked_item(value: Any) -> str | None:
    """The masked form of a Python value."""
    return MASK if isinstance(value, str) else None


def shown_columns(
    names: Collection[str], scan: VersionScan, masked: Masked, table: str = "", *, printed: bool = True
) -> dict[str, str]:
    """The SQL of each of these columns of a version, masked if they are in `masked`. `table` is the qualifier.

    printed: the rows are as stored, and intervals become text
    """
    kinds = {each.name: each.type for each in scan.version.columns}
    shown = {}
    for name in names:
        value = f"{table}{column(name)}"
        value = (printed_interval(value, kinds[name]) if printed else None) or value
        shown[name] = masked_value(value, kinds[name]) if name.lower() in masked else value
    return shown


def refuse_masked(names: Iterable[str], masked: Masked, dataset: str, what: str) -> None:
    """Raises QuestionError if one of these columns is masked: an answer that depends on its values would disclose
    them.
    """
    for name in names:
        if name.lower() in masked:
            raise QuestionError(f"column '{name}' of '{dataset}' is masked: {what}", hint=HINT)
