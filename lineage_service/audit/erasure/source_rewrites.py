"""The sources' own files without the rows that go: written beside them, and put in their place after the switch.

A file is rewritten once, whoever reads it: rows that go by one source's declaration go for all that read the file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from lineage_service.errors import LineageError, SourceError, StoreError
from lineage_service.query.questions import Questions
from lineage_service.store.original_text import UnknownReading, declared_encoding, keeps_ascii
from lineage_service.store.record_lines import record_lines
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
    parquet_footer,
    true_path,
)

PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
BATCH = 65_536


@dataclass(frozen=True)
class FileCut:
    """Rows to be cut out of a file: their places in it. `reading`: of text, how it is read; None for Parquet."""

    path: str
    rows: int
    places: Ids
    reading: Mapping[str, str] | None


@dataclass(frozen=True)
class RewrittenFile:
    """A file without them: where it waits, its state, and the places that stay."""

    cut: FileCut
    waiting: Path
    state: FileState
    kept: Ids


# --- what to cut ----------------------------------------------------------------------------------------------


def find_file_cuts(ask: Questions, gone: Mapping[str, Ids]) -> dict[str, FileCut]:
    """The files behind versions whose rows go, each with all places that go for any of them. A file that has changed
    since a run read it is left alone for that run."""
    found: dict[str, FileCut] = {}
    for version_id, rids in gone.items():
        for cut in _cuts_of_version(_version(ask, version_id), rids, ask):
            known = found.get(cut.path)
            places = cut.places if known is None else np.union1d(known.places, cut.places)
            found[cut.path] = replace(cut, places=places)
    return found


def spread_to_all_readers(ask: Questions, gone: Mapping[str, Ids], cut: Mapping[str, FileCut]) -> dict[str, Ids]:
    """What goes in every held version that is read from one of these files: also where no person is declared."""
    found = dict(gone)
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
            yield FileCut(true_path(file), file.rows, here, None)
    if version.origins:
        records = _records(version, rids, ask)
        for origin in version.origins:
            here = records[(records >= origin.base) & (records < origin.base + origin.rows)] - origin.base
            if len(here) and not has_changed(origin, origin.path):
                reading = None if version.reading.get("format") == "parquet" else version.reading
                yield FileCut(true_path(origin), origin.rows, here, reading)


def _rids_at(version: Version, cut: Mapping[str, FileCut], ask: Questions) -> Ids:
    """The rids that rows of a version have at places that are cut out of its files."""
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
    """Places in a file of the rows that a version has from it, also under corrected values, and their rids."""
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
    """The numbers that rows of a copy have among the records of its original files."""
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
    """Places in a file of the rows that count, and their rids."""
    if file.only is not None:
        return patcher.positions(file.only), patcher.rids(file.only)
    places = np.arange(file.rows, dtype=np.int64)
    if file.without is not None:
        places = np.setdiff1d(places, patcher.positions(file.without))
    return places, places + file.base


# --- rewriting ------------------------------------------------------------------------------------------------


def refuse_unwritable(cut: Mapping[str, FileCut]) -> None:
    """LineageError, before anything is done, for a file that cannot be rewritten."""
    for each in cut.values():
        folder = Path(each.path).parent
        if not os.access(folder, os.W_OK) or not os.access(each.path, os.R_OK):
            raise SourceError(
                f"'{each.path}' cannot be rewritten: its folder is not to be written to", hint="nothing was changed"
            )
        if each.reading is not None:
            _lines_and_record_starts(each)


def waiting_source_path(path: str, mark: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}.{mark}.new")


def rewrite_files(cut: Mapping[str, FileCut], mark: str) -> dict[str, RewrittenFile]:
    """The files without what is cut out of them, beside their places; `mark` is in their names."""
    found = {}
    for path, each in cut.items():
        waiting = waiting_source_path(path, mark)
        kept = np.setdiff1d(np.arange(each.rows, dtype=np.int64), each.places)
        try:
            if each.reading is None:
                _write_parquet(each, kept, waiting)
            else:
                _write_text(each, waiting)
            shutil.copymode(path, waiting)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise SourceError(f"'{path}' cannot be rewritten: {reason}", hint="nothing was changed") from error
        state = replace(file_state(str(waiting)), path=path)
        found[path] = RewrittenFile(each, waiting, state, kept)
    return found


def _write_parquet(cut: FileCut, kept: Ids, waiting: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(cut.path, coerce_int96_timestamp_unit="us")
    metadata = opened.metadata
    old = any(opened.schema.column(number).physical_type == "INT96" for number in range(len(opened.schema)))
    packed = metadata.row_group(0).column(0).compression if metadata.num_row_groups else "SNAPPY"
    size = max((metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)), default=BATCH)
    schema = opened.schema_arrow
    with pq.ParquetWriter(
        waiting, schema, compression="NONE" if packed == "UNCOMPRESSED" else packed, use_deprecated_int96_timestamps=old
    ) as writer:
        first = 0
        for batch in opened.iter_batches(max(1, size)):
            begin, end = np.searchsorted(kept, [first, first + batch.num_rows])
            if end > begin:
                writer.write_batch(batch.take(pa.array(kept[begin:end] - first)), row_group_size=max(1, size))
            first += batch.num_rows
    if parquet_footer(str(waiting)).rows != len(kept):
        raise StoreError(f"'{cut.path}' could not be rewritten: it has other rows than it had")


def _lines_and_record_starts(cut: FileCut) -> tuple[list[bytes], list[int]]:
    """The lines of a text file, and on which (from 0) each record begins. LineageError where that is unsure."""
    reading = dict(cut.reading or {})
    unsure = LineageError(
        f"'{cut.path}' cannot be rewritten: where its records begin cannot be told surely",
        hint="remove the rows there by hand, and plan without --rewrite-sources",
    )
    multiline = reading.get("multiline", "").lower() == "true"
    if cut.path.endswith(PACKED) or "linesep" in reading or not keeps_ascii(declared_encoding(reading)):
        raise unsure
    if reading.get("format") == "json" and multiline:
        raise unsure
    try:
        starts = [line - 1 for portion in record_lines(cut.path, reading) for line in portion]
    except (UnknownReading, OSError, EOFError):
        raise unsure from None
    lines = Path(cut.path).read_bytes().splitlines(keepends=True)  # bytes: at \n, \r and \r\n alone
    if len(starts) != cut.rows or any(one >= other for one, other in pairwise(starts)):
        raise unsure
    return lines, starts


def _write_text(cut: FileCut, waiting: Path) -> None:
    lines, starts = _lines_and_record_starts(cut)
    ends = [*starts[1:], len(lines)]
    gone = {line for place in cut.places.tolist() for line in range(starts[place], ends[place])}
    with waiting.open("wb") as stream:
        stream.writelines(line for number, line in enumerate(lines) if number not in gone)


# --- versions -------------------------------------------------------------------------------------------------


def version_after_rewrite(version: Version, found: Mapping[str, RewrittenFile], patcher: Patcher) -> Version:
    """A version, without the rows that go, over the files as they will be."""
    files = [
        _file_after(file, found[true_path(file)], patcher) if true_path(file) in found else file
        for file in version.files
    ]
    origins, base = [], 0
    runs = record_numbers(version, patcher.folder.home.absolute)
    numbers, rids = runs.pairs()
    after = numbers.copy()
    for origin in version.origins:
        inside = (numbers >= origin.base) & (numbers < origin.base + origin.rows)
        after[inside] += base - origin.base
        if true_path(origin) in found:
            new = found[true_path(origin)]
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
        _correction_after(each, found[each.path]) if each.path in found else each for each in version.corrections
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
    """A correction over the file as it will be; records that are cut out belong to rows that went."""
    runs = PairRanges.merge(PairRanges(*(np.array([each], np.int64) for each in run)) for run in correction.runs)
    places, rids = runs.pairs()
    stay = np.isin(places, new.kept)
    now = PairRanges.of_pairs(np.searchsorted(new.kept, places[stay]), rids[stay])
    state, listed = new.state, zip(now.first.tolist(), now.end.tolist(), now.shift.tolist(), strict=True)
    return replace(
        correction, size=state.size, mtime_ns=state.mtime_ns, fingerprint=state.fingerprint, runs=tuple(listed)
    )


def file_mark(path: str | Path) -> str:
    """What tells a file from the same one after a change; empty where there is none."""
    try:
        state = file_state(str(path))
    except LineageError:
        return ""
    return f"{state.size} {state.mtime_ns} {state.fingerprint}"


def replace_source_file(path: str, waiting: str, old: str, new: str) -> bool:
    """The waiting file in the place of the old one, where an earlier try has not done it. False where the file is
    neither (by their marks): somebody has written it since, and what they wrote stays."""
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
