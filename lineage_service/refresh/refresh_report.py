"""The report of a refresh, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DatasetReport:
    """What was done to a dataset. `way` is `untouched`, `touched` (only affected rows were recomputed) or `all` (with a
    `reason`).

    `computed` counts the recomputed rows that replace others or are added.
    """

    way: str
    rows: int
    removed: int = 0
    changed: int = 0
    added: int = 0
    reason: str | None = None
    computed: int = 0

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "way": self.way, "rows": self.rows, "removed": self.removed, "changed": self.changed, "added": self.added,
            "computed": self.computed,
        }  # fmt: skip
        return {**found, "reason": self.reason} if self.reason else found


@dataclass(frozen=True, repr=False)
class RefreshReport:
    """A run made from another one. If nothing had changed, no run was made and `run_id` is that of the previous run."""

    run_id: str
    before: str
    workflow: str
    sources: dict[str, dict[str, int]]
    datasets: dict[str, DatasetReport]
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        datasets = ", ".join(f"{name} {each.way}" for name, each in self.datasets.items())
        return f"<RefreshReport {self.run_id} of {self.workflow}: {datasets}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id, "refreshed": self.before, "workflow": self.workflow, "sources": self.sources,
            "datasets": {name: each.to_json() for name, each in self.datasets.items()}, "seconds": self.seconds,
        }  # fmt: skip
