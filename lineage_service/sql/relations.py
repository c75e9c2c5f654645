"""Translates a dataset name or lineage function of a question to a relation: SQL for its rows, and how they are
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError
from lineage_service.query.home_files import index_files
from lineage_service.query.hop_sql import key_columns, stored_file
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.query.lineage_walk import Walk
from lineage_service.query.masks import NONE, refuse_masked, shown_columns
from lineage_service.query.query_engine import translate_index_errors
from lineage_service.query.questions import Questions
from lineage_service.query.row_retrieval import FEW_OF_ALL, RowQuery, select_all_rows, select_rids
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start
from lineage_service.sql.preparations import (
    Prepared,
    covered_ids,
    covered_query,
    files_of,
    grouped_query,
    groups_scan,
    selected_ids,
    witness_columns,
    witness_query,
)
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.version_scan import RID, VersionScan

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 200_000  # up to this many rows behind one row are found by their key, without looking up their ids
MOST_IDS = 100_000_000  # maximum number of row ids that a question may hold


@dataclass(frozen=True)
class SqlRelation:
    """Rows of a dataset as SQL: `_rid`, then its columns.

    paths: the files that it reads
    tables: tables of ids (column b) that it joins, by name
    dataset: the dataset of the rows
    ids: returns only the row ids, if that takes no scan
    description: a description of the rows and how they are found
    held: queries of few rows, each of which becomes a table in memory
    columns: its columns
    masked: the masked columns, with the columns they stand for
    """

    query: str
    paths: tuple[str, ...]
    dataset: DatasetRecord | None
    description: str
    tables: dict[str, pa.Array] = field(default_factory=dict)
    ids: Callable[[], pa.Array] | None = None
    notes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    masked: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        return None if self.dataset is None else self.dataset.version_id


@dataclass
class Relations:
    """Builds relations over a home. `name` returns a unique name for each table of ids.

    Personal data is masked unless `reveal` is set. `shows_sql`: the SQL will be shown to the user.
    """

    ask: Questions
    name: Callable[[], str]
    reveal: bool = False
    shows_sql: bool = False

    def dataset(self, name: str) -> SqlRelation:
        found = self.ask.find(name)
        scan = self.ask.scan(found)
        wanted = select_all_rows(found, scan)
        return self._masked_relation(found, wanted.query, scan.read, f"{name}: scan of all rows")

    def start(
        self, datasets: Sequence[DatasetRecord], where: str | None, ids: pa.Array | None
    ) -> list[tuple[DatasetRecord, Start]]:
        """The start rows: those of a predicate, these ids, or all."""
        starts = []
        for found in datasets:
            if ids is not None:
                self._refuse_unknown(found, ids)
                start = self.ask.starts.start_of(ids)
            else:
                start = self.ask.start(found, Selection(where=where, all=where is None, reveal=self.reveal))
            starts.append((found, start))
        return starts

    def lineage(
        self, starts: Sequence[tuple[DatasetRecord, Start]], direction: Direction, to: Sequence[str], label: str
    ) -> SqlRelation:
        """The rows that the starts lead to, of one dataset, or of several with a first column `dataset`."""
        try:
            reached: dict[tuple[str, str], list[SqlRelation]] = {}
            records: dict[tuple[str, str], DatasetRecord] = {}
            notes: dict[str, None] = {}
            for found, start in starts:
                walked, targets = self.ask.targets.walk_to(found, direction, to)
                notes |= dict.fromkeys(self.ask.omission_notes(found, walked, direction, targets, to))
                for target in targets:
                    key = (target.run_id, target.space)
                    records[key] = target
                    reached.setdefault(key, []).append(self._from_walk(walked, found, start, target, direction, label))
        finally:
            for table in {start.table for _, start in starts if start.table is not None}:
                self.ask.engine.drop(table)
        each = {key: _merge_relations(self, records[key], parts) for key, parts in reached.items()}
        if len(each) == 1 and len(to) == 1 and to[0] != "all":
            relation = next(iter(each.values()))
        else:
            names = self.ask.targets.labels(list(records.values()))
            relation = _side_by_side([(names[records[key]], part) for key, part in each.items()], label)
        return replace(relation, notes=(*relation.notes, *notes))

    def from_prepared(self, prepared: Prepared, start: Start, label: str) -> SqlRelation:
        """What was prepared for a declared question, for these near rows."""
        prepared.refuse_missing()
        question, far = prepared.question, prepared.far[0]
        if question.kind == "pairs":
            names = [each.name for each in prepared.far]
            return self.lineage([(prepared.near, start)], question.direction, names, label)
        path = self.ask.home.absolute(str(prepared.record.path))
        if question.kind == "selection":
            return self._from_prepared_pairs(prepared, path, start, label)
        kept, tables = self.guarded_start(start)
        if question.kind == "witnesses":
            description = f"{label}: prepared witnesses ({prepared.record.rows:,} in all)"
            query = witness_query(prepared, path, kept)
            return SqlRelation(
                query, files_of(path), None, description, tables, columns=tuple(witness_columns(prepared))
            )
        if question.kind == "groups":
            description = f"{label}: prepared groups of {far.full_name} ({prepared.record.rows:,} in all)"
            place, held = groups_scan(prepared, path)
            self._refuse_marked(prepared)
            query = grouped_query(prepared, place, kept)
            given = tuple(name for name, _ in question.keys) + tuple(each.name for each in question.measures)
            return SqlRelation(query, files_of(path), None, description, tables, held=held, columns=given)
        scan = self.ask.scan(far)
        types = [(each.name, each.type) for each in scan.version.columns]
        query = covered_query(prepared, path, kept, types)
        if self._are_masked(far, question.parameters):
            query = f"SELECT * FROM ({query}) ORDER BY {RID}"  # the order of the file would disclose masked values
        description = f"{label}: prepared rows of {far.full_name}, sorted by {', '.join(question.parameters) or RID}"

        def ids() -> pa.Array:
            if kept.table is None:
                return self.ask.engine.id_array(covered_ids(path, kept))
            table = self.ask.engine.keep_ids(tables[kept.table])
            try:
                return self.ask.engine.id_array(covered_ids(path, Start(table=table)))
            finally:
                self.ask.engine.drop(table)

        return self._masked_relation(far, query, files_of(path), description, tables, ids, columns=prepared.columns)

    def _from_prepared_pairs(self, prepared: Prepared, path: str, start: Start, label: str) -> SqlRelation:
        far, direction = prepared.far[0], prepared.question.direction
        scan = self.ask.scan(far)
        found = self.ask.engine.id_array(selected_ids(path, start, direction))
        tables: dict[str, pa.Array] = {}
        wanted = select_rids(far, scan, found, None, self._id_table_maker(tables))
        count = f"{len(found):,} of {scan.version.rows:,} rows of {far.full_name}"
        description = f"{label}: {count} from prepared pairs, {wanted.way}"
        return self._masked_relation(far, wanted.query, scan.read, description, tables, lambda: found)

    def _masked_relation(
        self,
        dataset: DatasetRecord,
        query: str,
        paths: tuple[str, ...],
        description: str,
        tables: dict[str, pa.Array] | None = None,
        ids: Callable[[], pa.Array] | None = None,
        notes: tuple[str, ...] = (),
        columns: Sequence[str] | None = None,
    ) -> SqlRelation:
        """The masked rows of a dataset that a query returns. Any SQL over the relation reads only masked values."""
        scan, masked = self.ask.scan(dataset), self.ask.masks.over(dataset, reveal=self.reveal)
        names = [each.name for each in scan.version.columns if columns is None or each.name in columns]
        query = scan.nan_safe(query, columns, intervals=True)
        hidden = [name for name in names if name.lower() in masked]
        if hidden:
            shown = shown_columns(names, scan, masked, printed=False)
            items = [RID, *(f"{sql} AS {column(name)}" for name, sql in shown.items())]
            query = f"SELECT {', '.join(items)} FROM ({query})"
            if self.shows_sql:
                self._refuse_shown_paths(scan, hidden, dataset)
        masks = {name: f"column '{name}' of '{dataset.full_name}'" for name in hidden}
        return SqlRelation(
            query, paths, dataset, description, tables or {}, ids, notes, columns=(RID, *names), masked=masks
        )

    def _refuse_shown_paths(self, scan: VersionScan, hidden: Sequence[str], dataset: DatasetRecord) -> None:
        """Refuses to show SQL that names files, because folders may be named after masked values."""
        for each in scan.version.columns:
            if each.partition is not None and each.name in hidden:
                what = "EXPLAIN would disclose the names of its folders"
                refuse_masked([each.name], frozenset([each.name.lower()]), dataset.full_name, what)

    def _are_masked(self, dataset: DatasetRecord, names: Iterable[str]) -> bool:
        masked = NONE if self.reveal else self.ask.masks.of(dataset)
        return any(name.lower() in masked for name in names)

    def _refuse_marked(self, prepared: Prepared) -> None:
        """Raises QuestionError if prepared groups show masked values."""
        far = prepared.far[0]
        found = [name for name in prepared.exposed_columns if name in self.ask.masks.of(far)]
        if found:
            masked = self.ask.masks.over(far, reveal=self.reveal)
            what = f"workload('{prepared.question.name}') would disclose its values"
            refuse_masked(found, masked, far.full_name, what)

    def guarded_start(self, start: Start) -> tuple[Start, dict[str, pa.Array]]:
        """A start with many rows, as a table of the guarded engine that will be created from these ids."""
        if start.table is None:
            return start, {}
        name, ids = self.name(), self._start_ids(start)
        self.ask.engine.drop(start.table)
        return Start(table=name), {name: ids}

    def _id_table_maker(self, tables: dict[str, pa.Array]) -> Callable[[pa.Array], str]:
        def keep(rows: pa.Array) -> str:
            name = self.name()
            tables[name] = rows
            return name

        return keep

    def _from_walk(
        self,
        walked: Walk,
        dataset: DatasetRecord,
        start: Start,
        target: DatasetRecord,
        direction: Direction,
        label: str,
    ) -> SqlRelation:
        scan = self.ask.scan(target)
        place = Place(target.run_id, target.space)
        ways = self.ask.unkept.ways_toward(walked, place, direction, absence=False)
        notes: tuple[str, ...] = ()
        if not ways:
            side, result = (target, dataset) if direction == "backward" else (dataset, target)
            notes = (f"'{side.full_name}' only influences '{result.full_name}' by the absence of a match: no rows",)
        keyed = None
        if direction == "backward" and len(ways) == 1 and start.few and start.rids:
            keyed = self.ask.key_scan(ways[0], start.rids)
            if self.shows_sql and self._are_masked(dataset, key_columns(ways[0]) or ()):
                keyed = None  # its SQL contains key values

        def ids() -> pa.Array:
            return self._ids(walked, ways, start_again, place, direction)

        start_again = start if start.table is None else Start(ids=self._start_ids(start))
        tables: dict[str, pa.Array] = {}
        wanted: RowQuery | None = None
        if keyed is not None and self._is_large_part(ways[0], start, scan) and (by_key := keyed()) is not None:
            everything = select_all_rows(target, scan)  # raises SourceError for a changed source
            wanted = RowQuery(by_key, -1, in_order=everything.in_order, way="scan by key")
        if wanted is None:
            wanted = select_rids(target, scan, ids(), keyed, self._id_table_maker(tables))
        count = "many" if wanted.total < 0 else f"{wanted.total:,}"
        description = f"{label}: {count} of {scan.version.rows:,} rows of {target.full_name}, {wanted.way}"
        return self._masked_relation(target, wanted.query, scan.read, description, tables, ids, notes)

    def _ids(self, walked: Walk, ways: Sequence[Way], start: Start, place: Place, direction: Direction) -> pa.Array:
        """The row ids that a start leads to, distinct and sorted."""
        if start.rids is not None and len(start.rids) == 1 and len(ways) == 1 and ways[0].hop is not None:
            path = stored_file(ways[0].hop, direction)
            if path is not None:
                near, far = ("a", "b") if direction == "backward" else ("b", "a")
                with translate_index_errors(self.ask.home.path):
                    files = index_files(self.ask.home.absolute(path))
                    return self.ask.lookups.ids(files, near, far, start.rids[0])
        table = None
        if start.ids is not None:
            table = self.ask.engine.keep_ids(start.ids)
            start = Start(table=table)
        sql = self.ask.walk_sql(ways, start, walked.start, place, direction, pairs=False)
        try:
            found = self.ask.engine.id_array(
                f"SELECT b FROM ({sql.text}) ORDER BY b LIMIT {MOST_IDS + 1}", sql.parameters
            )
        finally:
            if table is not None:
                self.ask.engine.drop(table)
        if len(found) > MOST_IDS:
            raise QuestionError(f"more than {MOST_IDS:,} rows are reached, which a query cannot hold")
        return found

    def _is_large_part(self, way: Way, start: Start, scan: VersionScan) -> bool:
        """Whether the index metadata shows that a large part of the source is behind these rows."""
        path = None if way.hop is None else stored_file(way.hop, "backward")
        if path is None or start.rids is None:
            return False
        with translate_index_errors(self.ask.home.path):
            files = index_files(self.ask.home.absolute(path))
            certain = sum(self.ask.lookups.at_least(files, "a", "b", rid) for rid in start.rids)
        return certain >= max(MANY, FEW_OF_ALL * scan.version.rows)

    def _start_ids(self, start: Start) -> pa.Array:
        return self.ask.engine.id_array(f"SELECT b FROM {start.table}")

    def _refuse_unknown(self, dataset: DatasetRecord, ids: pa.Array) -> None:
        import pyarrow.compute as pc

        if not len(ids):
            return
        scan = self.ask.scan(dataset)
        lowest, largest = pc.min(ids).as_py(), pc.max(ids).as_py()
        if (
            lowest < 0
            or largest >= scan.version.end
            or (not scan.version.is_dense and any(scan.position(rid) is None for rid in ids.to_pylist()))
        ):
            raise QuestionError(
                f"the rows given to start from are not rows of '{dataset.full_name}': it has no row "
                f"{lowest if lowest < 0 else largest}"
            )


def _merge_relations(relations: Relations, target: DatasetRecord, parts: Sequence[SqlRelation]) -> SqlRelation:
    """The distinct rows that several starts lead to."""
    if len(parts) == 1:
        return parts[0]
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.concat_arrays([part.ids() for part in parts if part.ids is not None])
    distinct = pc.unique(found)
    ids = distinct.take(pc.array_sort_indices(distinct))
    scan = relations.ask.scan(target)
    tables: dict[str, pa.Array] = {}
    wanted = select_rids(target, scan, ids, None, relations._id_table_maker(tables))
    description = (
        f"{parts[0].description.partition(':')[0]}: {wanted.total:,} of {scan.version.rows:,} rows, {wanted.way}"
    )
    notes = tuple(note for part in parts for note in part.notes)
    return relations._masked_relation(target, wanted.query, scan.read, description, tables, lambda: ids, notes)


def _side_by_side(parts: Sequence[tuple[str, SqlRelation]], label: str) -> SqlRelation:
    """Rows of several datasets in one relation, with columns matched by name; null if a dataset lacks the column."""
    if not parts:
        raise QuestionError(f"{label} reaches no dataset")
    texts = [f"SELECT {literal(name)} AS dataset, * FROM ({part.query})" for name, part in parts]
    return SqlRelation(
        " UNION ALL BY NAME ".join(texts),
        tuple(path for _, part in parts for path in part.paths),
        None,
        "; ".join(part.description for _, part in parts),
        {name: ids for _, part in parts for name, ids in part.tables.items()},
        None,
        tuple(note for _, part in parts for note in part.notes),
        columns=_union_columns(parts),
        masked={name: masked for _, part in reversed(parts) for name, masked in part.masked.items()},
    )


def _union_columns(parts: Sequence[tuple[str, SqlRelation]]) -> tuple[str, ...]:
    """The distinct columns of several relations, ignoring case."""
    found = {name.lower(): name for _, part in reversed(parts) for name in part.columns}
    own = dict.fromkeys(name.lower() for _, part in parts for name in part.columns)
    return ("dataset", *(found[lower] for lower in own))
