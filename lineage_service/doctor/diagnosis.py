"""What an examination finds: checks, one after the other."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lineage_service.store.layout import HomeLayout

MOST = 10  # runs or files that are named one by one
Status = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One thing looked at. `note`: worth knowing. `warning`: works, but not as it was meant to. `problem`: broken."""

    name: str
    status: Status
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was looked at, in the order of what rests on what."""

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.status != "problem" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def pluralise(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def other_owner(path: Path) -> str | None:
    """Whose the home is, where it is somebody else's."""
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
