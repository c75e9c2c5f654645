"""Detects erased persons who are in a source again when a workflow reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from lineage_catalog.records import SubjectRecord

from lineage_service.errors import Position, Problem, RunError, StoreError
from lineage_service.spec.models import SourceSpec
from lineage_service.spec.yaml_tree import YamlPositions
from lineage_service.store.compaction import compact_version
from lineage_service.store.duckdb_engine import column, open_duckdb
from lineage_service.store.home_key import VARIABLE, HomeKey, existing_key, home_key, lost_key
from lineage_service.store.layout import HomeLayout, RunFolder
from lineage_service.store.shared_rows import with_record_numbers
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version
from lineage_service.subjects.hashing import canonical_text, keyed_hash
from lineage_service.subjects.source_indexing import Known, existing_index, scan_of
from lineage_service.subjects.subject_index import (
    DeclaredSubject,
    SubjectIndex,
    declared_subjects,
    layers_of,
    owners_query,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def is_on_legal_hold(spec: SourceSpec) -> bool:
    """Whether a legal hold prevents erasures from a source today."""
    hold = spec.legal_hold
    return hold is not None and (hold.until is None or str(hold.until) >= datetime.now(UTC).date().isoformat())


def reappearance_problem(name: str, on_erased: str, persons: int, rows: int, at: Position | None = None) -> Problem:
    """The problem to report for erased persons who are in a source again."""
    who = "a person who was erased is" if persons == 1 else f"{persons:,} persons who were erased are"
    what = {"fail": "", "warn": "; they were read nevertheless", "drop": "; they were left out"}[on_erased]
    message = f"source '{name}': {who} in the data again, with {rows:,} {'row' if rows == 1 else 'rows'}{what}"
    hint = None
    if on_erased == "fail":
        hint = "remove the rows where they come from, or say `on_erased: drop` to leave them out"
    return Problem(message, at, hint, "error" if on_erased == "fail" else "warning")


def rows_of_erased(
    connection: DuckDBPyConnection,
    key: HomeKey,
    declared: DeclaredSubject,
    scan: VersionScan,
    added: Ids,
    erased: Collection[str],
) -> tuple[Ids, int]:
    """Among the added rows of a source, those of erased persons, and the number of these persons."""
    own = next((each for each in scan.version.columns if each.name.lower() == declared.column.lower()), None)
    if own is None or not len(added) or not erased:
        return added[:0], 0
    wanted = ", ".join(f"unhex('{each}')" for each in sorted(erased))
    text = keyed_hash(declared.kind, canonical_text(column(own.name), own.type))
    connection.register("rows_that_came", pa.table({"b": pa.array(added, pa.int64())}))
    try:
        rows = connection.execute(
            f"SELECT {RID}, hash FROM (SELECT {RID}, {text} AS hash FROM ({scan.select([own.name])}) t "
            f"SEMI JOIN rows_that_came c ON c.b = t.{RID}) WHERE hash IN ({wanted})",
            [*key.pads],
        ).fetchall()
    finally:
        connection.unregister("rows_that_came")
    return np.unique(np.array([row[0] for row in rows], np.int64)), len({bytes(row[1]) for row in rows})


def key_of_erased(home: HomeLayout, erased: Mapping[str, str]) -> HomeKey:
    """The home's key. Raises StoreError if persons were erased under a key that is lost, because their return could not
    be detected.
    """
    if erased and existing_key(home) is None:
        raise lost_key(home)
    key = home_key(home)
    if set(erased.values()) - {key.id}:
        raise StoreError(
            f"persons were erased from the home '{home.path}' under another key than it has now: whether they are in "
            "the data again cannot be determined",
            hint=f"restore 'audit.key' from a backup, or give it by {VARIABLE}",
        )
    return key


@dataclass
class ErasedPersonCheck:
    """Searches for erased persons in the sources of one run, and applies the policy of each source."""

    folder: RunFolder
    known: Known
    erased: Callable[[str], Mapping[str, str]]  # hashes of a kind, with the ids of their keys
    marks: YamlPositions
    records: list[SubjectRecord] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def versions_to_read(self, specs: Mapping[str, SourceSpec], versions: Mapping[str, Version]) -> dict[str, Version]:
        """The versions to read, by source. Raises RunError for all sources with `on_erased: fail` that contain erased
        persons.
        """
        kept, failed = dict(versions), list[Problem]()
        for name, spec in specs.items():
            declared = [each for each in declared_subjects(name, spec.subject) if self.erased(each.kind)]
            if not declared or is_on_legal_hold(spec):
                continue
            for each in declared:
                key_of_erased(self.folder.home, self.erased(each.kind))
            made = [self._index(each, versions[name]) for each in declared]
            rids, persons = self._rows(made)
            if not persons:
                self.records += made
                continue
            problem = reappearance_problem(name, spec.on_erased, persons, len(rids), self.marks.at("sources", name))
            if spec.on_erased == "fail":
                failed.append(problem)
                continue
            self.warnings.append(problem)
            if spec.on_erased == "warn":
                self.records += made
                continue
            kept[name] = self._without(name, versions[name], rids)
            self.records += [self._index_of_remaining(each, kept[name]) for each in made]
            self._remove([file.path for file in versions[name].files], [file.path for file in kept[name].files])
            self._remove([path for each in made for layer in layers_of(each) for path in (layer.persons, layer.rows)])
        if failed:
            raise RunError(failed)
        return kept

    def _index(self, declared: DeclaredSubject, version: Version) -> SubjectRecord:
        key = home_key(self.folder.home)
        found = existing_index(declared, version, self.known, key)
        if found is not None:
            return found
        with open_duckdb(self.folder.temporary / "spill") as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return SubjectIndex(connection, self.folder, key).of_version(declared, scan_of(self.folder, version))

    def _rows(self, records: list[SubjectRecord]) -> tuple[Ids, int]:
        """The rids of erased persons' rows, and the number of these persons."""
        parts, persons = [np.array([], np.int64)], 0
        with open_duckdb(self.folder.temporary / "spill") as connection:
            for record in records:
                hashes = ", ".join(f"unhex('{each}')" for each in sorted(self.erased(record.kind)))
                query = owners_query(layers_of(record), self.folder.home.absolute, hashes)
                rows = connection.execute(query).fetchall()
                persons += len({row[0] for row in rows})
                parts.append(np.array([row[1] for row in rows], np.int64))
        return np.unique(np.concatenate(parts)), persons

    def _without(self, name: str, version: Version, rids: Ids) -> Version:
        patcher = Patcher(self.folder)
        patched = patcher.patch_version(version, rids, [])
        marks = f"{version.id} without {hashlib.sha256(rids.tobytes()).hexdigest()}"
        # The same files without the same rows are the same version, in every run.
        patched = replace(patched, id=hashlib.sha256(marks.encode()).hexdigest()[:32])
        kept = compact_version(patched, patcher, self.folder.snapshot(name))
        return with_record_numbers(patcher, version, kept, rids) if kept.origins else kept

    def _index_of_remaining(self, record: SubjectRecord, version: Version) -> SubjectRecord:
        with open_duckdb(self.folder.temporary / "spill") as connection:
            index = SubjectIndex(connection, self.folder, home_key(self.folder.home))
            rids = scan_of(self.folder, version).all_rids()
            return index.restrict_to(record, version.id, rids, self.folder.home.absolute)

    def _remove(self, paths: Sequence[str], used: Sequence[str] = ()) -> None:
        """Removes temporary files of this run that contain the rows left out."""
        for path in paths:
            absolute = Path(self.folder.home.absolute(path))
            if path not in used and absolute.is_relative_to(self.folder.path):
                absolute.unlink(missing_ok=True)
