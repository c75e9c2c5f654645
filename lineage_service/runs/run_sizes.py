"""Sizes of the last committed run of a workflow: rows per dataset, pairs per output and source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.handles import source_space, step_space
from lineage_service.capture.strategies import Choice, is_reduced

if TYPE_CHECKING:
    from lineage_catalog.reader import CatalogReader
    from lineage_catalog.records import RunRecord, StepRecord


@dataclass(frozen=True)
class PairCount:
    """The number of pairs (output row, source row) that a run captured, and how."""

    output: str
    source: str
    pairs: int | None
    strategy: str | None


@dataclass(frozen=True)
class LastRun:
    """A committed run, as far as a plan is compared with it.

    spaces: rows of each space that is a dataset (`source:orders`, `step:totals`)
    outputs: rows by output name
    steps: rows of steps, counted or derived
    counted: rows of nodes, as counted
    members: rows that breakers read
    choices: how breakers were captured
    prepared: rows and bytes prepared for declared questions
    nodes: ids of the nodes of its plan
    """

    run_id: str
    workflow_version: str
    committed_at: str
    variables: Mapping[str, str]
    spaces: Mapping[str, int]
    outputs: Mapping[str, int]
    pairs: tuple[PairCount, ...] = field(default=())
    steps: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    prepared: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()

    def source_rows(self, name: str) -> int | None:
        return self.spaces.get(source_space(name))

    def step_rows(self, name: str) -> int | None:
        """The rows of a step, if known: of an output or kept step, or counted during the run."""
        return self.spaces.get(step_space(name), self.steps.get(name))

    def differences(self, workflow_version: str, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Differences that a reader must know before comparing the numbers with a file of that version."""
        run = f"the last run ({self.run_id})"
        if workflow_version != self.workflow_version:
            return (f"{run} was of another version of this workflow: its rows are shown for names that still exist",)
        other = sorted(
            name for name in {*variables, *self.variables} if variables.get(name) != self.variables.get(name)
        )
        return (f"{run} had other values of {', '.join(other)}: its rows are shown",) if other else ()


def last_run(reader: CatalogReader, workflow: str) -> LastRun | None:
    """The latest committed run of a workflow; None if there is none."""
    run = reader.latest_run(workflow)
    return None if run is None else read_run_sizes(reader, run)


def read_run_sizes(reader: CatalogReader, run: RunRecord) -> LastRun:
    """A run's sizes, from the versions it read and wrote."""
    spaces: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for dataset in reader.datasets(run.id):
        version = reader.version(dataset.version_id)
        if version is None:
            continue
        spaces[dataset.space] = version.rows
        if dataset.role == "output":
            outputs[dataset.name] = version.rows
    captured = json.loads(run.report).get("capture", {})
    pairs = tuple(
        PairCount(output, source, facts.get("pairs"), facts.get("strategy"))
        for output, sources in captured.items()
        for source, facts in sources.items()
    )
    nodes = reader.steps(run.id)
    counted = {step.node: step.rows for step in nodes if step.rows is not None}
    members = _rows_read(nodes)
    choices = {step.node: Choice(step.strategy, step.reason or "", step.estimate) for step in nodes if step.strategy}
    steps = step_row_counts(json.loads(reader.content(run.id) or "{}"), counted)
    return LastRun(
        run.id, run.workflow_version, run.committed_at, json.loads(run.variables), spaces, outputs, pairs, steps,
        counted, members, choices, {each.name: (each.rows, each.bytes) for each in reader.prepared_questions(run.id)},
        frozenset(step.node for step in nodes),
    )  # fmt: skip


def step_row_counts(content: Mapping[str, Any], counted: Mapping[str, int]) -> dict[str, int]:
    """Rows of steps: as counted, and those that follow because a step keeps every row."""
    rows = dict(counted)
    one_to_one = [(step["name"], step["input"]) for step in content.get("steps", ()) if _keeps_every_row(step)]
    for _ in one_to_one:  # one pass per step is enough for a chain of all steps
        for above, below in one_to_one:
            known = rows.get(above, rows.get(below))
            if known is not None:
                rows[above] = rows[below] = known
    return rows


def _keeps_every_row(step: Mapping[str, Any]) -> bool:
    """Whether a step returns exactly one row for each input row."""
    return step["op"] in ("with_columns", "sort", "window") or (step["op"] == "project" and not step.get("distinct"))


def last_sizes(reader: CatalogReader, workflow: str) -> Sizes:
    """The numbers of rows that the steps of a workflow's last run returned and read."""
    run = reader.latest_run(workflow)
    steps = reader.steps(run.id) if run is not None else []
    return Sizes(
        {},
        {step.node: step.rows for step in steps if step.rows is not None},
        _rows_read(steps),
    )


def _rows_read(steps: Sequence[StepRecord]) -> dict[str, int]:
    """The rows that breakers read. Where only the matching rows were written, how many were read is not known."""
    return {step.node: step.members for step in steps if step.members is not None and not is_reduced(step.reason)}
