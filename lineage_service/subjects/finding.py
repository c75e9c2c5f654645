"""A person's rows: of every source that declares their kind, in every run that is held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from lineage_catalog.records import DatasetRecord, RunRecord, SubjectRecord

from lineage_service.errors import NotFound, StoreError, did_you_mean, listed
from lineage_service.query.ask import Questions
from lineage_service.query.engine import reading_index
from lineage_service.store.engine import column, file_literal
from lineage_service.store.patching import Ids
from lineage_service.store.scan import RID
from lineage_service.store.versions import has_changed
from lineage_service.subjects.given import Subject
from lineage_service.subjects.hashing import canonical, canonical_of_text
from lineage_service.subjects.index import Declared, Layer, declared_subjects, layers_of
from lineage_service.subjects.key import VARIABLE, Key, existing_key


@dataclass(frozen=True)
class Found:
    """Rows of a run's source that are about the persons asked for."""

    dataset: DatasetRecord
    rids: Ids


@dataclass(frozen=True)
class Unlooked:
    """A source that could not be looked into, and why."""

    dataset: DatasetRecord
    reason: str


@dataclass
class SubjectRows:
    """found: per source and run · unlooked: what could not be looked into · hashes: of the persons, by kind, as the
    sources know them; a person in two sources of unlike types may have two."""

    found: list[Found] = field(default_factory=list)
    unlooked: list[Unlooked] = field(default_factory=list)
    hashes: dict[str, set[str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(each.rids) for each in self.found)


def rows_of_subjects(
    ask: Questions, key: Key, subjects: Sequence[Subject], runs: Sequence[RunRecord] | None = None
) -> SubjectRows:
    """The rows of these persons in every held run (or these). QuestionError for a kind that nobody declares."""
    finder = _Finder(ask, key, subjects)
    held = ask.reader.runs() if runs is None else runs
    answer, kinds = SubjectRows(), set[str]()
    for run in held:
        for dataset in ask.graph.datasets(run.id):
            if dataset.role != "source":
                continue
            parts = []
            for declared in declared_of(dataset):
                kinds.add(declared.kind)
                if not any(each.kind == declared.kind for each in subjects):
                    continue
                rids, reason = finder.rids(dataset, declared)
                if reason is not None:
                    answer.unlooked.append(Unlooked(dataset, reason))
                elif len(rids):
                    parts.append(rids)
            if parts:
                answer.found.append(Found(dataset, np.unique(np.concatenate(parts))))
    if runs is None:
        _refuse_unknown(subjects, kinds, str(ask.home.path))
    answer.hashes = finder.matched
    return answer


def declared_of(dataset: DatasetRecord) -> list[Declared]:
    """What a source's workflow says of the persons in it."""
    return declared_subjects(dataset.name, json.loads(dataset.declared).get("subject"))


def required_key(ask: Questions) -> Key:
    """The home's key. StoreError where it is lost: hashes of earlier runs can then not be made again."""
    key = existing_key(ask.home)
    if key is None:
        raise StoreError(
            f"the home '{ask.home.path}' has no key: persons cannot be told by their hashes",
            hint=f"restore 'audit.key' from a backup, or give it by {VARIABLE}",
        )
    return key


def _refuse_unknown(subjects: Sequence[Subject], kinds: set[str], home: str) -> None:
    for subject in subjects:
        if subject.kind not in kinds:
            raise NotFound(
                f"no source of a run in the home '{home}' declares a subject of the kind '{subject.kind}'; "
                f"kinds: {listed(sorted(kinds))}",
                hint=did_you_mean(subject.kind, kinds),
            )


@dataclass
class _Finder:
    ask: Questions
    key: Key
    subjects: Sequence[Subject]
    matched: dict[str, set[str]] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], tuple[Ids, str | None]] = field(default_factory=dict)
    _records: dict[str, list[SubjectRecord]] = field(default_factory=dict)

    def rids(self, dataset: DatasetRecord, declared: Declared) -> tuple[Ids, str | None]:
        """The rids of the persons' rows; or why they cannot be told. Runs that read one version are looked at once."""
        key = (dataset.version_id, declared.kind, declared.column)
        if key not in self._known:
            self._known[key] = self._looked(dataset, declared)
        return self._known[key]

    def _looked(self, dataset: DatasetRecord, declared: Declared) -> tuple[Ids, str | None]:
        texts = self._texts(dataset, declared)
        if not texts:
            return _none(), None
        if dataset.version_id not in self._records:
            self._records[dataset.version_id] = self.ask.reader.subjects(dataset.version_id)
        record = next(
            (
                each
                for each in self._records[dataset.version_id]
                if each.kind == declared.kind and each.column == declared.column
            ),
            None,
        )
        if record is None:
            return self._scanned(dataset, declared, texts)
        if record.key_id != self.key.id:
            return _none(), "its persons were noted with another key"
        parts = [self._in_layer(layer, declared.kind, texts) for layer in layers_of(record)]
        return np.unique(np.concatenate([_none(), *parts])), None

    def _texts(self, dataset: DatasetRecord, declared: Declared) -> list[str]:
        """The persons' values as text of the source's column; one that is none of its type is in no row."""
        kind = next(
            (
                each.type
                for each in self.ask.scan(dataset).version.columns
                if each.name.lower() == declared.column.lower()
            ),
            "string",
        )
        query = f"SELECT {canonical_of_text(kind)}"
        count = query.count("?")
        found = []
        for subject in self.subjects:
            if subject.kind == declared.kind:
                rows = self.ask.engine.connection.execute(query, [subject.value] * count).fetchall()
                if rows[0][0] is not None:
                    found.append(str(rows[0][0]))
        return found

    def _in_layer(self, layer: Layer, kind: str, texts: Sequence[str]) -> Ids:
        absolute, engine = self.ask.home.absolute, self.ask.engine
        hashes = [self.key.subject(kind, text) for text in texts]
        persons = f"read_parquet({file_literal(absolute(layer.persons))})"
        numbers: list[int] = []
        with reading_index(self.ask.home.path):
            # One by one: a comparison with one value passes over the row groups that cannot hold it.
            for value in hashes:
                rows = engine.rows(f"SELECT person FROM {persons} WHERE hash = unhex('{value.hex()}')")
                if rows:
                    numbers.append(rows[0][0])
                    self.matched.setdefault(kind, set()).add(value.hex())
        parts = [_none()]
        for number in numbers:
            rows_of = f"SELECT b FROM read_parquet({file_literal(absolute(layer.rows))}) WHERE a = {number}"
            if layer.without:
                gone = ", ".join(file_literal(absolute(path)) for path in layer.without)
                rows_of = f"SELECT b FROM ({rows_of}) x ANTI JOIN read_parquet([{gone}]) gone ON gone.a = x.b"
            parts.append(_ids(self.ask, rows_of))
        return np.concatenate(parts)

    def _scanned(self, dataset: DatasetRecord, declared: Declared, texts: Sequence[str]) -> tuple[Ids, str | None]:
        """Of a run that was made before persons were noted: the source itself is looked through, if it still can be."""
        scan = self.ask.scan(dataset)
        if scan.version.kind == "source" and any(
            has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True)
        ):
            return _none(), "the run noted no persons, and the source's files have changed since"
        own = next((c for c in scan.version.columns if c.name.lower() == declared.column.lower()), None)
        if own is None:
            return _none(), f"it has no column '{declared.column}'"
        text = canonical(column(own.name), own.type)
        marks = ", ".join("?" for _ in texts)
        query = f"SELECT {RID}, {text} FROM ({scan.select([own.name])}) WHERE {text} IN ({marks})"
        rows = self.ask.engine.connection.execute(query, list(texts)).fetchall()
        for _, value in rows:
            self.matched.setdefault(declared.kind, set()).add(self.key.subject(declared.kind, value).hex())
        return np.unique(np.array([rid for rid, _ in rows], np.int64)), None


def _ids(ask: Questions, query: str) -> Ids:
    found: Ids = ask.engine.id_array(query).to_numpy(zero_copy_only=False).astype("int64")
    return found


def _none() -> Ids:
    return np.array([], np.int64)


def refuse_nobody(rows: SubjectRows, subjects: Sequence[Subject]) -> None:
    """NotFound where no source that was looked into has a row of these persons."""
    if not rows.found:
        kinds = listed(sorted({each.kind for each in subjects}))
        raise NotFound(
            f"no row of any held run is about the person given ({kinds})",
            hint="is the value right, and of the kind that the source declares?",
        )
