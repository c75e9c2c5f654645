"""Everything that can go wrong for a user, under one root.

An error is a list of problems; a problem says where, what, what exists, and gives a hint where it can.
Nothing here may ever carry a value of the user's data: names, positions and counts only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a workflow file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what (with what exists instead), where, and how to mend it."""

    message: str
    position: Position | None = None
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        kind = "warning: " if self.severity == "warning" else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{where}{kind}{self.message}{hint}"


class LineageError(Exception):
    """A user's error: one clear message, exit code 1. Carries all problems found, in file order."""

    def __init__(self, problems: str | Problem | Iterable[Problem], *, hint: str | None = None) -> None:
        if isinstance(problems, str):
            problems = (Problem(problems, hint=hint),)
        elif isinstance(problems, Problem):
            problems = (problems,)
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class WorkflowError(LineageError):
    """The workflow file is wrong, or what it describes cannot be traced exactly."""


class NotFound(LineageError):
    """A dataset, run, row or file that was asked for does not exist."""


class SourceError(LineageError):
    """A source cannot be read, or is not what it was when the run read it."""


class RunError(LineageError):
    """A run failed after its workflow was accepted; nothing of it is visible."""


class CaptureSuspect(RunError):
    """A run failed in a way that the data does not explain: of memory, or of a limit. What capture adds may be why."""


class ChecksFailed(RunError):
    """Rows failed an `error` check. The run is kept under its id alone; `report` is what it did."""

    def __init__(self, problems: Iterable[Problem], report: Any) -> None:
        super().__init__(problems)
        self.report = report


class LineageInterrupted(RunError):
    """Interrupted after the outputs were committed: they stay, and their lineage can be finished later."""


class QuestionError(LineageError):
    """A question that cannot be answered as asked: a bad predicate, an unknown column, no such path."""


class StoreError(LineageError):
    """The home or its catalog cannot be read or written: full, read-only, of a newer version."""


class DamagedFile(StoreError):
    """A file of the home, or a record of its catalog, is not as it was written: nothing may be concluded from it."""


def did_you_mean(name: str, existing: Iterable[str]) -> str | None:
    """A hint with the closest existing name, or None where nothing is close."""
    spelled = {each.lower(): each for each in reversed(list(existing))}
    close = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    return f"did you mean '{spelled[close[0]]}'?" if close else None


def join_names(names: Sequence[str] | Iterable[str], most: int = 12) -> str:
    """Names as a readable list, cut where it gets long: 'a, b, c and 9 more'."""
    names = list(names)
    if not names:
        return "none"
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
