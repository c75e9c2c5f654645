"""The records that the catalog returns and accepts: frozen values. Database rows do not leave this package."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.spaces import Space


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
    rows: int | None = None  # rows it returned, if they were counted
    estimate: int | None = None  # rows it was expected to read
    members: int | None = None  # rows it read, if its lineage is kept row by row


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
    space: Space
    version_id: str
    declared: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "space", Space(self.space))  # the database holds its text

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
    from_space: Space
    to_space: Space
    role: int
    form: HopForm
    rows: int
    bytes: int
    backward: str | None
    forward: str | None
    body: str | None = None

    def __post_init__(self) -> None:
        # The database holds the text of each.
        object.__setattr__(self, "from_space", Space(self.from_space))
        object.__setattr__(self, "to_space", Space(self.to_space))
        object.__setattr__(self, "form", HopForm(self.form))


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """The file prepared for a declared question of a run; `body` is JSON of the question and of the file's columns."""

    run_id: str
    name: str
    kind: str
    rows: int
    bytes: int
    path: str | None
    body: str


@dataclass(frozen=True, slots=True)
class SubjectRecord:
    """The index of persons of a source version: keyed hashes and their rows, in the files that `body` (JSON) names."""

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
    """All records of a run, written in one transaction."""

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
