"""What a refresh did, in words and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DatasetReport:
    """What was done to a dataset. way: untouched; touched, only those rows were computed anew; all, for `reason`.
    `computed` counts the rows that were computed anew and take the place of others, or join them."""

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
    """A run made from another. `run_id` is that of the run before where nothing had changed and none was made."""

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
