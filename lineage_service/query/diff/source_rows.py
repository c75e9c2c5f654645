"""The source rows behind the changes of a diff: those behind one row only, or behind both with different values.

They are computed for all changes at once, one source at a time. The walk of each run yields pairs (change, source row),
which are matched by the identity of a source row in both versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import DamagedFile, SourceError, StoreError
from lineage_service.query.answer_shape import AnswerShape
from lineage_service.query.changed_files import refuse_changed
from lineage_service.query.diff import diff_sql as sql
from lineage_service.query.diff.diff_result import Behind, Counts, Row, RowBehind, RowsByRid, SourceIdentity
from lineage_service.query.diff.row_keys import (
    RowKey,
    Versions,
    column_key,
    given_key,
    grouped_by,
    grouping_key,
    require_unique,
    subject_key,
    tuples,
    versions_of,
)
from lineage_service.query.diff.source_pairs import Origins, SourcePair, place_of_dataset
from lineage_service.query.lineage_graph import Way
from lineage_service.query.masks import NONE, refuse_masked
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start, has_intervals
from lineage_service.store.checksums import verify

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.query.diff.window_rows import Elsewhere
    from lineage_service.query.moving_rows import MovingRows
    from lineage_service.store.version_patcher import Ids

NO_LONGER_THERE = "rows of this version are no longer there (snapshot: true keeps them)"
ONE_RUN_ONLY = "only the run {} reads it"


class BehindChanges:
    """Finds the rows behind the changes in a table (n, rid_before, rid_after); at most `rows` per source are shown."""

    def __init__(
        self,
        questions: Questions,
        before: Origins,
        after: Origins,
        changes: str,
        rows: int,
        *,
        reveal: bool,
        tolerance: float,
    ) -> None:
        self.questions, self.engine = questions, questions.engine
        self.before, self.after = before, after
        self.changes, self.rows, self.reveal = changes, rows, reveal
        self.tolerance = tolerance

    def of_source(self, pair: SourcePair, key: Sequence[str] | None) -> tuple[SourceIdentity, dict[int, Behind]]:
        """How rows of the source are identified, and the rows behind each change (by its number n)."""
        absent = self.before.by_absence(pair.before) or self.after.by_absence(pair.after)
        contributes = self.before.contributes(pair.before) or self.after.contributes(pair.after)
        with temporary_tables(self.engine) as tables:
            identity, versions = self._identity(pair, key, absent=absent)
            if not self.reveal:
                sides = [each for each in (pair.before, pair.after) if each is not None]
                identity = replace(identity, masked=NONE.union(*map(self.questions.masks.of, sides)))
            if not contributes:
                return identity, {}
            if self._reads_windows(pair):
                return identity, self._behind_over_windows(pair, identity, versions, tables)
            pairs = (
                tables.keep(self._pairs(pair.before, self.before, "rid_before", tables)),
                tables.keep(self._pairs(pair.after, self.after, "rid_after", tables)),
            )
            contributing = self._contributing(pairs)
            if identity.identity is None and pair.before is not None and pair.after is not None:
                return identity, {n: Behind(identity, None, both) for n, both in contributing.items()}
            behind = tables.keep(self._behind(pair, identity, versions, pairs, tables))
            shown = tables.keep(sql.shown_behind_sql(behind, self.rows))
            counts = tuples(self.engine, sql.behind_counts_sql(behind))
            return identity, self._assemble_behind(pair, identity, versions, shown, counts, contributing)

    # --- identity of source rows ------------------------------------------------------------------------------

    def _identity(
        self, pair: SourcePair, given: Sequence[str] | None, *, absent: bool
    ) -> tuple[SourceIdentity, Versions | None]:
        if pair.before is None or pair.after is None:
            only = ONE_RUN_ONLY.format("after" if pair.before is None else "before")
            return SourceIdentity(pair.name, None, note=only, by_absence=absent), None
        if pair.same_version:
            counts = Counts(same=None) if absent else None
            note = None if self._readable(pair.after) else NO_LONGER_THERE
            return SourceIdentity(pair.name, "rid", note=note, by_absence=absent, absence=counts), None
        if not (self._readable(pair.before) and self._readable(pair.after)):
            return SourceIdentity(pair.name, None, note=NO_LONGER_THERE, by_absence=absent), None
        versions = versions_of(self.engine, self.questions.scan(pair.before), self.questions.scan(pair.after))
        key = self._key(pair.name, (pair.before, pair.after), versions, given)
        found = RowKey(tuple(versions.names), "column") if key is None else key
        counts = self._version_counts(versions, found, unique=key is not None) if absent else None
        identity = SourceIdentity(
            pair.name,
            "content" if key is None else "key",
            () if key is None else key.columns,
            key is not None and key.is_inferred,
            by_absence=absent,
            absence=counts,
        )
        return identity, versions

    def _key(
        self, name: str, pair: tuple[DatasetRecord, DatasetRecord], versions: Versions, given: Sequence[str] | None
    ) -> RowKey | None:
        source = pair[1]
        if given is not None:
            key = given_key(versions, given, name)
            masked = self.questions.masks.over(source, reveal=self.reveal)
            refuse_masked(key.columns, masked, name, "a key would disclose its values")
            require_unique(self.engine, versions, key, name, f"--source-key {source.name}=COLUMN,COLUMN")
            return key
        found = subject_key(self.engine, versions, source.declared) or column_key(self.engine, versions)
        groups = [self._grouped_by(each) for each in pair] if found is None else []
        if groups and groups[0] is not None and groups[0] == groups[1]:
            found = grouping_key(self.engine, versions, groups[0])
        return found

    def _grouped_by(self, source: DatasetRecord) -> tuple[str, ...] | None:
        """The grouping columns of another workflow's output that is read as a source, under the source's column
        names.
        """
        reader = self.questions.reader
        for maker in reader.makers_of([source.version_id]):
            columns = {each.original.lower(): each.name for each in self.questions.scan(source).version.columns}
            groups = grouped_by(reader.content(maker.run_id), maker.name)
            return None if groups is None else tuple(columns.get(name.lower(), name) for name in groups)
        return None

    def _version_counts(self, versions: Versions, key: RowKey, *, unique: bool) -> Counts:
        values = [each.name for each in versions.values(key.columns)]
        sides = versions.sides(key.columns, values)
        query = sql.version_counts_sql(*sides, len(key.columns), self._tests(versions, key.columns), unique=unique)
        ((added, removed, changed),) = tuples(self.engine, query)
        return Counts(added, removed, changed, same=None)

    def _readable(self, source: DatasetRecord) -> bool:
        scan = self.questions.scan(source)
        missing = [path for path in scan.paths if not Path(path).is_file()]
        if missing:
            verify(*missing)  # raises DamagedFile if a file of the home is missing
            return False
        try:
            refuse_changed(source, scan, range(len(scan.paths)))
        except SourceError:
            return False
        return True

    # --- rows behind the changes ------------------------------------------------------------------------------

    def _pairs(self, source: DatasetRecord | None, origins: Origins, rid: str, tables: TemporaryTables) -> str:
        if source is None or not origins.contributes(source):
            return "SELECT 0::BIGINT AS n, 0::BIGINT AS rid WHERE false"
        start = Start(table=tables.keep(f"SELECT {rid} AS b FROM {self.changes} WHERE {rid} IS NOT NULL"))
        target = place_of_dataset(source)
        questions = self.questions
        ways = questions.unkept.ways_toward(origins.walked, target, "backward", absence=False)
        walked = questions.walk_sql(ways, start, origins.walked.start, target, "backward")
        return sql.pairs_sql(walked.text, self.changes, rid)

    def _contributing(self, sides: tuple[str, str]) -> dict[int, tuple[int, int]]:
        counts = [dict(tuples(self.engine, f"SELECT n, count(*) FROM {side} GROUP BY n")) for side in sides]
        return {n: (counts[0].get(n, 0), counts[1].get(n, 0)) for n in sorted({*counts[0], *counts[1]})}

    def _behind(
        self,
        pair: SourcePair,
        identity: SourceIdentity,
        versions: Versions | None,
        pairs: tuple[str, str],
        tables: TemporaryTables,
    ) -> str:
        if pair.before is None or pair.after is None:
            return sql.one_sided_sql(*((pairs[1], "added") if pair.before is None else (pairs[0], "removed")))
        if versions is None:
            return sql.same_version_sql(*pairs)
        unique = identity.identity == "key"
        keys = identity.key if unique else tuple(versions.names)
        values = [each.name for each in versions.values(keys)]
        whole = versions.sides(keys, values)
        rows = [
            tables.keep(f"SELECT t.* FROM ({side}) t SEMI JOIN {wanted} w ON w.rid = t.rid")
            for side, wanted in zip(whole, pairs, strict=True)
        ]
        sides, width = (rows[0], rows[1]), len(keys)
        tests = self._tests(versions, keys)
        matched = tables.keep(sql.matched_sql(pairs, sides, width, tests, unique=unique))
        elsewhere = (
            tables.keep(sql.elsewhere_sql(matched, "added", sides[1], whole[0], width, unique=unique)),
            tables.keep(sql.elsewhere_sql(matched, "removed", sides[0], whole[1], width, unique=unique)),
        )
        return sql.behind_sql(matched, sides, elsewhere, width, tests, unique=unique)

    # --- through windows ----------------------------------------------------------------------------------------

    def _ways(self, source: DatasetRecord | None, origins: Origins) -> list[Way]:
        if source is None:
            return []
        return self.questions.unkept.ways_toward(origins.walked, place_of_dataset(source), "backward", absence=False)

    def _reads_windows(self, pair: SourcePair) -> bool:
        ways = [*self._ways(pair.before, self.before), *self._ways(pair.after, self.after)]
        return has_intervals(ways)

    def _behind_over_windows(
        self, pair: SourcePair, identity: SourceIdentity, versions: Versions | None, tables: TemporaryTables
    ) -> dict[int, Behind]:
        """The rows behind each change when a window is on the path. A window may read every row for each change."""
        from lineage_service.query.diff.window_rows import MovingDifference, SourceVersionRows

        moving = (
            self._moving_rows(pair.before, self.before, "rid_before", tables),
            self._moving_rows(pair.after, self.after, "rid_after", tables),
        )
        one_sided = pair.before is None or pair.after is None
        is_comparable = identity.identity is not None or one_sided
        changed: Ids = np.array([], np.int64)
        texts, tests = None, list[str]()
        if versions is None:
            # Rows are identified by rid, separately per version if the versions cannot be compared.
            reached = [np.array([], np.int64) if each is None else each.rids for each in moving]
            known = np.union1d(*reached)
            sides = (
                SourceVersionRows(moving[0], known, np.arange(len(known))),
                SourceVersionRows(moving[1], known, np.arange(len(known))),
            )
            classes = len(known)
        else:
            keys = identity.key if identity.identity == "key" else tuple(versions.names)
            texts, tests = (
                versions.sides(keys, [each.name for each in versions.values(keys)]),
                self._tests(versions, keys),
            )
            numbered = tables.keep(sql.classes_sql(*texts, len(keys)))
            rows = [self.engine.arrays(sql.class_rows_sql(each, numbered, len(keys)), 2) for each in texts]
            sides = SourceVersionRows(moving[0], *rows[0]), SourceVersionRows(moving[1], *rows[1])
            classes = self.engine.scalar(f"SELECT count(*) FROM {numbered}")
            if identity.identity == "key":
                query = sql.changed_classes_sql(*texts, numbered, len(keys), tests)
                changed = np.array(self.engine.ids(query), np.int64)
        elsewhere: Elsewhere = "unknown" if one_sided else "there" if versions is None else "looked up"
        named = identity.identity == "key"
        difference = MovingDifference(sides, classes, changed, elsewhere, named=named)
        listed = tuples(self.engine, f"SELECT n, rid_before, rid_after FROM {self.changes} ORDER BY n")
        counts, contributing, shown = [], dict[int, tuple[int, int]](), []
        for n, tally, behind in difference.count_changes(listed, self.rows if is_comparable else 0):
            if any(behind):
                contributing[n] = behind
                counts.append((n, *tally.counts))
                shown += [
                    (n, turn, each.kind, each.before, each.after, each.known) for turn, each in enumerate(tally.shown)
                ]
        if not is_comparable:
            return {n: Behind(identity, None, both) for n, both in sorted(contributing.items())}
        table = tables.keep(
            sql.shown_with_differences_sql(self._keep_shown_rows(shown, tables), texts if named else None, tests)
        )
        return self._assemble_behind(pair, identity, versions, table, sorted(counts), contributing)

    def _moving_rows(
        self, source: DatasetRecord | None, origins: Origins, rid: str, tables: TemporaryTables
    ) -> MovingRows | None:
        ways = self._ways(source, origins)
        if source is None or not ways:
            return None
        from lineage_service.query.moving_rows import MovingRows

        start = Start(table=tables.keep(f"SELECT {rid} AS b FROM {self.changes} WHERE {rid} IS NOT NULL"))
        return MovingRows(self.questions, ways, start, origins.walked.start, place_of_dataset(source))

    def _keep_shown_rows(self, rows: Sequence[tuple[object, ...]], tables: TemporaryTables) -> str:
        import pyarrow as pa

        schema = pa.schema(
            [("n", pa.int64()), ("turn", pa.int64()), ("kind", pa.string()), ("rid_before", pa.int64()),
             ("rid_after", pa.int64()), ("known", pa.bool_())]
        )  # fmt: skip
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        batch = pa.record_batch([pa.array(each, kind.type) for each, kind in zip(columns, schema, strict=True)], schema)
        tables.names.append(self.engine.keep_rows(schema, [batch]))
        return tables.names[-1]

    def _tests(self, versions: Versions, keys: Sequence[str]) -> list[str]:
        """The predicates that compare values. The tolerance applies only to values that a run computed, such as another
        workflow's output. Values of files are compared exactly.
        """
        computed = versions.before.version.kind == versions.after.version.kind == "output"
        types = [each.type for each in versions.values(keys)]
        return sql.value_tests(types, self.tolerance if computed else 0.0)

    def _assemble_behind(
        self,
        pair: SourcePair,
        identity: SourceIdentity,
        versions: Versions | None,
        shown: str,
        counts: Iterable[Sequence[int]],
        contributing: Mapping[int, tuple[int, int]],
    ) -> dict[int, Behind]:
        old = self._rows(pair.before, shown, "rid_before")
        new = self._rows(pair.after, shown, "rid_after")
        compared = [] if versions is None else [each.name for each in versions.values(identity.key)]
        rows: dict[int, list[RowBehind]] = {}
        for n, kind, rid_before, rid_after, known, differs in tuples(self.engine, f"SELECT * FROM {shown}"):
            columns = tuple(compared[index] for index in differs or ())
            before, after = old(rid_before), new(rid_after)
            if kind != "changed" and not columns:  # the other version has an equal row: shown once
                before, after = (None, after) if kind == "added" else (before, None)
            rows.setdefault(n, []).append(RowBehind(kind, before, after, known, columns))
        return {
            n: Behind(
                identity,
                Counts(added, removed, changed, same, new=recent, gone=gone),
                contributing[n],
                tuple(rows.get(n, ())),
            )
            for n, added, recent, removed, gone, changed, same in counts
        }

    def _rows(self, source: DatasetRecord | None, shown: str, rid: str) -> Callable[[int | None], Row | None]:
        """The rows to show, by rid; only the rids if the rows are no longer readable."""
        if source is None:
            return lambda _: None
        wanted = f"SELECT DISTINCT {rid} AS b FROM {shown} WHERE {rid} IS NOT NULL"
        try:
            found = RowsByRid(rows_by_rid(self.questions, source, wanted, self.reveal))
        except DamagedFile:
            raise
        except (SourceError, StoreError):
            return lambda number: None if number is None else {"_rid": number}
        return lambda number: None if number is None else found.get(number, with_rid=True) or {"_rid": number}


def rows_by_rid(questions: Questions, dataset: DatasetRecord, wanted: str, reveal: bool) -> pa.Table:
    """The rows whose rids a query returns as column b, ordered by rid. Masked unless `reveal`. Rows of changed files
    are left out.
    """
    scan, table = questions.scan(dataset), questions.engine.keep(wanted)
    part = questions.rows_of(dataset, scan, Start(table=table), AnswerShape(reveal=reveal, unchanged=True))
    found = part.arrow()  # the answer drops the table when it is garbage-collected
    questions.masks.note_hidden(part.masked if found.num_rows else ())
    return found


@dataclass
class TemporaryTables:
    """Temporary tables that are dropped together at the end."""

    engine: QueryEngine
    names: list[str]

    def keep(self, query: str) -> str:
        self.names.append(self.engine.keep(query))
        return self.names[-1]


@contextmanager
def temporary_tables(engine: QueryEngine) -> Iterator[TemporaryTables]:
    tables = TemporaryTables(engine, [])
    try:
        yield tables
    finally:
        for name in tables.names:
            engine.drop(name)
