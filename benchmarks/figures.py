"""What experiments share: figures with their bars, and commands measured from outside."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "smoke-lineage")


@dataclass(frozen=True)
class Figure:
    """A measured value, and the most it may be where there is a bar; `failure` where there was no answer at all."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    failure: str | None = None

    @property
    def holds(self) -> bool:
        return self.failure is None and (self.bar is None or self.value <= self.bar)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class Command:
    """What one run of a command took: wall-clock seconds, and the most memory it had resident; why it failed."""

    seconds: float
    peak_bytes: int
    failure: str | None = None


def table(figures: Sequence[Figure]) -> str:
    rows = [("what", "value", "bar", ""), *(_cells(figure) for figure in figures)]
    widths = [max(len(row[index]) for row in rows) for index in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows
    )


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    bar = "" if figure.bar is None else f"{figure.bar:,.4g} {figure.unit}"
    verdict = "holds" if figure.bar is not None and figure.holds else "" if figure.holds else "FAILS"
    if figure.failure:
        verdict += f" ({figure.failure})"
    return figure.what, f"{_short(figure.value)} {figure.unit}", bar, verdict


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.3g}"


def measured(*arguments: str) -> Command:
    """One run of `smoke-lineage`, its output thrown away."""
    # A process in between: memory of the process that starts a command counts as the command's on Linux.
    helper = [sys.executable, "-S", "-E", str(Path(__file__).with_name("peak.py"))]
    done = subprocess.run([*helper, PROGRAM, *arguments], capture_output=True, text=True, check=False)
    failure = done.stderr.strip().partition("\n")[0] if done.returncode else None
    return Command(**json.loads(done.stdout), failure=failure)


def machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {"cores": str(os.cpu_count()), "memory": f"{memory / 2**30:.0f} GiB", "system": platform.platform()}
    return found | {name: version(name) for name in ("pyspark", "duckdb", "pyarrow")}
