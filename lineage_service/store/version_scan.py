"""SQL over a version's rows: the user's columns and `_rid`. File and column names are quoted.

Builds text only, except that the footers of odd files are read to distinguish their columns from positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lineage_service.equivalence.intervals import duckdb_interval
from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.store.checksums import verify, verify_rows, verify_touched
from lineage_service.store.duckdb_engine import (
    column,
    file_literal,
    literal,
    numbered_scan,
    parquet_scan,
    private_column,
    unverified_file_literal,
)
from lineage_service.store.patched_rids import AS, AT, PatchedRids
from lineage_service.store.versions import Version, VersionFile, file_of, parquet_footer

if TYPE_CHECKING:
    import pyarrow as pa

RID = "_rid"
_AT, _AS = private_column("at"), private_column("as")


@dataclass(frozen=True)
class VersionScan:
    """A version with its files' real paths."""

    version: Version
    paths: tuple[str, ...]
    absolute: Callable[[str], str] = str

    def position(self, rid: int) -> int | None:
        """The position of the row with a rid; None if there is none. For a patched version it is the rid itself."""
        if not self.version.is_patched:
            return self.version.rids.position(rid)
        return rid if self._patched_rids.holds(rid) else None

    def file_and_row(self, rid: int) -> tuple[int, int] | None:
        """For a patched version, the number of the file that contains a row, and its position there."""
        return self._patched_rids.place(rid)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """Every file that a scan opens: data, and the files of positions and rids."""
        sides = (side for file in self.version.files for side in (file.without, file.only) if side is not None)
        return (*self.paths, *(self.absolute(side) for side in sides))

    @cached_property
    def _patched_rids(self) -> PatchedRids:
        return PatchedRids(self.version.files, self.absolute)

    def select(self, columns: Sequence[str] | None = None) -> str:
        """All rows: the given columns (all if None), then `_rid`."""
        if not self.version.files:
            return self._select_no_rows(columns)
        files = self.version.files
        if self.version.is_patched or any(file.odd for file in files):
            parts = [self._select_file(index, columns) for index in range(len(self.paths))]
            return self._with_gaps(" UNION ALL ".join(parts))
        scan, position = parquet_scan(self.paths, [file.base for file in files])
        return self._with_gaps(f"SELECT {self._columns(columns, files)}{position} AS {RID} FROM {scan}")

    def select_positions(
        self, positions: Sequence[int], columns: Sequence[str] | None = None, files: Collection[int] | None = None
    ) -> str:
        """The rows at these positions. Row groups without any of them are not read. `files` are the files that contain
        them, if known.
        """
        by_file: dict[int, list[int]] = {}
        if self.version.is_patched:
            for index, file in enumerate(self.version.files):
                if files is not None and index not in files:
                    continue
                here = (
                    positions if file.only else [each - file.base for each in positions if self._covers_rid(file, each)]
                )
                if here:
                    by_file[index] = list(here)
        else:
            for position in positions:
                index = file_of(self.version.files, position)
                by_file.setdefault(index, []).append(position - self.version.files[index].base)
        if not by_file:
            return self._select_no_rows(columns)
        return self._with_gaps(
            " UNION ALL ".join(
                self._select_file(
                    index, columns, f" WHERE {self._row_key(index)} IN ({', '.join(map(str, rows))})", rows
                )
                for index, rows in by_file.items()
            )
        )

    def _covers_rid(self, file: VersionFile, rid: int) -> bool:
        return file.base <= rid < file.base + file.rows

    def _row_key(self, index: int) -> str:
        """The expression that identifies the rows of a file: their positions in it, or their assigned rids."""
        return f"only_rows.{_AS}" if self.version.files[index].only else "file_row_number"

    def ids(self, name: str, positions: Sequence[int] | None = None) -> str:
        """An id column of ours with each row's rid, as (a, b); restricted to positions if these are given.

        Rows added by a refresh have their ids elsewhere.
        """
        own = [index for index, file in enumerate(self.version.files) if file.only is None]
        if not own:
            return "SELECT NULL::BIGINT AS a, NULL::BIGINT AS b WHERE false"
        files, paths = [self.version.files[index] for index in own], [self.paths[index] for index in own]
        odd = any(file.odd for file in files)
        verified = self._verify_positions(own, positions)
        scan, position = parquet_scan(paths, None if odd else [file.base for file in files], verified=verified)
        where = "" if positions is None else f" AND {position} IN ({', '.join(map(str, positions)) or 'NULL'})"
        if positions is not None and len(paths) == 1 and not odd and files[0].base == 0:
            where = f" AND file_row_number IN ({', '.join(map(str, positions)) or 'NULL'})"
        text = f"SELECT {column(name)} AS b, {position} AS {RID} FROM {scan} WHERE {column(name)} IS NOT NULL{where}"
        return f"SELECT {RID} AS a, b FROM ({self._with_gaps(text)})"

    def select_handles(self, names: Sequence[str], positions: Sequence[int] | None = None) -> str:
        """Columns of ours with each row's `_rid`; restricted to positions if these are given."""
        columns = "".join(f"{column(name)}, " for name in names)
        if not self.version.files:
            nothing = "".join(f"NULL::BIGINT AS {column(name)}, " for name in names)
            return f"SELECT {nothing}NULL::BIGINT AS {RID} WHERE false"
        odd = any(file.odd for file in self.version.files)
        bases = None if odd else [file.base for file in self.version.files]
        verified = self._verify_positions(range(len(self.paths)), positions)
        scan, position = parquet_scan(self.paths, bases, verified=verified)
        at = "file_row_number" if len(self.paths) == 1 and not odd and not self.version.files[0].base else position
        where = "" if positions is None else f" WHERE {at} IN ({', '.join(map(str, positions)) or 'NULL'})"
        return self._with_gaps(f"SELECT {columns}{position} AS {RID} FROM {scan}{where}")

    def _verify_positions(self, files: Iterable[int], positions: Sequence[int] | None) -> bool:
        """Verifies the row groups of these positions. Returns False if whole files are read."""
        if positions is None or self.version.is_patched:
            return False
        for index in files:
            file = self.version.files[index]
            verify_rows(self.paths[index], [each - file.base for each in positions if self._covers_rid(file, each)])
        return True

    def select_joined(
        self,
        table: str,
        files: Sequence[int],
        columns: Sequence[str] | None = None,
        touches: Callable[[int, int], bool] | None = None,
    ) -> str:
        """The rows of these files whose positions are in a table (column b). Row groups without any are skipped,
        because the comparison is with the position in the file. `touches` returns whether any position of a half-open
        range is in the table.
        """
        parts = []
        for index in files:
            file = self.version.files[index]
            if touches is None or file.only:
                verify(self.paths[index])
            else:
                verify_touched(self.paths[index], _offset_range_test(touches, file.base))
            here = f"SELECT b - {file.base} AS b FROM {table} WHERE b >= {file.base} AND b < {file.base + file.rows}"
            here = f"SELECT b FROM {table}" if file.only else here
            parts.append(
                self._select_file(
                    index, columns, f" SEMI JOIN ({here}) wanted ON wanted.b = {self._row_key(index)}", ()
                )
            )
        return self._with_gaps(" UNION ALL ".join(parts)) if parts else self._select_no_rows(columns)

    def _select_file(
        self, index: int, columns: Sequence[str] | None, only: str = "", rows: Sequence[int] | None = None
    ) -> str:
        """Rows of one file. `only` follows the scan; `rows` are the positions that it then reads."""
        file = self.version.files[index]
        if rows is None or (file.only and rows):
            verify(self.paths[index])
        else:
            verify_rows(self.paths[index], rows)
        scan, names = f"read_parquet({unverified_file_literal(self.paths[index])}, hive_partitioning = false)", None
        if file.odd:
            scan, names = numbered_scan(self.paths[index], list(parquet_footer(self.paths[index]).types))
        chosen, rid = self._columns(columns, [file], names), f"(file_row_number + {file.base})"
        if file.only:
            given = f"(SELECT {AT} AS {_AT}, {AS} AS {_AS} FROM read_parquet({file_literal(self.absolute(file.only))}))"
            scan, rid = f"{scan} JOIN {given} only_rows ON only_rows.{_AT} = file_row_number", f"only_rows.{_AS}"
        elif file.without:
            gone = f"(SELECT {AT} AS {_AT} FROM read_parquet({file_literal(self.absolute(file.without))}))"
            scan = f"{scan} ANTI JOIN {gone} gone_rows ON gone_rows.{_AT} = file_row_number"
        return f"SELECT {chosen}{rid} AS {RID} FROM {scan}{only}"

    def _columns(
        self, wanted: Sequence[str] | None, files: Sequence[VersionFile], names: Mapping[str, str] | None = None
    ) -> str:
        """The wanted columns in the types that Spark saw. `names` are those of an odd file; columns that it lacks are
        null.
        """
        inside = None if names is None else {name.lower(): number for name, number in names.items()}
        parts = []
        for each in self.version.columns:
            if wanted is not None and each.name not in wanted:
                continue
            if each.stored is None:
                value = _folder_value([file.partitions.get(each.original) for file in files])
            else:
                value = column(each.stored) if inside is None else inside.get(each.stored.lower(), "NULL")
            # Text stays as the file has it: a cast would spell out the bytes of what is not marked as text there.
            as_is = each.type == "string" and each.stored is not None and value != "NULL"
            parts.append(f"{value if as_is else _cast_expression(value, each.type)} AS {column(each.name)}, ")
        return "".join(parts)

    def _with_gaps(self, select: str) -> str:
        if self.version.is_patched:
            return select
        rids = self.version.rids
        if rids.dense:
            return select
        segments = ", ".join(f"({start}, {ahead})" for start, ahead in rids.segments)
        return (
            f"SELECT t.* REPLACE (t.{RID} + g.ahead AS {RID}) FROM ({select}) t "
            f"ASOF JOIN (VALUES {segments}) g(start, ahead) ON t.{RID} >= g.start"
        )

    def all_rids(self) -> str:
        """Every rid of the version, as column b, without reading its files."""
        if self.version.is_patched:
            return " UNION ALL ".join(self._rids_of(file) for file in self.version.files)
        rids = self.version.rids
        if rids.dense:
            return f"SELECT range AS b FROM range({rids.rows})"
        segments = ", ".join(f"({start}, {ahead})" for start, ahead in rids.segments)
        return (
            f"SELECT t.range + g.ahead AS b FROM range({rids.rows}) t "
            f"ASOF JOIN (VALUES {segments}) g(start, ahead) ON t.range >= g.start"
        )

    def without_files(self, files: Collection[int]) -> VersionScan:
        """The same rows with the same rids, without those of some files."""
        kept = [index for index in range(len(self.paths)) if index not in files]
        if self.version.gaps and not self.version.is_patched:
            raise ValueError("rids of a version with gaps are not told by its files")
        version = replace(self.version, files=tuple(self.version.files[index] for index in kept), top=self.version.end)
        return VersionScan(version, tuple(self.paths[index] for index in kept), self.absolute)

    def rids_of_file(self, index: int) -> str:
        """The rids of the rows of one file, as column b."""
        if self.version.is_patched or self.version.rids.dense:
            return self._rids_of(self.version.files[index])
        file, rids = self.version.files[index], self.version.rids
        segments = ", ".join(f"({start}, {ahead})" for start, ahead in rids.segments)
        return (
            f"SELECT t.range + g.ahead AS b FROM range({file.base}, {file.base + file.rows}) t "
            f"ASOF JOIN (VALUES {segments}) g(start, ahead) ON t.range >= g.start"
        )

    def given_rids(self, index: int) -> pa.Array:
        """The rids that were assigned to the rows of a file."""
        return self._patched_rids.column(str(self.version.files[index].only), AS)

    def removed_rids(self, index: int) -> pa.Array:
        """The rids of removed rows of a file."""
        import pyarrow.compute as pc

        file = self.version.files[index]
        return pc.add(self._patched_rids.column(str(file.without), AT), file.base)

    def _rids_of(self, file: VersionFile) -> str:
        if file.only:
            return f"SELECT {AS} AS b FROM read_parquet({file_literal(self.absolute(file.only))})"
        numbers = f"SELECT range AS b FROM range({file.base}, {file.base + file.rows})"
        if not file.without:
            return numbers
        gone = f"SELECT {AT} + {file.base} AS b FROM read_parquet({file_literal(self.absolute(file.without))})"
        return f"SELECT n.b FROM ({numbers}) n ANTI JOIN ({gone}) g ON g.b = n.b"

    def nan_safe(self, query: str, columns: Sequence[str] | None = None, *, intervals: bool = False) -> str:
        """`_rid` and the columns of a query over these rows, in a form for which DuckDB does not use file statistics,
        which ignore NaN.

        intervals: as values of INTERVAL, for expressions of users, and not as the stored numbers
        """
        shown = [RID]
        for each in self.version.columns:
            if columns is None or each.name in columns:
                name, floating = column(each.name), each.type in ("double", "float")
                nan = f"if(isnan({name}), 'nan'::{each.type.upper()}, {name}) AS {name}"
                interval = duckdb_interval(name, each.type) if intervals else None
                shown.append(nan if floating else f"{interval} AS {name}" if interval is not None else name)
        return f"SELECT {', '.join(shown)} FROM ({query})"

    def select_no_rows(self) -> str:
        """No rows, with all columns and their types, without reading a file."""
        return self._select_no_rows(None)

    def _select_no_rows(self, columns: Sequence[str] | None) -> str:
        names = [each for each in self.version.columns if columns is None or each.name in columns]
        parts = "".join(f"{_cast_expression('NULL', each.type)} AS {column(each.name)}, " for each in names)
        return f"SELECT {parts}CAST(NULL AS BIGINT) AS {RID} WHERE false"


def _offset_range_test(touches: Callable[[int, int], bool], base: int) -> Callable[[int, int], bool]:
    return lambda first, end: touches(first + base, end + base)


def _folder_value(values: Sequence[str | None]) -> str:
    """A partition column's value: a constant, or looked up by the number of the row's file."""
    texts = ["NULL" if value is None else literal(value) for value in values]
    if len(set(texts)) == 1:
        return texts[0]
    return f"([{', '.join(texts)}])[(file_index + 1)::BIGINT]"


def _cast_expression(value: str, spark_type: str) -> str:
    """A value cast to Spark's type; uncast if the type has no name in DuckDB."""
    kind = duckdb_type(spark_type)
    return value if kind is None else f"CAST({value} AS {kind})"
