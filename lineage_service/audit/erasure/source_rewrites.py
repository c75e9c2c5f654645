"""Rewrites the sources' own files without the removed rows: writes new files beside them and replaces them after the
switch.

A file is rewritten once. Rows removed by one source's declaration are removed for all sources that read the file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lineage_service.errors import LineageError, SourceError, StoreError
from lineage_service.query.questions import Questions
from lineage_service.store.formats.format_registry import IN_PLACE, format_of_reading
from lineage_service.store.formats.source_format import FileCut, SourceFormat
from lineage_service.store.shared_rows import PairRanges, corrected_records, record_numbers
from lineage_service.store.version_patcher import AddedFile, Ids, Patcher
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import (
    Correction,
    FileState,
    OriginalFile,
    Version,
    VersionFile,
    file_state,
    has_changed,
    true_path,
)


@dataclass(frozen=True)
class RewrittenFile:
    """A rewritten file: where it is pending, its state, and the positions that remain."""

    cut: FileCut
    waiting: Path
    state: FileState
    kept: Ids


# --- rows to cut out ------------------------------------------------------------------------------------------


def find_file_cuts(ask: Questions, removed: Mapping[str, Ids]) -> dict[str, FileCut]:
    """The files behind versions with removed rows, each with all positions to cut out. A file that changed after a run
    read it is skipped for that run.
    """
    found: dict[str, FileCut] = {}
    for version_id, rids in removed.items():
        for cut in _cuts_of_version(_version(ask, version_id), rids, ask):
            known = found.get(cut.path)
            places = cut.places if known is None else np.union1d(known.places, cut.places)
            found[cut.path] = replace(cut, places=places)
    return found


def spread_to_all_readers(ask: Questions, removed: Mapping[str, Ids], cut: Mapping[str, FileCut]) -> dict[str, Ids]:
    """The removed rows in every held version that reads one of these files, even if it declares no person."""
    found = dict(removed)
    for run in ask.reader.runs():
        for record in ask.graph.datasets(run.id):
            if record.role != "source" or record.version_id in found:
                continue
            rids = _rids_at(_version(ask, record.version_id), cut, ask)
            if len(rids):
                found[record.version_id] = rids
    return {
        version_id: np.union1d(rids, _rids_at(_version(ask, version_id), cut, ask))
        for version_id, rids in found.items()
    }


def _version(ask: Questions, version_id: str) -> Version:
    record = ask.reader.version(version_id)
    if record is None:
        raise StoreError(f"version '{version_id}' is not in the catalog")
    return Version.from_json(record.id, record.body)


def _cuts_of_version(version: Version, rids: Ids, ask: Questions) -> Iterable[FileCut]:
    for file in _unchanged_files_in_place(version):
        places, own = _places_and_rids(version, file, ask)
        here = places[np.isin(own, rids)]
        if len(here):
            yield FileCut(true_path(file), file.rows, here, IN_PLACE)
    if version.origins:
        records = _records(version, rids, ask)
        for origin in version.origins:
            here = records[(records >= origin.base) & (records < origin.base + origin.rows)] - origin.base
            if len(here) and not has_changed(origin, origin.path):
                yield FileCut(true_path(origin), origin.rows, here, version.reading)


def _rids_at(version: Version, cut: Mapping[str, FileCut], ask: Questions) -> Ids:
    """The rids of a version's rows at positions that are cut out of its files."""
    parts = [np.array([], np.int64)]
    for file in _unchanged_files_in_place(version):
        if true_path(file) in cut:
            places, own = _places_and_rids(version, file, ask)
            parts.append(own[np.isin(places, cut[true_path(file)].places)])
    wanted = [each for each in version.origins if true_path(each) in cut and not has_changed(each, each.path)]
    if wanted and version.positions is not None:
        numbers, rids = record_numbers(version, ask.home.absolute).pairs()
        parts += [rids[np.isin(numbers, cut[true_path(origin)].places + origin.base)] for origin in wanted]
    elif wanted:
        every = _every_rid(version, ask)
        records = _records(version, every, ask)
        for origin in wanted:
            parts.append(every[np.isin(records, cut[true_path(origin)].places + origin.base)])
    return np.unique(np.concatenate(parts))


def _unchanged_files_in_place(version: Version) -> list[VersionFile]:
    return [file for file in version.files if Path(file.path).is_absolute() and not has_changed(file, file.path)]


def _places_and_rids(version: Version, file: VersionFile, ask: Questions) -> tuple[Ids, Ids]:
    """Positions in a file of a version's rows, including corrected rows, with their rids."""
    places, own = _live_places_and_rids(file, Patcher(ask.home.run_folder("-")))
    more, corrected = corrected_records(version, file).pairs()
    return np.concatenate([places, more]), np.concatenate([own, corrected])


def _every_rid(version: Version, ask: Questions) -> Ids:
    paths = tuple(ask.home.absolute(file.path) for file in version.files)
    found = ask.engine.id_array(
        f"SELECT b FROM ({VersionScan(version, paths, ask.home.absolute).all_rids()}) ORDER BY b"
    )
    ids: Ids = found.to_numpy(zero_copy_only=False).astype("int64")
    return ids


def _records(version: Version, rids: Ids, ask: Questions) -> Ids:
    """The record numbers that rows of a copy have in its original files."""
    if version.positions is not None:
        return record_numbers(version, ask.home.absolute).inverse.translate(rids)
    every, total = _every_rid(version, ask), sum(origin.rows for origin in version.origins)
    if len(every) == total:
        return np.searchsorted(every, rids)
    if version.end == total:
        return rids
    paths = ", ".join(f"'{origin.path}'" for origin in version.origins)
    raise LineageError(
        f"{paths} cannot be rewritten: rows were erased before that are still in the files",
        hint="remove the rows there by hand, and plan without --rewrite-sources",
    )


def _live_places_and_rids(file: VersionFile, patcher: Patcher) -> tuple[Ids, Ids]:
    """Positions in a file of the live rows, with their rids."""
    if file.only is not None:
        return patcher.positions(file.only), patcher.rids(file.only)
    places = np.arange(file.rows, dtype=np.int64)
    if file.without is not None:
        places = np.setdiff1d(places, patcher.positions(file.without))
    return places, places + file.base


# --- rewriting ------------------------------------------------------------------------------------------------


def refuse_unwritable(cut: Mapping[str, FileCut]) -> None:
    """Raises LineageError for a file that cannot be rewritten, before anything is changed."""
    for each in cut.values():
        folder = Path(each.path).parent
        if not os.access(folder, os.W_OK) or not os.access(each.path, os.R_OK):
            raise SourceError(
                f"'{each.path}' cannot be rewritten: its folder is not writable", hint="nothing was changed"
            )
        _format_of_cut(each).refuse_unwritable(each)


def waiting_source_path(path: str, mark: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}.{mark}.new")


def rewrite_files(cut: Mapping[str, FileCut], mark: str) -> dict[str, RewrittenFile]:
    """Writes the files without the cut rows, beside the originals. `mark` is part of their names."""
    found = {}
    for path, each in cut.items():
        waiting = waiting_source_path(path, mark)
        kept = np.setdiff1d(np.arange(each.rows, dtype=np.int64), each.places)
        try:
            _format_of_cut(each).write_without(each, waiting)
            shutil.copymode(path, waiting)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise SourceError(f"'{path}' cannot be rewritten: {reason}", hint="nothing was changed") from error
        state = replace(file_state(str(waiting)), path=path)
        found[path] = RewrittenFile(each, waiting, state, kept)
    return found


def _format_of_cut(cut: FileCut) -> SourceFormat:
    found = format_of_reading(cut.reading)
    if found is None:
        raise LineageError(
            f"'{cut.path}' cannot be rewritten: it is not known how it was read",
            hint="remove the rows there by hand, and plan without --rewrite-sources",
        )
    return found


# --- versions -------------------------------------------------------------------------------------------------


def version_after_rewrite(version: Version, rewritten_files: Mapping[str, RewrittenFile], patcher: Patcher) -> Version:
    """A version without the removed rows, over the rewritten files."""
    files = [
        _file_after(file, rewritten_files[true_path(file)], patcher) if true_path(file) in rewritten_files else file
        for file in version.files
    ]
    origins, base = [], 0
    runs = record_numbers(version, patcher.folder.home.absolute)
    numbers, rids = runs.pairs()
    after = numbers.copy()
    for origin in version.origins:
        inside = (numbers >= origin.base) & (numbers < origin.base + origin.rows)
        after[inside] += base - origin.base
        if true_path(origin) in rewritten_files:
            new = rewritten_files[true_path(origin)]
            after[inside] = base + np.searchsorted(new.kept, numbers[inside] - origin.base)
            state = new.state
            now = OriginalFile(
                origin.path, state.size, state.mtime_ns, state.fingerprint, len(new.kept), base, origin.real
            )
        else:
            now = replace(origin, base=base)
        origins.append(now)
        base += now.rows
    corrections = tuple(
        _correction_after(each, rewritten_files[each.path]) if each.path in rewritten_files else each
        for each in version.corrections
    )
    made = replace(version, files=tuple(files), origins=tuple(origins), corrections=corrections)
    return patcher.with_positions(made, after, rids) if version.origins and not version.is_dense else made


def _file_after(file: VersionFile, new: RewrittenFile, patcher: Patcher) -> VersionFile:
    places, rids = _live_places_and_rids(file, patcher)
    state = new.state
    plain = replace(
        file, size=state.size, mtime_ns=state.mtime_ns, fingerprint=state.fingerprint, rows=len(new.kept), base=0
    )
    return patcher.with_rids(AddedFile(plain, np.searchsorted(new.kept, places), rids))


def _correction_after(correction: Correction, new: RewrittenFile) -> Correction:
    """A correction over the rewritten file. Records that are cut out belong to removed rows."""
    runs = PairRanges.merge(PairRanges(*(np.array([each], np.int64) for each in run)) for run in correction.runs)
    places, rids = runs.pairs()
    stay = np.isin(places, new.kept)
    now = PairRanges.of_pairs(np.searchsorted(new.kept, places[stay]), rids[stay])
    state, listed = new.state, zip(now.first.tolist(), now.end.tolist(), now.shift.tolist(), strict=True)
    return replace(
        correction, size=state.size, mtime_ns=state.mtime_ns, fingerprint=state.fingerprint, runs=tuple(listed)
    )


def file_mark(path: str | Path) -> str:
    """A fingerprint of a file that changes with its content; empty if there is no file."""
    try:
        state = file_state(str(path))
    except LineageError:
        return ""
    return f"{state.size} {state.mtime_ns} {state.fingerprint}"


def replace_source_file(path: str, waiting: str, old: str, new: str) -> bool:
    """Replaces a file by the pending one, unless an earlier attempt has done so.

    Returns False if the file matches neither fingerprint: somebody has written it since, and their content stays.
    """
    now = file_mark(path)
    try:
        if now == old and Path(waiting).exists():
            Path(waiting).replace(path)
            return True
        Path(waiting).unlink(missing_ok=True)
        return now == new
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the source file '{path}' could not be replaced: {reason}") from error
