"""The result of an examination: a list of checks."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lineage_service.store.layout import HomeLayout

MOST = 10  # maximum number of runs or files listed individually
Status = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check. `note`: information. `warning`: works, but not as intended. `problem`: broken."""

    name: str
    status: Status
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, ordered so that a check comes after those it depends on."""

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.status != "problem" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def pluralise(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def other_owner(path: Path) -> str | None:
    """The owner of the home, if it is another user."""
    import pwd

    found = path.stat().st_uid
    if found == os.geteuid():
        return None
    try:
        return pwd.getpwuid(found).pw_name
    except KeyError:
        return str(found)


def run_folders(home: HomeLayout) -> list[Path]:
    """The folders of runs, committed or not."""
    return sorted(home.runs.iterdir()) if home.runs.is_dir() else []
