"""What an experiment gives: one result per case and technique, as it stands in the JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Result:
    """Medians of one technique on one case; None where there is no such figure, `note` says why or how.

    `ratio` is (total_s - fixed_s) / base_s; `critical_ratio` the same until the outputs can be read; `raw_ratio`
    leaves `fixed_s` in.
    """

    experiment: str
    case: str
    technique: str
    base_s: float | None = None
    total_s: float | None = None
    ratio: float | None = None
    critical_ratio: float | None = None
    fixed_s: float | None = None
    pairs: int | None = None
    bytes_per_pair: float | None = None
    peak_rss_mb: float | None = None
    bytes_per_pair_backward: float | None = None
    bytes_per_pair_forward: float | None = None
    raw_ratio: float | None = None
    strategy: str | None = None
    bytes: int | None = None  # of all that is kept to answer questions
    capture_s: float | None = None  # between the outputs being there and the lineage being there
    rounds: int = 0
    total_s_all: tuple[float, ...] = ()
    p50_ms: float | None = None
    p95_ms: float | None = None
    rows: int | None = None  # behind what was looked up
    scale: float = 1.0
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


def save(results: Iterable[Result], file: Path) -> None:
    file.write_text(json.dumps([each.to_json() for each in results], indent=1) + "\n", encoding="utf-8")


def load(file: Path) -> list[Result]:
    return [
        Result(**{**each, "total_s_all": tuple(each["total_s_all"])})
        for each in json.loads(file.read_text(encoding="utf-8"))
    ]


def by_case(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results of each case of each experiment, in the order they came."""
    cases: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        cases.setdefault((each.experiment, each.case), []).append(each)
    return cases


def named(results: Sequence[Result], technique: str) -> Result | None:
    return next((each for each in results if each.technique == technique), None)
