"""Detects what changed in a source since its run: files added, removed or modified.

If the run kept a copy of the rows, the change is determined row by row. Otherwise the old rows of a modified file are
lost, and all its rows count as removed and all rows of the new file as added.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from lineage_catalog.records import DatasetRecord

from lineage_service.equivalence.type_names import duckdb_type, spark_type_of_arrow
from lineage_service.errors import QuestionError, SourceError
from lineage_service.query.questions import Questions
from lineage_service.refresh.row_replacement import COPY, number_equal_rows, same_values
from lineage_service.refresh.source_changes import SourceChange
from lineage_service.refresh.spark_refresh import SparkRefresh
from lineage_service.spec.models import SourceSpec
from lineage_service.store.duckdb_engine import literal
from lineage_service.store.folder_types import is_spelled_as, kind_of_folders, kind_of_type
from lineage_service.store.listing import Listing, listing
from lineage_service.store.version_patcher import AddedFile, Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import (
    FileState,
    OriginalFile,
    SnapshotCopy,
    Version,
    VersionFile,
    file_state,
    parquet_footer,
    recorded_state,
)


@dataclass(frozen=True)
class ChangeDetector:
    """Detects changes of sources by comparing them with what the run read."""

    ask: Questions
    patcher: Patcher
    spark: SparkRefresh

    def detect(self, source: DatasetRecord, spec: SourceSpec) -> SourceChange | None:
        """The change of a source; None if nothing has changed."""
        version = self.ask.scan(source).version
        if spec.output is not None:
            return self._compare_output(source, spec, version)
        folder = json.loads(source.declared).get("folder")
        if folder is None:
            raise QuestionError(
                f"run '{source.run_id}' did not record where '{source.name}' was read from",
                hint="say what changed with --removed, --changed or --added, or run the workflow once more",
            )
        found = listing(str(spec.path), Path(folder))
        states = [file_state(path) for path in found.files]
        known: list[VersionFile | OriginalFile] = [*version.origins] or [f for f in version.files if f.only is None]
        if version.kind != "source":
            if [recorded_state(each) for each in known] == states and known:
                return None
            return self._compare_with_fresh_copy(source, spec, version)
        return self._compare_files(source, version, found, states)

    # --- files that are read in place (not copied) ------------------------------------------------------------

    def _compare_files(
        self, source: DatasetRecord, version: Version, listed_files: Listing, states: list[FileState]
    ) -> SourceChange | None:
        now = {state.path: state for state in states}
        own = [file for file in version.files if file.only is None]
        stay = [file for file in own if now.get(file.path) == recorded_state(file)]
        went = [file for file in own if file not in stay]
        added = [state for state in states if state.path not in {file.path for file in stay}]
        if not went and not added:
            return None
        if any(each.partition is not None and each.type == "timestamp" for each in version.columns):
            raise QuestionError(f"source '{source.name}' has timestamps in its folder names", hint="run it again")
        end, rids = version.end, list[Ids]()
        removed = [self._rids_of(file) for file in went]
        corrected = [self._corrections_of_files(file, went) for file in version.files if file.only is not None]
        removed += corrected
        patched = self.patcher.patch_version(version, _concatenate_rids(corrected), [])
        files = [file for file in patched.files if file in stay or file.only is not None]
        for state in added:
            footer = parquet_footer(state.path)
            self._refuse_other_schema(source, version, state.path, footer.types)
            stored = [each.stored for each in version.columns if each.stored is not None]
            values, odd = listed_files.partition_values(state.path), footer.is_odd(stored)
            self._refuse_partition_value(source, version, values)
            files.append(
                VersionFile(
                    state.path,
                    state.size,
                    state.mtime_ns,
                    state.fingerprint,
                    footer.rows,
                    end,
                    values,
                    odd,
                    real=state.real,
                )
            )
            rids.append(np.arange(end, end + footer.rows, dtype=np.int64))
            end += footer.rows
        self._refuse_other_partition_type(source, version, files)
        after = self.patcher.replace_files(version, files)
        return SourceChange(
            source.name,
            version,
            after,
            _concatenate_rids(removed),
            _concatenate_rids(rids),
            not any(len(each) for each in removed),
            found=True,
        )

    def _corrections_of_files(self, file: VersionFile, went: list[VersionFile]) -> Ids:
        """Of the added rows, those that replace rows of removed files."""
        rids = self.patcher.rids(str(file.only))
        inside = [(rids >= each.base) & (rids < each.base + each.rows) for each in went]
        return rids[np.logical_or.reduce(inside)] if inside else rids[:0]

    def _rids_of(self, file: VersionFile) -> Ids:
        rids = np.arange(file.base, file.base + file.rows, dtype=np.int64)
        if file.without is None:
            return rids
        return np.setdiff1d(rids, self.patcher.positions(file.without) + file.base)

    def _refuse_other_schema(self, source: DatasetRecord, version: Version, path: str, types: dict[str, str]) -> None:
        """Raises SourceError for a file whose columns differ from those that the run read."""
        own = {name.lower(): kind for name, kind in types.items()}
        for each in version.columns:
            if each.stored is None:
                continue
            kind = own.get(each.stored.lower())
            if kind is None:
                raise SourceError(f"source '{source.name}': file '{path}' lacks column '{each.original}'")
            plain = spark_type_of_arrow(kind)
            if plain is not None and plain != each.type and each.type in _PLAIN:
                raise SourceError(
                    f"source '{source.name}': column '{each.original}' was {each.type} and is {plain} in file '{path}'",
                    hint="nothing was changed",
                )

    def _refuse_partition_value(self, source: DatasetRecord, version: Version, values: dict[str, str | None]) -> None:
        """Raises SourceError for a folder name that is not a value of its partition column."""
        for each in version.columns:
            text, kind = values.get(each.original), duckdb_type(each.type)
            if each.partition is None or text is None or kind is None:
                continue
            unfit = self.ask.engine.scalar(f"SELECT TRY_CAST({literal(text)} AS {kind}) IS NULL")
            if unfit or not is_spelled_as(text, each.type):
                raise SourceError(
                    f"source '{source.name}': a folder '{each.original}=…' is no {each.type}",
                    hint="nothing was changed",
                )

    def _refuse_other_partition_type(self, source: DatasetRecord, version: Version, files: list[VersionFile]) -> None:
        """Raises SourceError if Spark inferred a partition column's type from all folder names and would infer another
        type now.
        """
        for each in version.columns:
            kind = kind_of_type(each.type)
            if each.partition is None or kind is None:
                continue
            then, now = (
                kind_of_folders(file.partitions.get(each.original) for file in some if file.only is None)
                for some in (version.files, files)
            )
            if then == kind != now:
                raise SourceError(
                    f"source '{source.name}': folders '{each.original}=…' were read as {each.type}, and those that "
                    "are there now would not be",
                    hint="nothing was changed; run the workflow again",
                )

    # --- copied files -----------------------------------------------------------------------------------------

    def _compare_with_fresh_copy(
        self, source: DatasetRecord, spec: SourceSpec, version: Version
    ) -> SourceChange | None:
        """Copies the source files again and compares the new copy with the old one."""
        folder = Path(json.loads(source.declared)["folder"])
        fresh = self.spark.copy_source(source.name, spec, folder)
        self._refuse_other_columns(source, version, fresh)
        before, after = self.ask.scan(source), self._scan(fresh)
        compared = self._match_copies(source.name, version, before, fresh, after)
        if compared is None:
            return None
        changed, numbers, rids = compared
        copies = changed.after.copies
        if fresh.origins:
            copies += (SnapshotCopy(fresh.origins, fresh.reading, {file.path: file.base for file in fresh.files}),)
        now = replace(changed.after, origins=fresh.origins, reading=fresh.reading, copies=copies)
        if fresh.origins:
            now = self.patcher.with_positions(now, numbers, rids)
        return replace(changed, after=now)

    def _refuse_other_columns(self, source: DatasetRecord, version: Version, fresh: Version) -> None:
        then, now = ({each.name: each.type for each in one.columns} for one in (version, fresh))
        if list(then.items()) != list(now.items()):
            other = next((name for name in {**then, **now} if then.get(name) != now.get(name)), next(iter(now)))
            raise SourceError(
                f"source '{source.name}' no longer has the columns that the run read: '{other}' differs",
                hint="nothing was changed; run the workflow again",
            )

    def _match_copies(
        self, name: str, version: Version, before: VersionScan, fresh: Version, after: VersionScan
    ) -> tuple[SourceChange, Ids, Ids] | None:
        """Matches the rows of two copies; equal rows are paired in order. Also returns the rids of the new copy's
        records by number.
        """
        engine = self.ask.engine
        old, new = (engine.keep(number_equal_rows(scan.select(), version.columns)) for scan in (before, after))
        same = f"{same_values(version.columns, 'o', 'w')} AND o.{COPY} = w.{COPY}"
        removed = _ids(engine.id_array(f"SELECT o.{RID} FROM {old} o ANTI JOIN {new} w ON {same} ORDER BY 1"))
        added = _ids(engine.id_array(f"SELECT w.{RID} FROM {new} w ANTI JOIN {old} o ON {same} ORDER BY 1"))
        stay = f"FROM {new} w JOIN {old} o ON {same} ORDER BY w.{RID}"
        numbers, kept = (_ids(engine.id_array(f"SELECT {side}.{RID} {stay}")) for side in ("w", "o"))
        engine.drop(old)
        engine.drop(new)
        if not len(removed) and not len(added):
            return None
        end, files, rids = version.end, [], []
        for file in fresh.files:
            here = added[(added >= file.base) & (added < file.base + file.rows)] - file.base
            given = np.arange(end, end + len(here), dtype=np.int64)
            end += len(here)
            files.append(AddedFile(file, here, given))
            rids.append(given)
        changed = SourceChange(
            name,
            version,
            self.patcher.patch_version(version, removed, files),
            removed,
            _concatenate_rids(rids),
            found=True,
        )
        return changed, np.concatenate([numbers, added]), np.concatenate([kept, *rids])

    def _scan(self, version: Version) -> VersionScan:
        home = self.patcher.folder.home
        return VersionScan(version, tuple(home.absolute(file.path) for file in version.files), home.absolute)

    # --- another workflow's output ----------------------------------------------------------------------------

    def _compare_output(self, source: DatasetRecord, spec: SourceSpec, version: Version) -> SourceChange | None:
        """Compares an output of another workflow. If it was refreshed, rids determine the changed rows; if it is of
        another run, all rows count as changed.
        """
        found = self.ask.find(str(spec.output))
        if found.version_id == source.version_id:
            return None
        before = self.ask.scan(source)
        renamed = self._rename_columns(source, before.version, self.ask.scan(found).version)
        after = VersionScan(renamed, self.ask.scan(found).paths, self.patcher.folder.home.absolute)
        engine = self.ask.engine
        if not self._descends(found, source):
            every = [_ids(engine.id_array(each.all_rids())) for each in (before, after)]
            return SourceChange(source.name, version, renamed, every[0], every[1], found=True)
        then, now = before.select(), after.select()
        same = f"o.{RID} = w.{RID} AND {same_values(version.columns, 'o', 'w')}"
        removed = _ids(engine.id_array(f"SELECT o.{RID} FROM ({then}) o ANTI JOIN ({now}) w ON {same} ORDER BY 1"))
        added = _ids(engine.id_array(f"SELECT w.{RID} FROM ({now}) w ANTI JOIN ({then}) o ON {same} ORDER BY 1"))
        return SourceChange(source.name, version, renamed, removed, added, found=True)

    def _rename_columns(self, source: DatasetRecord, version: Version, now: Version) -> Version:
        """The current output under the column names of the source."""
        names = {each.original: each.name for each in version.columns}
        columns = tuple(replace(each, name=names.get(each.original, each.name)) for each in now.columns)
        renamed = replace(now, columns=columns)
        self._refuse_other_columns(source, version, renamed)
        return renamed

    def _descends(self, dataset: DatasetRecord, source: DatasetRecord) -> bool:
        """Whether a run is a refresh, direct or indirect, of the run that made what the source read."""
        makers = {each.run_id for each in self.ask.reader.makers_of([source.version_id])}
        run_id: str | None = dataset.run_id
        while run_id is not None:
            if run_id in makers:
                return True
            run = self.ask.reader.run(run_id)
            run_id = None if run is None else json.loads(run.report).get("refreshed", {}).get("refreshed")
        return False


_PLAIN = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "binary", "date")


def _concatenate_rids(ids: list[Ids]) -> Ids:
    return np.sort(np.concatenate(ids)) if ids else np.array([], np.int64)


def _ids(found) -> Ids:  # type: ignore[no-untyped-def]
    ids: Ids = found.to_numpy(zero_copy_only=False).astype("int64")
    return ids
