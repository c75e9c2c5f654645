"""What a program wrote, and which of it is traced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lineage_service.errors import Position
from lineage_service.runs.run_report import RunReport


@dataclass(frozen=True)
class TracedWrite:
    """A write that was committed as a run."""

    position: Position
    place: str
    output: str
    report: RunReport

    def to_json(self) -> dict[str, Any]:
        return {"line": str(self.position), "place": self.place, "output": self.output, "traced": True,
                "run": self.report.to_json(), "warnings": list(self.report.warnings)}  # fmt: skip


@dataclass(frozen=True)
class UntracedWrite:
    """A write without lineage, and why."""

    position: Position
    place: str
    reason: str
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"line": str(self.position), "place": self.place, "traced": False, "reason": self.reason,
                "hint": self.hint}  # fmt: skip

    def __str__(self) -> str:
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.position}: '{self.place}' is written without lineage: {self.reason}{hint}"


@dataclass
class ProgramReport:
    """One execution of a program.

    exit_code: the program's own.
    notes: what else is worth saying of it, with the line.
    """

    program: str
    execution: str
    exit_code: int = 0
    writes: list[TracedWrite | UntracedWrite] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def traced(self) -> list[TracedWrite]:
        return [each for each in self.writes if isinstance(each, TracedWrite)]

    @property
    def untraced(self) -> list[UntracedWrite]:
        return [each for each in self.writes if isinstance(each, UntracedWrite)]

    def to_json(self) -> dict[str, Any]:
        return {"program": self.program, "execution": self.execution, "exit_code": self.exit_code,
                "writes": [each.to_json() for each in self.writes], "notes": self.notes}  # fmt: skip
