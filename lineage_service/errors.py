"""The errors that users see, under one root class.

An error is a list of problems. A problem says where it is, what is wrong, what exists instead and, if possible, how to
fix it. Errors must never contain values of the user's data: only names, positions and counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a workflow file. Lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: what is wrong (and what exists instead), where, and how to fix it."""

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
    """An error for the user, exit code 1. It carries all problems found, in file order."""

    def __init__(self, problems: str | Problem | Iterable[Problem], *, hint: str | None = None) -> None:
        if isinstance(problems, str):
            problems = (Problem(problems, hint=hint),)
        elif isinstance(problems, Problem):
            problems = (problems,)
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class WorkflowError(LineageError):
    """The workflow file is invalid, or it describes something that cannot be traced exactly."""


class NotFound(LineageError):
    """A requested dataset, run, row or file does not exist."""


class SourceError(LineageError):
    """A source cannot be read, or has changed since the run read it."""


class RunError(LineageError):
    """A run failed after its workflow was accepted. Nothing of it is visible."""


class CaptureSuspect(RunError):
    """A run failed for lack of memory or because of a limit, and the data does not explain it. Capture may be the
    cause.
    """


class ChecksFailed(RunError):
    """Rows failed an `error` check. The run is kept under its id only; `report` is its report."""

    def __init__(self, problems: Iterable[Problem], report: Any) -> None:
        super().__init__(problems)
        self.report = report


class LineageInterrupted(RunError):
    """The run was interrupted after its outputs were committed. They stay, and their lineage can be finished later."""


class QuestionError(LineageError):
    """A question that cannot be answered as asked: a bad predicate, an unknown column, no such path."""


class StoreError(LineageError):
    """The home or its catalog cannot be read or written: full, read-only, or written by a newer version."""


class DamagedFile(StoreError):
    """A file of the home or a record of its catalog has changed since it was written, so its content cannot be
    trusted.
    """


def did_you_mean(name: str, existing: Iterable[str]) -> str | None:
    """A hint with the closest existing name; None if no name is close."""
    spelled = {each.lower(): each for each in reversed(list(existing))}
    close = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    return f"did you mean '{spelled[close[0]]}'?" if close else None


def join_names(names: Sequence[str] | Iterable[str], most: int = 12) -> str:
    """Names as a readable list, truncated if it is long: 'a, b, c and 9 more'."""
    names = list(names)
    if not names:
        return "none"
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
