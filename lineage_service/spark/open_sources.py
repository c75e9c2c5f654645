"""Opens the sources of a workflow as versions and relations: in place, from a snapshot, or another workflow's
output.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import DataType, StructField, StructType

from lineage_service.equivalence.spark_settings import REBASE
from lineage_service.equivalence.stored_values import is_read_alike
from lineage_service.errors import LineageError, NotFound, Position, Problem, SourceError, StoreError
from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.schema import Column
from lineage_service.spark.faults import analysing, executing
from lineage_service.spark.file_scan import in_utc, read_files
from lineage_service.spark.snapshot import open_text, records_per_file, refuse_bad_records, write_snapshot
from lineage_service.spark.source_relation import OpenSource
from lineage_service.spec.models import SourceSpec
from lineage_service.store.formats.format_registry import format_of_source
from lineage_service.store.formats.parquet_format import refuse_mixed_types
from lineage_service.store.layout import RunFolder, translate_disk_errors
from lineage_service.store.listing import Listing
from lineage_service.store.output_versions import version_of_folder
from lineage_service.store.schema_without_spark import apply_renames
from lineage_service.store.versions import (
    FileState,
    Footer,
    OriginalFile,
    Version,
    VersionColumn,
    VersionFile,
    file_state,
    is_as_written,
    parquet_footer,
    version_id,
)


def _no_version(name: str) -> Version:
    raise StoreError(f"'{name}' is not looked up again")


@dataclass(frozen=True)
class SourceOpener:
    """Opens the sources of one run. `version_of` finds the version of a dataset name, `known` a version by id. Neither
    is needed to reopen what a run read or wrote.
    """

    spark: SparkSession
    folder: RunFolder
    workflow_folder: Path = Path()
    version_of: Callable[[str], Version] = _no_version
    known: Callable[[str], Version | None] = lambda _: None

    def open(self, name: str, source: SourceSpec, position: Position | None) -> OpenSource:
        try:
            return self._open(name, source, position)
        except LineageError as error:
            raise type(error)([_locate_problem(problem, name, position) for problem in error.problems]) from error

    def reopen(self, name: str, source: SourceSpec, version: Version) -> OpenSource:
        """Opens a source as a run read it."""
        if source.output is not None:
            return self._open_output(name, source, version, None)
        is_copy = format_of_source(source).is_read_in_place
        return self._open_from_home(name, version, None, source if is_copy else None)

    def reopen_dataset(self, name: str, version: Version) -> OpenSource:
        """Opens a dataset that a run wrote."""
        return self._open_from_home(name, version, None)

    def _open(self, name: str, source: SourceSpec, position: Position | None) -> OpenSource:
        if source.output is not None:
            return self._open_output(name, source, self.version_of(source.output), position)
        form = format_of_source(source)
        found = form.list_files(str(source.path), self.workflow_folder)
        states = [file_state(path) for path in found.files]
        reading = json.dumps(
            [source.file_format, source.reader_options, source.schema_, source.rename, source.snapshot]
        )
        identity = version_id("source", states, reading)
        if form.is_read_in_place and not source.snapshot:
            return self._open_in_place(name, source, found, states, identity, position)
        version = self.known(identity)
        if version is not None and not self._has_files(version):
            # The catalog never changes a version: a new copy of one that was lost is a version of its own.
            identity, version = version_id("source", states, f"{reading} {self.folder.run_id}"), None
        if version is None:
            make = self._copy_parquet if form.is_read_in_place else self._take_snapshot
            version = make(name, source, found, states, identity, position)
            if [file_state(path) for path in found.files] != states:
                raise SourceError(f"source '{name}' changed while it was copied", hint="run again when it is complete")
        return self._open_from_home(name, version, position, source if form.is_read_in_place else None)

    def _has_files(self, version: Version) -> bool:
        return all(is_as_written(file, self._path(file)) for file in version.files)

    def _path(self, file: VersionFile) -> str:
        return self.folder.home.absolute(file.path)

    def _open_output(self, name: str, source: SourceSpec, version: Version, position: Position | None) -> OpenSource:
        columns = _rename_columns(version.columns, source)
        missing = [file.path for file in version.files if not Path(self._path(file)).is_file()]
        if missing:
            raise NotFound(f"a file of '{source.output}' is missing from the home: '{missing[0]}'")
        return self._open_from_home(name, replace(version, columns=columns), position)

    def _open_in_place(
        self,
        name: str,
        source: SourceSpec,
        listed_files: Listing,
        states: Sequence[FileState],
        identity: str,
        position: Position | None,
    ) -> OpenSource:
        footers = [parquet_footer(path) for path in listed_files.files]
        frame, columns = self._open_parquet(name, source, listed_files, footers, position)
        files = _files(listed_files, states, footers, columns, frame)
        version = Version(identity, "source", files, columns)
        alike = self._engine_safe_columns(source, columns, footers)
        return OpenSource(name, version, listed_files.files, frame, position, alike, source.reader_options)

    def _open_parquet(
        self, name: str, source: SourceSpec, listed_files: Listing, footers: Sequence[Footer], position: Position | None
    ) -> tuple[DataFrame, tuple[VersionColumn, ...]]:
        """Parquet files as Spark reads them, and their columns under the user's names."""
        refuse_mixed_types(listed_files.files, footers)
        with analysing(position, f"source '{name}'"):
            frame = read_files(
                self.spark,
                listed_files.files,
                base=listed_files.base,
                schema=source.schema_,
                options=source.reader_options,
            )
            return frame, _rename_columns(_columns(frame, listed_files), source)

    def _copy_parquet(
        self,
        name: str,
        source: SourceSpec,
        listed_files: Listing,
        originals: Sequence[FileState],
        identity: str,
        position: Position | None,
    ) -> Version:
        """Copies Parquet files byte by byte: same rows, same order, so same rids."""
        footers = [parquet_footer(path) for path in listed_files.files]
        frame, columns = self._open_parquet(name, source, listed_files, footers, position)
        target, states = self.folder.snapshot(name), []
        with translate_disk_errors(self.folder.home.path):
            for number, path in enumerate(listed_files.files):
                folders = [part for part in Path(path).relative_to(listed_files.base).parts[:-1] if "=" in part]
                copy = target.joinpath(*folders, f"part-{number:05d}.parquet")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
                states.append(replace(file_state(str(copy)), path=self.folder.home.relative(copy), real=""))
        return Version(
            identity,
            "snapshot",
            _files(listed_files, states, footers, columns, frame),
            columns,
            origins=_origins(originals, [footer.rows for footer in footers]),
            reading=_reader_settings(source),
        )

    def _take_snapshot(
        self,
        name: str,
        source: SourceSpec,
        listed_files: Listing,
        originals: Sequence[FileState],
        identity: str,
        position: Position | None,
    ) -> Version:
        records = open_text(
            self.spark,
            name,
            format_of_source(source).declaration.reader_name,
            listed_files.files,
            listed_files.base,
            source.schema_,
            source.reader_options,
            position,
        )
        target = self.folder.snapshot(name)
        with executing(position, f"source '{name}'", self.folder.home.path):
            write_snapshot(records, target)
            written = sorted(str(path) for path in target.glob("*.parquet"))
            refuse_bad_records(self.spark, records, written, name, position)
            counts = records_per_file(records, written, self.folder.home.spill)
        types = [(column, records.frame.schema[column].dataType.simpleString()) for column in records.columns]
        version = version_of_folder(target, types, self.folder, kind="snapshot")
        rows = [counts.get(path, 0) for path in listed_files.files]
        return replace(
            version,
            id=identity,
            columns=_rename_columns(version.columns, source),
            # Where Spark names a file otherwise than it was listed, no origin is better than a wrong one.
            origins=_origins(originals, rows) if sum(rows) == version.rows else (),
            reading=_reader_settings(source),
        )

    def _open_from_home(
        self, name: str, version: Version, position: Position | None, copied: SourceSpec | None = None
    ) -> OpenSource:
        if version.is_patched:
            return self._open_parts(name, version, position, copied)
        return self._open_files(name, version, position, copied)

    def _open_files(
        self, name: str, version: Version, position: Position | None, copied: SourceSpec | None = None
    ) -> OpenSource:
        paths = tuple(self._path(file) for file in version.files)
        with analysing(position, f"source '{name}'"):
            frame = read_files(
                self.spark,
                paths,
                base=_partition_root(version, paths),
                schema=copied.schema_ if copied else _known_schema(version),
                options=copied.reader_options if copied else None,
            )
            typed = _with_partition_types(frame.schema, version)
            if typed != frame.schema:
                options = copied.reader_options if copied else None
                frame = read_files(
                    self.spark, paths, base=_partition_root(version, paths), schema=typed, options=options
                )
        # What Spark wrote is of the types it names; only of days the files themselves must tell.
        written = copied is None and not any(column.type == "date" for column in version.columns)
        footers = [] if written else [parquet_footer(path) for path in paths]
        alike = self._engine_safe_columns(copied, version.columns, footers)
        return OpenSource(name, version, paths, frame, position, alike, copied.reader_options if copied else {})

    def _open_parts(
        self, name: str, version: Version, position: Position | None, copied: SourceSpec | None
    ) -> OpenSource:
        """Opens a version that shares files with another. The shared files and each file of added rows are read
        separately.
        """
        shared = replace(version, files=tuple(_unpatched_file(file) for file in version.files if file.only is None))
        came = [replace(version, files=(_unpatched_file(file),)) for file in version.files if file.only is not None]
        opened = [self._open_files(name, shared, position, copied)] if shared.files else []
        # A file of the user's own whose rows have rids of their own is read as the others are.
        opened += [
            _with_partition_values(
                self._open_files(name, each, position, copied if Path(each.files[0].path).is_absolute() else None)
            )
            for each in came
        ]
        marked = [tuple(file for file in version.files if file.only is None)] if shared.files else []
        marked += [(file,) for file in version.files if file.only is not None]
        parts = tuple(
            replace(part, version=replace(part.version, files=files))
            for part, files in zip(opened, marked, strict=True)
        )
        alike = frozenset.intersection(*(part.alike for part in parts))
        paths = tuple(self._path(file) for file in version.files)
        return OpenSource(name, version, paths, parts[0].frame, position, alike, {}, parts, self.folder.home.absolute)

    def _engine_safe_columns(
        self, source: SourceSpec | None, columns: Sequence[VersionColumn], footers: Sequence[Footer]
    ) -> frozenset[str]:
        options = {name.lower(): value for name, value in (source.reader_options if source else {}).items()}
        modes = [options.get("datetimerebasemode", ""), *(self.spark.conf.get(key) for key in REBASE)]
        rebased = any(str(mode).upper() == "LEGACY" for mode in modes)
        return frozenset(each.name for each in columns if is_read_alike(each, footers, rebased=rebased))


def _with_partition_types(schema: StructType, version: Version) -> StructType:
    """The schema with the types that partition columns had in the run. Spark infers them from the folder names, which
    may have changed.
    """
    types = {each.partition.lower(): each.type for each in version.columns if each.partition is not None}
    return StructType(
        [
            StructField(field.name, DataType.fromDDL(types[field.name.lower()]))
            if types.get(field.name.lower(), field.dataType.simpleString()) != field.dataType.simpleString()
            else field
            for field in schema.fields
        ]
    )


def _known_schema(version: Version) -> str | None:
    """The schema of files that we wrote, so that no file has to be read; None if a type is too long to be stored as
    text.
    """
    stored = [each for each in version.columns if each.stored is not None]
    if version.kind == "source" or not stored or any("more fields" in each.type for each in stored):
        return None
    return ", ".join(f"{quote_identifier(str(each.stored))} {each.type}" for each in stored)


def _with_partition_values(part: OpenSource) -> OpenSource:
    """Adds partition values from the catalog to added rows, which are in no partition folders."""
    frame, (file,) = part.frame, part.version.files
    for column in part.version.columns:
        if column.partition is not None:
            frame = frame.withColumn(column.original, F.lit(file.partitions.get(column.original)).cast(column.type))
    return replace(part, frame=frame)


def _unpatched_file(file: VersionFile) -> VersionFile:
    return replace(file, without=None, only=None, left_out=0, top=None)


def _partition_root(version: Version, paths: Sequence[str]) -> str | None:
    """The folder above the partition folders of a copy; None if there are none."""
    partitions = version.files[0].partitions if version.files else {}
    if not all(f"{name}=" in paths[0] for name in partitions):
        return None  # rows that came, beside the folders
    return str(Path(paths[0]).parents[len(partitions)]) if partitions else None


def _columns(frame: DataFrame, listed_files: Listing) -> tuple[VersionColumn, ...]:
    """The columns as Spark reads them. If a column is in files and folders, the folders' value counts."""
    folders = {name.lower(): name for name in listed_files.partitions}
    columns = []
    for each in frame.schema.fields:
        folder = folders.get(each.name.lower())
        stored = each.name if folder is None else None
        columns.append(VersionColumn(each.name, each.dataType.simpleString(), stored, folder))
    return tuple(columns)


def _files(
    listed_files: Listing,
    states: Sequence[FileState],
    footers: Sequence[Footer],
    columns: Sequence[VersionColumn],
    frame: DataFrame,
) -> tuple[VersionFile, ...]:
    """The files of a version, in the order of positions, with their states."""
    stored = [column.stored for column in columns if column.stored is not None]
    moments = {column.partition for column in columns if column.partition and column.type == "timestamp"}
    files, base = [], 0
    for path, state, footer in zip(listed_files.files, states, footers, strict=True):
        values, odd = listed_files.partition_values(path), footer.is_odd(stored)
        values |= {name: in_utc(frame.sparkSession, value) for name, value in values.items() if name in moments}
        files.append(
            VersionFile(
                state.path,
                state.size,
                state.mtime_ns,
                state.fingerprint,
                footer.rows,
                base,
                values,
                odd,
                real=state.real,
            )
        )
        base += footer.rows
    return tuple(files)


def _origins(states: Sequence[FileState], rows: Sequence[int]) -> tuple[OriginalFile, ...]:
    """The original files of a snapshot. `rows` are the numbers of records that Spark read from each."""
    bases = accumulate(rows, initial=0)
    return tuple(
        OriginalFile(state.path, state.size, state.mtime_ns, state.fingerprint, count, base, state.real)
        for state, count, base in zip(states, rows, bases, strict=False)
    )


def _reader_settings(source: SourceSpec) -> dict[str, str]:
    options = {name.lower(): value for name, value in source.reader_options.items()}
    return {**options, "format": str(source.file_format)}


def _rename_columns(columns: Sequence[VersionColumn], source: SourceSpec) -> tuple[VersionColumn, ...]:
    """The columns under the user's names. Raises SourceError if a column to rename does not exist or two get the same
    name.
    """
    schema = apply_renames([Column(column.name) for column in columns], source.rename)
    return tuple(replace(column, name=name) for column, name in zip(columns, schema.names, strict=True))


def _locate_problem(problem: Problem, name: str, position: Position | None) -> Problem:
    message = problem.message if f"'{name}'" in problem.message else f"source '{name}': {problem.message}"
    return replace(problem, message=message, position=problem.position or position)
