"""Dataset versions: an immutable set of rows in files, each row with a rid, each file with a fingerprint."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import SourceError
from lineage_service.store.checksums import verify_groups
from lineage_service.store.rids import RidMap

TAIL = 1 << 16
# Names that DuckDB's Parquet scan gives to positions: a user's column of such a name hides them.
POSITION_NAMES = frozenset({"file_row_number", "file_index"})


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One file of a version: its place, its number of rows, and its state when it was read. Paths inside the home are
    relative to it.

    base: the position of its first row
    odd: it lacks a column of the version, or has one with DuckDB's name for positions; it is read by its own footer
    without: for a version made from another, a file of the positions (in this file) of removed rows
    only: a file of the positions of the live rows, and their assigned rids
    left_out: the number of rows that do not count
    top: one past the largest rid, if `only` assigns rids
    real: the file that the path led to over links when it was read; empty if it had none, unknown in versions of older
    homes
    """

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    rows: int
    base: int
    partitions: dict[str, str | None]
    odd: bool = False
    without: str | None = None
    only: str | None = None
    left_out: int = 0
    top: int | None = None
    real: str | None = None

    @property
    def end(self) -> int:
        """One past the largest rid that a row of it may have."""
        return self.base + self.rows if self.top is None else self.top

    @property
    def is_ours(self) -> bool:
        """Whether it is in the home, where only we write."""
        return not Path(self.path).is_absolute()

    @property
    def is_patched(self) -> bool:
        return self.without is not None or self.only is not None


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """One original file of a snapshot: its state, and the positions that its records got."""

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    rows: int
    base: int
    real: str | None = None


@dataclass(frozen=True, slots=True)
class Correction:
    """Rows that were corrected at a person's request, and the file whose records they were.

    mark: equal in all versions that were corrected together
    runs: half-open ranges of positions in the file, each with the difference of rid and position
    """

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    framing: tuple[tuple[str, str], ...]
    mark: str
    runs: tuple[tuple[int, int, int], ...]

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Correction:
        framing = tuple((name, value) for name, value in body["framing"])
        return cls(**{**body, "framing": framing, "runs": tuple((a, b, shift) for a, b, shift in body["runs"])})


@dataclass(frozen=True, slots=True)
class SnapshotCopy:
    """A copy of original files in the home of which a patched version still has files: the originals, how they were
    read, and the position at which each file of the copy begins.
    """

    origins: tuple[OriginalFile, ...]
    reading: dict[str, str]
    bases: dict[str, int]


@dataclass(frozen=True, slots=True)
class VersionColumn:
    """A column under the user's name. `stored` is its name in the files, `partition` its name in partition folders.

    pii: for an output, whether its values show those of a source column that is marked as personal data
    """

    name: str
    type: str
    stored: str | None
    partition: str | None = None
    pii: bool = False

    @property
    def original(self) -> str:
        """The name under which it is read."""
        return self.stored or self.partition or self.name


@dataclass(frozen=True)
class Version:
    """A dataset version as in the catalog. `kind`: source, snapshot or output.

    origins, reading: for a snapshot, its original files in the order of positions, and the format and reader options
    (lower case); missing in older homes
    top: no rid below is assigned again
    expired: the run that made it, if that is past its retention and the rows are gone
    copies: for a patched snapshot, where its files were read from; `origins` are the originals as read last
    positions: a file that maps rows to records of the originals, if rids do not
    corrections: rows whose values are no longer those of their records
    """

    id: str
    kind: str
    files: tuple[VersionFile, ...]
    columns: tuple[VersionColumn, ...]
    gaps: tuple[tuple[int, int], ...] = ()
    origins: tuple[OriginalFile, ...] = ()
    reading: dict[str, str] = field(default_factory=dict)
    top: int = 0
    expired: str | None = None
    copies: tuple[SnapshotCopy, ...] = ()
    positions: str | None = None
    corrections: tuple[Correction, ...] = ()

    @cached_property
    def rids(self) -> RidMap:
        return RidMap(self.rows, self.gaps)

    @cached_property
    def read_files(self) -> frozenset[tuple[str, str]]:
        """Path and fingerprint of every file that rows were read from or given in. Two versions of sources without a
        common one share no row.
        """
        files: list[VersionFile | OriginalFile] = [*self.files, *self.origins]
        corrected = [(each.path, each.fingerprint) for each in self.corrections]
        return frozenset([*((true_path(each), each.fingerprint) for each in files), *corrected])

    @cached_property
    def is_patched(self) -> bool:
        """Whether it shares files with the version it was made from, so that rids are not positions."""
        bases = accumulate((file.rows for file in self.files), initial=0)
        return any(file.is_patched or file.base != base for file, base in zip(self.files, bases, strict=False))

    @cached_property
    def is_dense(self) -> bool:
        """Whether rids are positions: 0, 1, 2, … in the order of the files."""
        return not self.is_patched and not self.gaps

    @property
    def end(self) -> int:
        """One past the largest rid that it, or a version it was made from, has assigned."""
        if not self.is_patched:
            return max(self.top, self.rids.end)
        return max(self.top, max((file.end for file in self.files), default=0))

    @cached_property
    def rows(self) -> int:
        return sum(file.rows - file.left_out for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        return json.dumps(
            {"kind": self.kind, "files": [asdict(file) for file in self.files],
             "columns": [asdict(column) for column in self.columns], "gaps": self.gaps,
             "origins": [asdict(origin) for origin in self.origins], "reading": self.reading, "top": self.top,
             "expired": self.expired, "copies": [asdict(copied) for copied in self.copies],
             "positions": self.positions, "corrections": [asdict(correction) for correction in self.corrections]}
        )  # fmt: skip

    @classmethod
    def from_json(cls, version_id: str, text: str) -> Version:
        body: dict[str, Any] = json.loads(text)
        return cls(
            version_id,
            body["kind"],
            tuple(VersionFile(**file) for file in body["files"]),
            tuple(VersionColumn(**column) for column in body["columns"]),
            tuple((position, skipped) for position, skipped in body["gaps"]),
            tuple(OriginalFile(**origin) for origin in body.get("origins", ())),
            body.get("reading", {}),
            body.get("top", 0),
            body.get("expired"),
            tuple(
                SnapshotCopy(
                    tuple(OriginalFile(**origin) for origin in each["origins"]), each["reading"], each["bases"]
                )
                for each in body.get("copies", ())
            ),
            body.get("positions"),
            tuple(Correction.from_json(each) for each in body.get("corrections", ())),
        )


def true_path(file: VersionFile | OriginalFile) -> str:
    """The path that identifies a file, with links resolved as they were when it was read, otherwise as they are now."""
    if file.real is None and Path(file.path).is_absolute():
        return os.path.realpath(file.path)
    return file.real or file.path


def file_of(files: Sequence[VersionFile | OriginalFile], position: int) -> int:
    """The number of the file that contains this position, which must exist."""
    index = bisect_right(files, position, key=lambda file: file.base) - 1
    while not files[index].rows:  # an empty file shares its base with the one behind it
        index -= 1
    return index


@dataclass(frozen=True, slots=True)
class FileState:
    """What identifies the state of a file: size, modification time, and a hash of its end (a Parquet footer). `real`:
    the path without links; empty if there are none.
    """

    path: str
    size: int
    mtime_ns: int
    fingerprint: str
    real: str = field(default="", compare=False)


def file_state(path: str) -> FileState:
    """The state of a file now. Raises SourceError if it cannot be read."""
    try:
        with Path(path).open("rb") as stream:
            stat = os.fstat(stream.fileno())
            stream.seek(max(0, stat.st_size - TAIL))
            digest = hashlib.sha256(stream.read()).hexdigest()[:32]
    except FileNotFoundError:
        raise SourceError(f"file '{path}' is gone") from None
    except OSError as error:
        raise SourceError(f"cannot read file '{path}': {error.strerror}") from None
    real = os.path.realpath(path)
    return FileState(path, stat.st_size, stat.st_mtime_ns, digest, real if real != path else "")


def recorded_state(file: VersionFile | OriginalFile) -> FileState:
    """The state of a file when its version was made."""
    return FileState(file.path, file.size, file.mtime_ns, file.fingerprint)


def has_changed(file: VersionFile | OriginalFile, path: str) -> bool:
    """Whether a user's file has changed since its version was made. A file in the home does not change: it is as
    written, or damaged.
    """
    if isinstance(file, VersionFile) and file.is_ours:
        return False
    try:
        now = file_state(path)
    except SourceError:
        return True
    # A changed time alone counts: the end of a file cannot prove that the rows before it are the same.
    return (now.size, now.mtime_ns, now.fingerprint) != (file.size, file.mtime_ns, file.fingerprint)


def is_as_written(file: VersionFile, path: str) -> bool:
    """Whether a file in the home has the size and the end with which it was written. Its time may differ, because a
    home may be copied.
    """
    try:
        now = file_state(path)
    except SourceError:
        return False
    return (now.size, now.fingerprint) == (file.size, file.fingerprint)


def version_id(kind: str, states: Iterable[FileState], reading: str) -> str:
    """The id of a version. The same files read the same way are the same version for all readers."""
    files = [[s.path, s.size, s.mtime_ns, s.fingerprint, *([s.real] if s.real else [])] for s in states]
    body = json.dumps([kind, files, reading])
    return hashlib.sha256(body.encode()).hexdigest()[:32]


def private_id(identity: str, run_id: str) -> str:
    """The id of a version for a single run."""
    return hashlib.sha256(f"{identity} {run_id}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a Parquet file: number of rows, columns with their Arrow types, and whether days before 1582 use
    the Julian calendar, as in files of Spark 2.
    """

    rows: int
    types: dict[str, str]
    old_days: bool = False

    def type_of(self, name: str) -> str | None:
        return next((kind for own, kind in self.types.items() if own.lower() == name.lower()), None)

    def is_odd(self, wanted: Iterable[str]) -> bool:
        """Whether the file cannot be scanned directly for these columns (see VersionFile)."""
        own = {name.lower() for name in self.types}
        return not own.isdisjoint(POSITION_NAMES) or not own.issuperset(name.lower() for name in wanted)


def parquet_footer(path: str) -> Footer:
    """The footer of a Parquet file. Raises SourceError if it is no complete Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    verify_groups(path)
    try:
        metadata = pq.read_metadata(path)
        fields = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError):
        raise SourceError(
            f"'{path}' is no readable Parquet file: it is damaged, truncated or of another format"
        ) from None
    return Footer(int(metadata.num_rows), {field.name: str(field.type) for field in fields}, _counts_old_days(metadata))


def _counts_old_days(metadata: Any) -> bool:
    keys = metadata.metadata or {}
    writer = keys.get(b"org.apache.spark.version", b"")
    return b"org.apache.spark.legacyDateTime" in keys or writer.split(b".")[0] in (b"1", b"2")


def parquet_rows(path: str) -> int:
    """The number of rows in a Parquet file's footer."""
    return parquet_footer(path).rows


def apply_source_renames(version: Version, dataset: DatasetRecord) -> Version:
    """Another workflow's output under the names that the reading workflow gives its columns."""
    declared = json.loads(dataset.declared)
    if not declared.get("output") or not declared.get("rename"):
        return version
    by_old = {old.lower(): new for old, new in declared["rename"].items()}
    columns = tuple(replace(each, name=by_old.get(each.name.lower(), each.name)) for each in version.columns)
    return replace(version, columns=columns)
