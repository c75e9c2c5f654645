"""Saves a question as a dataset: writes its rows and their lineage to the home, and commits them as a run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import ColumnRecord, Commit, DatasetRecord, HopRecord, RunRecord, VersionRecord

from lineage_service.capture.handles import Role, source_space, step_space
from lineage_service.equivalence.type_names import spark_type_of_duckdb
from lineage_service.errors import QuestionError
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.plan.column_lineage import Read
from lineage_service.spec.name_checks import RESERVED
from lineage_service.sql.answer_limits import unique_column_names
from lineage_service.sql.lineage_columns import IdColumn, QueryWithIds, add_id_columns
from lineage_service.sql.query_columns import query_columns
from lineage_service.sql.query_context import QueryContext, RewrittenQuery
from lineage_service.sql.question_parsing import Question
from lineage_service.store.duckdb_engine import column
from lineage_service.store.layout import HomeLayout, RunFolder, translate_disk_errors, working_folder
from lineage_service.store.output_versions import version_of_folder
from lineage_service.store.references import References, remove_unreferenced
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.query.guarded_session import Session

CAPTURE = "query"  # capture setting recorded for a saved query
_NAME = re.compile("[a-z][a-z0-9_]*")
# Types that Parquet, or Spark, has not: written as the next one that holds all their values.
_WIDER = {
    "HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UBIGINT": "DECIMAL(20,0)", "UINTEGER": "BIGINT",
    "USMALLINT": "INTEGER", "UTINYINT": "SMALLINT", "UUID": "VARCHAR", "TIME": "VARCHAR", "INTERVAL": "VARCHAR",
    "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP", "NULL": "VARCHAR",
    '"NULL"': "VARCHAR", "JSON": "VARCHAR", "BIT": "VARCHAR", "BIGNUM": "VARCHAR",
}  # fmt: skip


@dataclass(frozen=True)
class _Source:
    """A dataset that a saved query reads, under its own name or one that is unused in this run."""

    name: str
    record: DatasetRecord


@dataclass(frozen=True)
class _Columns:
    """The version with the marks of its columns, and the catalog records of its columns and of those it reads."""

    version: Version
    records: tuple[ColumnRecord, ...]


@dataclass
class QuerySaver:
    """Saves one question as a dataset."""

    asking: QueryContext
    question: Question
    rewritten: RewrittenQuery
    name: str

    def save(self, home: HomeLayout, commit: Callable[[Commit], None]) -> str:
        """Writes and commits it, and returns the id of its run."""
        with working_folder(home) as folder:
            made = self.write_run(folder)
            remove_unreferenced(References(self.asking.ask.reader, home), made)
            folder.sync()
            folder.hand_over()
            commit(made)
            folder.mark_committed()
            return folder.run_id

    def write_run(self, folder: RunFolder) -> Commit:
        """Writes it to a run's folder, and returns what is to be committed."""
        started = datetime.now(UTC)
        columns = [
            each.name
            for relation in self.rewritten.relations.values()
            if relation.dataset is not None
            for each in self.asking.ask.scan(relation.dataset).version.columns
        ]
        traced = add_id_columns(self.rewritten.named, self._relations(), columns)
        self.asking.check(traced.sql, frozenset(self.rewritten.relations))
        sources = self._sources(traced)
        tables = self.asking.open(self.rewritten.relations)
        table = self.asking.session.new_name()
        try:
            self._session.run(f"CREATE TABLE {table} AS {self._with(traced.sql)}")
            self._refuse_other_rows(table, traced)
            version = self._rows(table, traced, folder)
            described = self._columns(version, sources)
            hops = [hop for each in sources for hop in self._hops(table, traced, each, folder)]
            return self._commit(started, folder, sources, hops, described)
        finally:
            self.asking.session.drop([*tables, table])

    def _relations(self) -> dict[str, bool]:
        for relation in self.rewritten.relations.values():
            if relation.dataset is None:
                raise QuestionError(
                    "the query cannot be saved with exact lineage: "
                    f"{relation.description.partition(': ')[0]} does not give rows of one dataset",
                    hint="name one dataset in each lineage function",
                )
        return dict.fromkeys(self.rewritten.relations, True)

    def _with(self, sql: str) -> str:
        named = ", ".join(f"{name} AS ({each.query})" for name, each in self.rewritten.relations.items())
        return f"WITH {named} SELECT * FROM ({sql}\n)" if named else sql

    def _sources(self, traced: QueryWithIds) -> list[_Source]:
        found: dict[str, DatasetRecord] = {}
        for ids in traced.ids:
            record = self.rewritten.relations[ids.relation].dataset
            assert record is not None
            found.setdefault(record.version_id, record)
        names = [record.name for record in found.values()]
        return [
            _Source(record.name if names.count(record.name) == 1 and record.name != self.name
                    else f"{record.workflow}_{record.name}_{record.run_id[:6]}", record)
            for record in found.values()
        ]  # fmt: skip

    # --- rows -------------------------------------------------------------------------------------------------

    def _refuse_other_rows(self, table: str, traced: QueryWithIds) -> None:
        """Raises an error if the rows with ids differ from the rows without. This verifies the rewritten query against
        the original.

        Floating-point numbers are not compared, because the last digits of a sum depend on the order. Nondeterministic
        columns are not compared either.
        """
        if _is_nondeterministic(self.question):
            return
        kinds = self.asking.describe_columns(self.rewritten.sql)
        own = [f"c{number}" for number, row in enumerate(kinds) if row[1] not in ("FLOAT", "DOUBLE")]
        names = ", ".join(f"c{number}" for number in range(len(kinds)))
        ids = ", ".join(each.name for each in traced.ids)
        without = f"SELECT * EXCLUDE ({ids}) FROM {table}" if ids else f"SELECT * FROM {table}"
        columns = ", ".join(own) or "count(*)"
        plain = f"SELECT {columns} FROM ({self.rewritten.sql}\n) x({names})"
        traced_rows = f"SELECT {columns} FROM ({without}) x({names})"
        either = [f"(({one}) EXCEPT ALL ({other}))" for one, other in ((plain, traced_rows), (traced_rows, plain))]
        if self._session.values(f"SELECT count(*) FROM ({' UNION ALL '.join(either)})")[0][0]:
            raise QuestionError(
                "the query cannot be saved with exact lineage: its rows are not the same each time it is asked",
                hint="order them fully, or leave out what differs",
            )

    def _rows(self, table: str, traced: QueryWithIds, folder: RunFolder) -> Version:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = unique_column_names([row[0] for row in self.asking.describe_columns(self.rewritten.sql)])
        if any(name.lower() == "_rid" for name in names):
            raise QuestionError(
                "the query cannot be saved: it gives a column _rid, which every dataset has of its own",
                hint="leave it out, or give it another name",
            )
        hidden = {each.name for each in traced.ids}
        kept = [row for row in self.asking.describe_columns(table) if row[0] not in hidden]
        if len(kept) != len(names):
            raise QuestionError(
                "the query cannot be saved with exact lineage: how many columns it has depends on what it reads",
                hint="name the columns",
            )
        items, types = [], []
        for name, (own, kind) in zip(names, kept, strict=True):
            wider = "BIGINT" if kind == "HUGEINT" and self._fits(table, own) else _WIDER.get(kind, kind)
            nested = wider.startswith(("DECIMAL(", "STRUCT(", "MAP(", "ENUM(")) or wider.endswith("]")
            if not nested and not spark_type_of_duckdb(wider):
                raise QuestionError(f"column '{name}' is {kind}, which cannot be kept", hint="cast it")
            value = column(own) if wider == kind else f"CAST({column(own)} AS {wider})"
            items.append(f"{value} AS {column(name)}")
            types.append((name, spark_type_of_duckdb(wider)))
        target = folder.dataset(self.name)
        with translate_disk_errors(folder.home.path):
            target.mkdir(parents=True)
            found = self._session.rows(f"SELECT {', '.join(items)} FROM {table} ORDER BY rowid", batch=ROW_GROUP)
            try:
                with pq.ParquetWriter(target / "part-00000.parquet", found.schema, compression="snappy") as writer:
                    for batch in found.batches():
                        writer.write_batch(batch)
            except pa.ArrowException:
                raise QuestionError("a column has values that cannot be kept in Parquet", hint="cast it") from None
        return version_of_folder(target, types, folder)

    def _fits(self, table: str, name: str) -> bool:
        """Whether all values of a column of sums fit into 64 bits."""
        inside = f"bool_and({column(name)} BETWEEN {-(2**63)} AND {2**63 - 1})"
        return bool(self._session.values(f"SELECT coalesce({inside}, true) FROM {table}")[0][0])

    @property
    def _session(self) -> Session:
        return self.asking.session

    # --- columns ----------------------------------------------------------------------------------------------

    def _columns(self, version: Version, sources: Sequence[_Source]) -> _Columns:
        """The origins of each column. If they are uncertain, they are recorded as unknown, and the column is marked as
        personal data if it may be.
        """
        names = {each.record.version_id: each.name for each in sources}
        marks: dict[str, dict[str, bool]] = {}
        datasets: dict[str, str] = {}
        for name, relation in self.rewritten.relations.items():
            assert relation.dataset is not None
            own = self._marks(relation.dataset)
            described = self.asking.describe_columns(relation.query)
            marks[name] = {row[0]: own.get(row[0].lower(), False) for row in described}
            datasets[name] = names.get(relation.dataset.version_id, relation.dataset.name)
        found = query_columns(self.rewritten.named, marks, len(version.columns))
        doubtful = any(pii for own in marks.values() for pii in own.values())
        pii = [doubtful] * len(version.columns) if found is None else [each.pii for each in found]
        marked = replace(
            version, columns=tuple(replace(each, pii=own) for each, own in zip(version.columns, pii, strict=True))
        )
        records = [
            ColumnRecord(
                "", self.name, number, each.name, each.type, each.pii,
                None if found is None else _column_refs_json(found[number].reads, datasets),
                None if found is None else _column_refs_json(found[number].influenced_by, datasets),
            )
            for number, each in enumerate(marked.columns)
        ]  # fmt: skip
        for source in sources:
            own = self._marks(source.record)
            for number, each in enumerate(self.asking.ask.scan(source.record).version.columns):
                there = own.get(each.name.lower(), False)
                records.append(ColumnRecord("", source.name, number, each.name, each.type, there, "[]", "[]"))
        return _Columns(marked, tuple(records))

    def _marks(self, dataset: DatasetRecord) -> dict[str, bool]:
        """The columns of a dataset with personal data, in lower case."""
        return dict.fromkeys(self.asking.ask.masks.of(dataset), True)

    # --- lineage ----------------------------------------------------------------------------------------------

    def _hops(self, table: str, traced: QueryWithIds, source: _Source, folder: RunFolder) -> Iterable[HopRecord]:
        mine = [each for each in traced.ids if self._version(each) == source.record.version_id]
        parts = [
            f"SELECT rowid AS a, {f'unnest({each.name})' if each.listed else each.name} AS b FROM {table} "
            f"WHERE {each.name} IS NOT NULL"
            for each in mine
        ]
        pairs = f"SELECT DISTINCT a, b FROM ({' UNION ALL '.join(parts)})"
        ends = (step_space(self.name), source_space(source.name))
        files: dict[str, Path] = {}
        rows = 0
        with translate_disk_errors(folder.home.path):
            folder.index.mkdir(parents=True, exist_ok=True)
            for direction, order in (("backward", "a, b"), ("forward", "b, a")):
                found = self._session.rows(f"SELECT a, b FROM ({pairs}) ORDER BY {order}", batch=ROW_GROUP)
                files[direction] = write_pairs(folder.index / f"{source.name}.{direction}", found.batches())
        rows = int(self._session.values(f"SELECT count(*) FROM ({pairs})")[0][0])
        size = sum(path.stat().st_size for path in files.values())
        inside = {direction: folder.home.relative(path) for direction, path in files.items()}
        if rows == 0:
            yield HopRecord(folder.run_id, *ends, int(Role.OWN), HopForm.EMPTY, 0, 0, None, None)
        else:
            yield HopRecord(
                folder.run_id, *ends, int(Role.OWN), HopForm.PAIRS, rows, size, inside["backward"], inside["forward"]
            )

    def _version(self, ids: IdColumn) -> str | None:
        return self.rewritten.relations[ids.relation].version

    def _commit(
        self,
        started: datetime,
        folder: RunFolder,
        sources: Sequence[_Source],
        hops: Sequence[HopRecord],
        columns: _Columns,
    ) -> Commit:
        run_id, name, version = folder.run_id, self.name, columns.version
        content = {
            "version": 1, "name": name, "query": self.question.text,
            "sources": {each.name: {"output": each.record.full_name} for each in sources},
        }  # fmt: skip
        text, taken = json.dumps(content), datetime.now(UTC) - started
        report = {
            "run_id": run_id, "workflow": name, "status": "committed", "vars": {},
            "outputs": {name: {"rows": version.rows, "bytes": version.bytes}},
            "sources": {each.name: {"rows": self.asking.ask.scan(each.record).version.rows} for each in sources},
            "capture": {name: {
                hop.to_space.name: {"strategy": CAPTURE, "pairs": hop.rows, "bytes": hop.bytes} for hop in hops
            }},
            "seconds": {"execute": round(taken.total_seconds(), 3), "capture": 0.0, "index": 0.0},
        }  # fmt: skip
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        run = RunRecord(
            run_id, name, hashlib.sha256(text.encode()).hexdigest(), "committed", CAPTURE, "{}", json.dumps(report),
            started.isoformat(timespec="milliseconds"), now,
        )  # fmt: skip
        read = [
            DatasetRecord(run_id, each.record.workflow, each.name, "source", source_space(each.name),
                          each.record.version_id, each.record.declared)
            for each in sources
        ]  # fmt: skip
        made = DatasetRecord(run_id, name, name, "output", step_space(name), version.id, "{}")
        record = VersionRecord(version.id, version.kind, run_id, version.rows, version.bytes, version.to_json())
        kept = tuple(replace(each, run_id=run_id) for each in columns.records)
        return Commit(run, text, (), (record,), (*read, made), tuple(hops), kept)


def check_name(name: str, reader: CatalogReader) -> None:
    """Raises QuestionError for a name that a saved query cannot have."""
    if not _NAME.fullmatch(name):
        raise QuestionError(f"'{name}' is no name for a dataset", hint="names are like this: [a-z][a-z0-9_]*")
    if name in RESERVED:
        raise QuestionError(f"no dataset can be called '{name}': '--to {name}' means every dataset")
    latest = reader.latest_run(name)
    if latest is not None and latest.capture != CAPTURE:
        raise QuestionError(f"'{name}' is a workflow's name already", hint="save the query under another one")


def _column_refs_json(refs: Read, datasets: Mapping[str, str]) -> str:
    """Columns of relations, as columns of the datasets they belong to."""
    return json.dumps(list(dict.fromkeys((datasets[each.source], each.column) for each in refs)))


def _is_nondeterministic(question: Question) -> bool:
    """Whether a query may return other rows or values when it is run again."""
    from sqlglot import exp

    from lineage_service.sql.allowed_functions import UNSTEADY

    words = {token.lower() for token in re.findall(r"[a-zA-Z_]\w*", question.text)}
    return bool(words & UNSTEADY) or question.tree.find(exp.Limit, exp.Fetch, exp.Offset) is not None
