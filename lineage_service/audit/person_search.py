"""Finds a person's rows in every source that declares their kind, in every held run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import NotFound, StoreError, did_you_mean, join_names
from lineage_service.query.lineage_graph import Place
from lineage_service.query.questions import Questions
from lineage_service.store.duckdb_engine import column, file_literal
from lineage_service.store.home_key import VARIABLE, HomeKey, existing_key, home_key
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID
from lineage_service.store.versions import has_changed
from lineage_service.subjects.hashing import canonical_input, canonical_text, keyed_hash
from lineage_service.subjects.subject_arguments import Subject
from lineage_service.subjects.subject_index import DeclaredSubject, Layer, declared_subjects, layers_of


@dataclass(frozen=True)
class PersonRows:
    """Rows of a run's source that belong to the requested persons. `declared_by` is another source that read the same
    rows and declares their persons, if this one does not.
    """

    dataset: DatasetRecord
    rids: Ids
    declared_by: DatasetRecord | None = None


@dataclass(frozen=True)
class UnsearchedSource:
    """A source that could not be searched, with the reason."""

    dataset: DatasetRecord
    reason: str


@dataclass
class SubjectRows:
    """The rows of persons.

    found: rows per source and run
    unsearched: sources that could not be searched
    hashes: hashes of the persons, by kind, as the sources have them; a person in two sources of different types may
    have two
    """

    found: list[PersonRows] = field(default_factory=list)
    unsearched: list[UnsearchedSource] = field(default_factory=list)
    hashes: dict[str, set[str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(each.rids) for each in self.found)


def rows_of_subjects(ask: Questions, key: HomeKey, subjects: Sequence[Subject]) -> SubjectRows:
    """The rows of these persons in every held run. Raises NotFound for a kind that no source declares."""
    kinds = {declared.kind for _, declared in _declaring_sources(ask)}
    _refuse_unknown(subjects, kinds, str(ask.home.path))
    return _search_sources(
        ask, _Finder(ask, key, lambda dataset, declared: _hashes(ask, key, subjects, dataset, declared))
    )


def rows_of_hashes(ask: Questions, key: HomeKey, hashes: Mapping[str, Collection[str]]) -> SubjectRows:
    """The same for persons given by keyed hashes, by kind, in hexadecimal."""
    wanted = {kind: [bytes.fromhex(each) for each in sorted(texts)] for kind, texts in hashes.items()}
    return _search_sources(ask, _Finder(ask, key, lambda _, declared: wanted.get(declared.kind, [])))


def _declaring_sources(ask: Questions) -> Iterator[tuple[DatasetRecord, DeclaredSubject]]:
    for run in ask.reader.runs():
        for dataset in ask.graph.datasets(run.id):
            if dataset.role == "source":
                yield from ((dataset, declared) for declared in declared_of(dataset))


def _search_sources(ask: Questions, finder: _Finder) -> SubjectRows:
    answer, parts = SubjectRows(), dict[DatasetRecord, list[Ids]]()
    for dataset, declared in _declaring_sources(ask):
        rids, reason = finder.rids(dataset, declared)
        if reason is not None:
            answer.unsearched.append(UnsearchedSource(dataset, reason))
        elif len(rids):
            parts.setdefault(dataset, []).append(rids)
    answer.found = [PersonRows(dataset, np.unique(np.concatenate(found))) for dataset, found in parts.items()]
    answer.found = _add_shared_rows(ask, answer.found)
    answer.hashes = finder.matched
    return answer


def _add_shared_rows(ask: Questions, person_rows: list[PersonRows]) -> list[PersonRows]:
    """Adds the same rows in sources that read the same files and do not declare persons."""
    # Sources of one version may declare persons in different columns, and so know different rows.
    by_version: dict[str, PersonRows] = {}
    for each in person_rows:
        before = by_version.setdefault(each.dataset.version_id, each)
        by_version[each.dataset.version_id] = replace(before, rids=np.union1d(before.rids, each.rids))
    more: dict[DatasetRecord, PersonRows] = {}
    known = {each.dataset: each for each in person_rows}
    for one in by_version.values():
        begin = Place(one.dataset.run_id, one.dataset.space)
        for run in ask.reader.runs():
            for source in ask.graph.sources(run.id):
                shared = ask.graph.shared_rows(begin, Place(source.run_id, source.space))
                rids = shared.translate(one.rids) if shared is not None else _no_ids()
                if not len(rids):
                    continue
                there = more.get(source) or known.get(source)
                if there is None:
                    more[source] = PersonRows(source, rids, one.dataset)
                elif len(np.setdiff1d(rids, there.rids)):
                    more[source] = replace(there, rids=np.union1d(there.rids, rids))
    return [*(more.pop(each.dataset, each) for each in person_rows), *more.values()]


def declared_of(dataset: DatasetRecord) -> list[DeclaredSubject]:
    """The persons that a source's workflow declares."""
    return declared_subjects(dataset.name, json.loads(dataset.declared).get("subject"))


def required_key(ask: Questions) -> HomeKey:
    """The home's key. Raises StoreError if it is lost, because hashes of earlier runs could not be computed again."""
    key = existing_key(ask.home)
    if key is None:
        raise StoreError(
            f"the home '{ask.home.path}' has no key: persons cannot be identified by their hashes",
            hint=f"restore 'audit.key' from a backup, or give it by {VARIABLE}",
        )
    return key


def key_for_persons(ask: Questions) -> HomeKey:
    """The home's key; created if no person was ever recorded. Raises StoreError if it is lost."""
    if existing_key(ask.home) is None and not any(
        ask.reader.subjects(each.version_id)
        for run in ask.reader.runs()
        for each in ask.graph.datasets(run.id)
        if each.role == "source"
    ):
        return home_key(ask.home)
    return required_key(ask)


def _refuse_unknown(subjects: Sequence[Subject], kinds: set[str], home: str) -> None:
    for subject in subjects:
        if subject.kind not in kinds:
            raise NotFound(
                f"no source of a run in the home '{home}' declares a subject of the kind '{subject.kind}'; "
                f"kinds: {join_names(sorted(kinds))}",
                hint=did_you_mean(subject.kind, kinds),
            )


def _hashes(
    ask: Questions, key: HomeKey, subjects: Sequence[Subject], dataset: DatasetRecord, declared: DeclaredSubject
) -> list[bytes]:
    """The persons' hashes, with values parsed as the type of the source's column. A value that is not of that type
    occurs in no row.
    """
    values = [each.value for each in subjects if each.kind == declared.kind]
    if not values:
        return []
    columns = ask.scan(dataset).version.columns
    kind = next((each.type for each in columns if each.name.lower() == declared.column.lower()), "string")
    query, found = f"SELECT {canonical_input(kind)}", []
    for value in values:
        rows = ask.engine.rows(query, [value] * query.count("?"))
        if rows[0][0] is not None:
            found.append(key.subject(declared.kind, str(rows[0][0])))
    return found


@dataclass
class _Finder:
    """Finds persons in sources. `wanted` returns their hashes for a source."""

    ask: Questions
    key: HomeKey
    wanted: Callable[[DatasetRecord, DeclaredSubject], Sequence[bytes]]
    matched: dict[str, set[str]] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], tuple[Ids, str | None]] = field(default_factory=dict)

    def rids(self, dataset: DatasetRecord, declared: DeclaredSubject) -> tuple[Ids, str | None]:
        """The rids of the persons' rows, or the reason why they are unknown. Runs that read one version are searched
        once.
        """
        key = (dataset.version_id, declared.kind, declared.column)
        if key not in self._known:
            hashes = self.wanted(dataset, declared)
            self._known[key] = self._search_index(dataset, declared, hashes) if hashes else (_no_ids(), None)
        return self._known[key]

    def _search_index(
        self, dataset: DatasetRecord, declared: DeclaredSubject, hashes: Sequence[bytes]
    ) -> tuple[Ids, str | None]:
        records = self.ask.reader.subjects(dataset.version_id)
        same = (each for each in records if (each.kind, each.column) == (declared.kind, declared.column))
        record = next(same, None)
        if record is None:
            return self._scan_source(dataset, declared, hashes)
        if record.key_id != self.key.id:
            return _no_ids(), "its persons were recorded with another key"
        parts = [self._in_layer(layer, declared.kind, hashes) for layer in layers_of(record)]
        return np.unique(np.concatenate([_no_ids(), *parts])), None

    def _in_layer(self, layer: Layer, kind: str, hashes: Sequence[bytes]) -> Ids:
        absolute, engine = self.ask.home.absolute, self.ask.engine
        persons = f"read_parquet({file_literal(absolute(layer.persons))})"
        parts = [_no_ids()]
        # One by one: an equality predicate skips row groups that cannot contain the value.
        for value in hashes:
            numbers = engine.rows(f"SELECT person FROM {persons} WHERE hash = unhex('{value.hex()}')")
            if not numbers:
                continue
            rows = f"SELECT b FROM read_parquet({file_literal(absolute(layer.rows))}) WHERE a = {numbers[0][0]}"
            if layer.without:
                gone = ", ".join(file_literal(absolute(path)) for path in layer.without)
                rows = f"SELECT b FROM ({rows}) x ANTI JOIN read_parquet([{gone}]) gone ON gone.a = x.b"
            found = _ids(self.ask, rows)
            if len(found):
                self.matched.setdefault(kind, set()).add(value.hex())
            parts.append(found)
        return np.concatenate(parts)

    def _scan_source(
        self, dataset: DatasetRecord, declared: DeclaredSubject, hashes: Sequence[bytes]
    ) -> tuple[Ids, str | None]:
        """For a run made before persons were recorded: scans the source itself, if it is still readable."""
        scan = self.ask.scan(dataset)
        if scan.version.kind == "source" and any(
            has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True)
        ):
            return _no_ids(), "the run recorded no persons, and the source's files have changed since"
        own = next((c for c in scan.version.columns if c.name.lower() == declared.column.lower()), None)
        if own is None:
            return _no_ids(), f"it has no column '{declared.column}'"
        wanted = ", ".join(f"unhex('{value.hex()}')" for value in hashes)
        text = keyed_hash(declared.kind, canonical_text(column(own.name), own.type))
        query = f"SELECT {RID}, hash FROM (SELECT {RID}, {text} AS hash FROM ({scan.select([own.name])}))"
        pads = [pad for _ in range(text.count("?") // 2) for pad in self.key.pads]
        rows = self.ask.engine.rows(f"{query} WHERE hash IN ({wanted})", pads)
        for _, value in rows:
            self.matched.setdefault(declared.kind, set()).add(bytes(value).hex())
        return np.unique(np.array([rid for rid, _ in rows], np.int64)), None


def _ids(ask: Questions, query: str) -> Ids:
    found: Ids = ask.engine.id_array(query).to_numpy(zero_copy_only=False).astype("int64")
    return found


def _no_ids() -> Ids:
    return np.array([], np.int64)


def refuse_nobody(rows: SubjectRows, subjects: Sequence[Subject]) -> None:
    """Raises NotFound if no source has a row of these persons and all sources could be searched."""
    if not rows.found and not rows.unsearched:
        kinds = join_names(sorted({each.kind for each in subjects}))
        raise NotFound(
            f"no row of any held run is about this person ({kinds})",
            hint="check the value, and that a source declares this kind",
        )
