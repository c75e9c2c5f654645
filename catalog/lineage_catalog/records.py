"""What the catalog gives and takes: plain frozen values. Rows of the database do not leave this package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One committed run. `report` is the JSON text that `run --json` prints.

    `lineage`: complete; pending, while its index is still to be finished; incomplete, for the reason in `lineage_note`.
    `superseded_by`: the run that an erasure put in its place. `held_since`: when its data was first committed, where it
    stands for an earlier run itself.
    """

    id: str
    workflow: str
    workflow_version: str
    status: str
    capture: str
    variables: str
    report: str
    started_at: str
    committed_at: str
    lineage: str = "complete"
    lineage_note: str | None = None
    superseded_by: str | None = None
    held_since: str | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """An operator of a run, and how its lineage was captured where it is a pipeline breaker."""

    node: str
    operator: str
    strategy: str | None
    reason: str | None
    rows: int | None = None  # that it gave, where they were counted
    estimate: int | None = None  # rows that it was expected to read
    members: int | None = None  # rows that it read, where its lineage is kept row by row


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A dataset version; `body` is JSON of its files, columns and gaps."""

    id: str
    kind: str
    run_id: str
    rows: int
    bytes: int
    body: str


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """A dataset as a run read or wrote it: its name there, its role, its space in the run's lineage."""

    run_id: str
    workflow: str
    name: str
    role: str
    space: str
    version_id: str
    declared: str

    @property
    def full_name(self) -> str:
        return f"{self.workflow}.{self.name}"

    @property
    def qualified_name(self) -> str:
        return f"{self.full_name}@{self.run_id}"


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """A column of a run's dataset. `reads` and `influenced_by` are JSON of pairs (source, column), None unknown;
    `decided_by`, of a min or max, is JSON of the column per dataset of the run whose value decides it."""

    run_id: str
    dataset: str
    ordinal: int
    name: str
    type: str
    pii: bool
    reads: str | None = None
    influenced_by: str | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class HopRecord:
    """Lineage between two spaces of a run: stored pairs, or a form that stores nothing; `body` is JSON about that."""

    run_id: str
    from_space: str
    to_space: str
    role: int
    form: str
    rows: int
    bytes: int
    backward: str | None
    forward: str | None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """What was made for a declared question of a run; `body` is JSON of the question and of the file's columns."""

    run_id: str
    name: str
    kind: str
    rows: int
    bytes: int
    path: str | None
    body: str


@dataclass(frozen=True, slots=True)
class SubjectRecord:
    """Which rows of a source version are whose: by keyed hash, in the files that `body` (JSON) names."""

    version_id: str
    kind: str
    column: str
    run_id: str
    key_id: str
    persons: int
    rows: int
    body: str


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file in a run's folder: its path there, and JSON of the checksums of its parts."""

    path: str
    sums: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything a run leaves in the catalog, written in one transaction."""

    run: RunRecord
    content: str
    steps: tuple[StepRecord, ...]
    versions: tuple[VersionRecord, ...]
    datasets: tuple[DatasetRecord, ...]
    hops: tuple[HopRecord, ...]
    columns: tuple[ColumnRecord, ...] = ()
    subjects: tuple[SubjectRecord, ...] = ()
    files: tuple[FileRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """What finishing a run's lineage adds to it: its hops, its report, and rows counted on the way per node.

    `files`: of complete lineage, all files that the run has by then."""

    run_id: str
    status: str
    note: str | None
    hops: tuple[HopRecord, ...] = ()
    report: str | None = None
    members: tuple[tuple[str, int], ...] = ()
    prepared: tuple[PreparedRecord, ...] = ()
    subjects: tuple[SubjectRecord, ...] = ()
    files: tuple[FileRecord, ...] | None = None
