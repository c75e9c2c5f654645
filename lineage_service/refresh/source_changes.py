"""Converts changes of a source that a user states into removed and added rows with their rids.

A corrected row keeps its rid; an added row gets the next one. Corrections that change nothing are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.errors import NotFound, QuestionError, did_you_mean, join_names
from lineage_service.query.query_engine import QueryEngine
from lineage_service.refresh.row_replacement import exact_values
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.formats.format_registry import formats_of_change_files
from lineage_service.store.layout import translate_disk_errors
from lineage_service.store.patched_rids import CAME
from lineage_service.store.version_patcher import AddedFile, Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version, VersionColumn, VersionFile, file_state, parquet_footer

Rows = str | Path | Sequence[Mapping[str, Any]] | Any  # a file, rows as dicts, or an Arrow table


@dataclass(frozen=True)
class SourceChange:
    """A source before and after a change: the new version, the rids removed and added. A corrected row is in both.

    `readable`: whether the removed rows can still be read. `found`: the change was detected from the files.
    """

    name: str
    before: Version
    after: Version
    removed_rids: Ids
    added_rids: Ids
    readable: bool = True
    found: bool = False

    @property
    def counts(self) -> dict[str, int]:

        both = len(np.intersect1d(self.removed_rids, self.added_rids))
        return {"removed": len(self.removed_rids) - both, "changed": both, "added": len(self.added_rids) - both}


@dataclass(frozen=True)
class SourceChangeBuilder:
    """Builds the changes of one source, as its run read it. `correction` is the name of the option for corrections,
    used in messages.
    """

    engine: QueryEngine
    patcher: Patcher
    name: str
    scan: VersionScan
    correction: str = "--changed"

    def build(self, removed: Ids, changed: Rows | None, added: Rows | None, key: Sequence[str]) -> SourceChange:
        """The source with rows removed, corrected and added. Raises QuestionError if a change does not fit the
        source.
        """

        parts: list[str] = []
        removed_rids = np.unique(removed)
        changed, added = (None if _is_empty(rows) else rows for rows in (changed, added))
        if changed is not None:
            table = self._corrected_rows(self._read(changed, self.correction), key)
            both = np.intersect1d(removed_rids, self._ids(f"SELECT {RID} FROM {table}"))
            if len(both):
                raise QuestionError(f"row {both[0]} of '{self.name}' is both removed and changed")
            parts.append(f"SELECT * FROM {table}")
            removed_rids = np.union1d(removed_rids, self._ids(f"SELECT {RID} FROM {table}"))
        if added is not None:
            parts.append(f"SELECT * FROM {self._added_rows(self._read(added, '--added'))}")
        files = self._write_files(" UNION ALL ".join(parts)) if parts else []
        added_rids = np.sort(np.concatenate([each.rids for each in files])) if files else np.array([], np.int64)
        after = self.patcher.patch_version(self.scan.version, removed_rids, files)
        return SourceChange(self.name, self.scan.version, after, removed_rids, added_rids)

    # --- reading the given rows -------------------------------------------------------------------------------

    def _read(self, rows: Rows, what: str) -> str:
        """A table of the given rows."""
        if isinstance(rows, str | Path):
            path = Path(rows)
            readers = formats_of_change_files()
            form = readers.get(path.suffix.lower())
            if form is None:
                raise QuestionError(f"{what}: '{path}' is no file of rows; suffixes: {', '.join(readers)}")
            if not path.is_file():
                raise QuestionError(f"{what}: file '{path}' is not there")
            try:
                found = form.changed_rows(path)
            except (OSError, ValueError) as error:
                name = form.declaration.name.upper()
                raise QuestionError(f"{what}: '{path}' cannot be read as {name} ({type(error).__name__})") from None
            if isinstance(found, str):
                return self._keep_readable(found, what)
            return self._load_table(self._arrow_table(found, what), what)
        return self._load_table(self._arrow_table(rows, what), what)

    def _load_table(self, table: pa.Table, what: str) -> str:
        connection = self.engine.connection
        connection.register("rows_given", table)
        try:
            return self._keep_readable("SELECT * FROM rows_given", what)
        finally:
            connection.unregister("rows_given")

    def _arrow_table(self, rows: Rows, what: str) -> pa.Table:
        """Rows given in Python: an Arrow table, a data frame, or dicts with identical keys."""
        if isinstance(rows, pa.Table):
            return rows
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.table(rows)
        given: Any = [rows] if isinstance(rows, Mapping) else rows
        try:
            listed_rows = [dict(each) for each in given]
            if any(each.keys() != listed_rows[0].keys() for each in listed_rows):
                raise QuestionError(f"{what}: the rows have different columns", hint="give rows of the same columns")
            return pa.Table.from_pylist(listed_rows)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise QuestionError(f"{what}: the rows cannot be read ({type(error).__name__})") from None

    def _keep_readable(self, query: str, what: str) -> str:
        self._column_types(query, what)
        return self.engine.keep(query)

    def _column_types(self, query: str, what: str) -> dict[str, str]:
        import duckdb

        try:
            return {row[0]: row[1] for row in self.engine.connection.execute(f"DESCRIBE {query}").fetchall()}
        except duckdb.Error as error:
            raise QuestionError(f"{what}: the rows cannot be read ({type(error).__name__})") from None

    def _cast_columns(self, table: str, what: str, *, every: bool) -> dict[str, str]:
        """The given columns of the source, as expressions over table `g`, cast to the source's types."""
        given = {name.lower(): name for name in self.engine.types(f"SELECT * FROM {table}")}
        own = {each.name.lower(): each for each in self.scan.version.columns}
        unknown = [name for lower, name in given.items() if lower not in own and lower != RID]
        names = [each.name for each in self.scan.version.columns]
        if unknown:
            raise QuestionError(
                f"{what}: unknown column '{unknown[0]}'; columns of '{self.name}': {join_names(names)}",
                hint=did_you_mean(unknown[0], names),
            )
        lacking = [each.name for lower, each in own.items() if lower not in given]
        if every and lacking:
            raise QuestionError(f"{what}: the rows lack column {join_names(lacking)} of '{self.name}'")
        found = {}
        for lower, each in own.items():
            if lower in given:
                found[each.name] = self._cast_column(table, given[lower], each, what)
        return found

    def _cast_column(self, table: str, name: str, own: VersionColumn, what: str) -> str:
        kind, value = duckdb_type(own.type), f"g.{column(name)}"
        if kind is None:
            kind = self.engine.types(self.scan.select([own.name]))[own.name]
        cast, given = f"TRY_CAST({value} AS {kind})", self.engine.types(f"SELECT {column(name)} FROM {table}")[name]
        unfit = f"{cast} IS NULL"
        if "BOOLEAN" in (given, kind) and given not in (kind, "VARCHAR"):
            unfit = "true"
        elif kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT") or kind.startswith("DECIMAL"):
            # A number that would be rounded does not fit.
            exact = "DECIMAL(38,15)"
            unfit += f" OR TRY_CAST({value} AS {exact}) <> TRY_CAST({cast} AS {exact})"
        # Distinct values: a value repeated in many rows is one mistake.
        wrong = self.engine.scalar(
            f"SELECT count(DISTINCT {value}) FROM {table} g WHERE {value} IS NOT NULL AND ({unfit})"
        )
        if wrong:
            count_text = "1 value" if wrong == 1 else f"{wrong:,} values"
            verb = "is" if wrong == 1 else "are"
            raise QuestionError(f"{what}: {count_text} of column '{own.name}' of '{self.name}' {verb} no {own.type}")
        return f"CAST({value} AS {kind})"

    # --- corrected and added rows -----------------------------------------------------------------------------

    def _corrected_rows(self, table: str, key: Sequence[str]) -> str:
        """Complete rows with the given values in place of the old ones; only rows that differ."""
        values = self._cast_columns(table, self.correction, every=False)
        names = {name.lower(): name for name in self.engine.types(f"SELECT * FROM {table}")}
        scan = self.scan.select()
        if RID in names:
            on = f"TRY_CAST(g.{column(names[RID])} AS BIGINT) = t.{RID}"
            text = f"CAST(g.{column(names[RID])} AS VARCHAR)"
            if self.engine.scalar(f"SELECT count(*) FROM {table} g WHERE NOT regexp_full_match({text}, '[0-9]+')"):
                raise QuestionError(f"{self.correction}: a '_rid' is no row id", hint="row ids are whole numbers")
        else:
            by = {name.lower(): name for name in values}
            unknown = [name for name in key if name.lower() not in by]
            if not key or unknown:
                raise QuestionError(
                    f"{self.correction}: the rows have no column '_rid'"
                    if not key
                    else f"{self.correction}: no key column '{unknown[0]}'",
                    hint="rows to change are identified by '_rid', or by the columns named with --key",
                )
            on = " AND ".join(
                f"{values[by[name.lower()]]} IS NOT DISTINCT FROM t.{column(by[name.lower()])}" for name in key
            )
        paired = self.engine.keep(
            f"SELECT t.{RID} AS rid_of_row, g.* FROM (SELECT *, row_number() OVER () AS number_given FROM {table}) g "
            f"LEFT JOIN ({scan}) t ON {on}"
        )
        self._refuse_unmatched(paired, by_rid=RID in names)
        shown = [
            f"{values[each.name]} AS {column(each.name)}"
            if each.name in values
            else f"t.{column(each.name)} AS {column(each.name)}"
            for each in self.scan.version.columns
        ]
        kinds = {each.name: each.type for each in self.scan.version.columns}
        differs = " OR ".join(_differ(value, f"t.{column(name)}", kinds[name]) for name, value in values.items())
        differs = differs or "false"
        return self.engine.keep(
            f"SELECT {', '.join(shown)}, t.{RID} FROM {paired} g JOIN ({scan}) t ON t.{RID} = g.rid_of_row "
            f"WHERE {differs}"
        )

    def _refuse_unmatched(self, paired: str, *, by_rid: bool) -> None:
        missing = self.engine.scalar(f"SELECT count(*) FROM {paired} WHERE rid_of_row IS NULL")
        if missing:
            some = ""
            if by_rid:
                rids = self.engine.ids(f"SELECT {RID} FROM {paired} WHERE rid_of_row IS NULL ORDER BY 1 LIMIT 6")
                some = f": row {join_names([str(rid) for rid in rids], 5)}"
            raise NotFound(
                f"{self.correction}: {missing} of the rows are not in '{self.name}'{some}", hint="nothing was changed"
            )
        twice = self.engine.ids(f"SELECT rid_of_row FROM {paired} GROUP BY 1 HAVING count(*) > 1 LIMIT 1")
        if twice:
            raise QuestionError(f"{self.correction}: row {twice[0]} of '{self.name}' is changed twice")

    def _added_rows(self, table: str) -> str:
        if RID in self.engine.types(f"SELECT * FROM {table}"):
            raise QuestionError(f"--added: new rows are given their '{RID}'", hint="leave that column out")
        values = self._cast_columns(table, "--added", every=True)
        shown = [f"{values[each.name]} AS {column(each.name)}" for each in self.scan.version.columns]
        number = f"row_number() OVER () - 1 + {self.scan.version.end}"
        return self.engine.keep(f"SELECT {', '.join(shown)}, {number} AS {RID} FROM {table} g")

    def _write_files(self, query: str) -> list[AddedFile]:
        """Writes rows to files named like the source's own files, one per combination of partition values."""
        rows = self.engine.keep(query)
        if not self.engine.scalar(f"SELECT count(*) FROM {rows}"):
            return []
        stored = [each for each in self.scan.version.columns if each.partition is None]
        folders = [each for each in self.scan.version.columns if each.partition is not None]
        columns = ", ".join(f"{column(each.name)} AS {column(each.original)}" for each in stored)
        apart = ", ".join(f"CAST({column(each.name)} AS VARCHAR)" for each in folders)
        values = self.engine.rows(f"SELECT DISTINCT {apart} FROM {rows} ORDER BY ALL") if folders else [()]
        files = []
        folder = self.patcher.folder.snapshot(self.name)
        with translate_disk_errors(self.patcher.folder.home.path):
            folder.mkdir(parents=True, exist_ok=True)
        for number, value in enumerate(values):
            same = [
                f"CAST({column(each.name)} AS VARCHAR) IS NOT DISTINCT FROM {'NULL' if text is None else literal(text)}"
                for each, text in zip(folders, value, strict=True)
            ]
            where = f" WHERE {' AND '.join(same)}" if same else ""
            path = folder / f"{CAME}{number:05d}.parquet"
            self.engine.rows(
                f"COPY (SELECT {columns} FROM {rows}{where} ORDER BY {RID}) TO {literal(str(path))} (FORMAT parquet)"
            )
            rids = self._ids(f"SELECT {RID} FROM {rows}{where} ORDER BY {RID}")
            partitions = {each.original: text for each, text in zip(folders, value, strict=True)}
            files.append(added_file(self.patcher, path, rids, partitions))
        return files

    def _ids(self, query: str) -> Ids:
        found: Ids = self.engine.id_array(query).to_numpy(zero_copy_only=False).astype("int64")
        return found


def _is_empty(rows: Rows | None) -> bool:
    return isinstance(rows, list | tuple) and not rows


def _differ(one: str, other: str, kind: str) -> str:
    """A predicate that two values differ. For floating-point numbers, the sign of zero matters."""
    pairs = zip(exact_values(one, kind), exact_values(other, kind), strict=True)
    return " OR ".join(f"{left} IS DISTINCT FROM {right}" for left, right in pairs)


def added_file(patcher: Patcher, path: Path, rids: Ids, partitions: Mapping[str, str | None]) -> AddedFile:
    """A file in which all rows are added, with these rids."""

    state = file_state(str(path))
    inside = patcher.folder.home.relative(path)
    footer = parquet_footer(str(path))
    rows, odd = footer.rows, footer.is_odd(())
    file = VersionFile(inside, state.size, state.mtime_ns, state.fingerprint, rows, 0, dict(partitions), odd)
    return AddedFile(file, np.arange(rows, dtype=np.int64), rids)
