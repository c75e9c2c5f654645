"""The subject index of a source version, in two files: persons by keyed hash, and their rows.

persons: hash (16 bytes), person (a number), sorted by hash
rows: pairs (a person's number, rid), sorted by number

A person's rows are found by two look-ups, even after the source's files have changed. A refreshed version adds a layer
of the added rows, and a mask over the earlier layers: rids that were removed or are in a later layer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import SubjectRecord

from lineage_service.errors import SourceError
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.store.duckdb_engine import column, file_literal
from lineage_service.store.home_key import HomeKey
from lineage_service.store.layout import RunFolder, translate_disk_errors
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import has_changed
from lineage_service.subjects.hashing import canonical_text, keyed_hash

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PERSONS_GROUP = 8_192  # rows per row group: a look-up decodes one


@dataclass(frozen=True)
class DeclaredSubject:
    """The declaration of a source that a column identifies a person of a kind."""

    source: str
    kind: str
    column: str


@dataclass(frozen=True)
class Layer:
    """Files for a part of a version's rows. `without` are files (column a) of rids that it no longer covers."""

    persons: str
    rows: str
    without: tuple[str, ...] = ()


def layers_of(record: SubjectRecord) -> list[Layer]:
    return [
        Layer(each["persons"], each["rows"], tuple(each.get("without", ())))
        for each in json.loads(record.body)["layers"]
    ]


def layers_json(layers: Sequence[Layer]) -> str:
    return json.dumps({"layers": [{"persons": e.persons, "rows": e.rows, "without": list(e.without)} for e in layers]})


def declared_subjects(name: str, subject: Mapping[str, str] | None) -> list[DeclaredSubject]:
    return [DeclaredSubject(name, kind, column_name) for kind, column_name in (subject or {}).items()]


@dataclass
class SubjectIndex:
    """Writes the files of one run."""

    connection: DuckDBPyConnection
    folder: RunFolder
    key: HomeKey
    _made: int = field(default=0)

    def of_version(self, declared: DeclaredSubject, scan: VersionScan) -> SubjectRecord:
        """The index of all rows of a version. Raises SourceError if its files change in the meantime."""
        self._refuse_changed(declared, scan)
        found = self.of_rows(declared, scan, scan.select([self._column_name(declared, scan)]))
        self._refuse_changed(declared, scan)
        return found

    def of_rows(self, declared: DeclaredSubject, scan: VersionScan, rows: str) -> SubjectRecord:
        """The index of the rows that a query returns: the person's column, and `_rid`."""
        name = self._column_name(declared, scan)
        kind = next(each.type for each in scan.version.columns if each.name == name)
        text = canonical_text(column(name), kind)
        table = f"subjects_{self._made}"
        self.connection.execute(
            f"CREATE TEMP TABLE {table} AS SELECT {text} AS text, {RID} AS rid FROM ({rows}) WHERE {text} IS NOT NULL"
        )
        persons = f"persons_{self._made}"
        self.connection.execute(
            f"CREATE TEMP TABLE {persons} AS SELECT text, {keyed_hash(declared.kind, 'text')} AS hash "
            f"FROM (SELECT DISTINCT text FROM {table})",
            [*self.key.pads],
        )
        self.connection.execute(
            f"CREATE TEMP TABLE {persons}_numbered AS "
            f"SELECT text, hash, row_number() OVER (ORDER BY hash) - 1 AS person FROM {persons}"
        )
        layer = self._write_layer(
            f"SELECT hash, person FROM {persons}_numbered ORDER BY hash",
            f"SELECT p.person AS a, t.rid AS b FROM {table} t JOIN {persons}_numbered p USING (text) ORDER BY a, b",
        )
        count = self._count(f"{persons}_numbered"), self._count(table)
        for each in (table, persons, f"{persons}_numbered"):
            self.connection.execute(f"DROP TABLE {each}")
        return SubjectRecord(
            scan.version.id,
            declared.kind,
            declared.column,
            self.folder.run_id,
            self.key.id,
            *count,
            layers_json([layer]),
        )

    def restrict_to(self, record: SubjectRecord, version_id: str, rids: str, absolute: Any) -> SubjectRecord:
        """The index of a version that has only these rids (a query, column b) of another, with all layers merged into
        one.
        """
        found = owners_query(layers_of(record), absolute)
        table = f"subjects_{self._made}"
        self.connection.execute(
            f"CREATE TEMP TABLE {table} AS SELECT o.hash, o.rid FROM ({found}) o SEMI JOIN ({rids}) r ON r.b = o.rid"
        )
        persons = (
            f"SELECT hash, row_number() OVER (ORDER BY hash) - 1 AS person FROM (SELECT DISTINCT hash FROM {table})"
        )
        self.connection.execute(f"CREATE TEMP TABLE {table}_persons AS {persons}")
        layer = self._write_layer(
            f"SELECT hash, person FROM {table}_persons ORDER BY hash",
            f"SELECT p.person AS a, t.rid AS b FROM {table} t JOIN {table}_persons p USING (hash) ORDER BY a, b",
        )
        count = self._count(f"{table}_persons"), self._count(table)
        for each in (table, f"{table}_persons"):
            self.connection.execute(f"DROP TABLE {each}")
        return SubjectRecord(
            version_id, record.kind, record.column, self.folder.run_id, record.key_id, *count, layers_json([layer])
        )

    def _write_layer(self, persons: str, rows: str) -> Layer:
        import pyarrow.parquet as pq

        base = self.folder.path / "subjects"
        with translate_disk_errors(self.folder.home.path):
            base.mkdir(parents=True, exist_ok=True)
            while (base / f"{self._made}.persons.parquet").exists():
                self._made += 1
            path = base / f"{self._made}.persons.parquet"
            reader = self.connection.sql(persons).to_arrow_reader(PERSONS_GROUP)
            with pq.ParquetWriter(path, reader.schema, compression="none", use_dictionary=False) as writer:
                for batch in reader:
                    writer.write_batch(batch, row_group_size=PERSONS_GROUP)
            pairs = write_pairs(base / f"{self._made}.rows", self.connection.sql(rows).to_arrow_reader(ROW_GROUP))
        self._made += 1
        return Layer(self.folder.home.relative(path), self.folder.home.relative(pairs))

    def _count(self, table: str) -> int:
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])

    def _column_name(self, declared: DeclaredSubject, scan: VersionScan) -> str:
        names = [each.name for each in scan.version.columns]
        found = next((name for name in names if name.lower() == declared.column.lower()), None)
        if found is None:
            raise SourceError(
                f"source '{declared.source}' has no column '{declared.column}', which is declared to identify its "
                f"{declared.kind}s apart; columns: {', '.join(names)}"
            )
        return found

    def _refuse_changed(self, declared: DeclaredSubject, scan: VersionScan) -> None:
        if scan.version.kind != "source":
            return
        for file, path in zip(scan.version.files, scan.paths, strict=True):
            if has_changed(file, path):
                raise SourceError(
                    f"source '{declared.source}' changed before its {declared.kind}s were noted: file '{Path(path)}'",
                    hint="run the workflow again",
                )


def owners_query(layers: Sequence[Layer], absolute: Any, hashes: str | None = None) -> str:
    """A query (hash, rid) of the person of each row, restricted to these hashes (values of a column `hash`) if
    given.
    """
    parts = []
    for layer in layers:
        persons, rows = (f"read_parquet({file_literal(absolute(path))})" for path in (layer.persons, layer.rows))
        only = "" if hashes is None else f" WHERE p.hash IN ({hashes})"
        text = f"SELECT p.hash, r.b AS rid FROM {rows} r JOIN {persons} p ON p.person = r.a{only}"
        if layer.without:
            gone = ", ".join(file_literal(absolute(path)) for path in layer.without)
            text = f"SELECT x.* FROM ({text}) x ANTI JOIN read_parquet([{gone}]) gone ON gone.a = x.rid"
        parts.append(text)
    return " UNION ALL ".join(parts) or "SELECT ''::BLOB AS hash, NULL::BIGINT AS rid WHERE false"
