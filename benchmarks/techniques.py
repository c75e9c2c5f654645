"""What is compared: the plain query, and ours under each capture. The paper's competitors are in rivals.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lineage_catalog.schema_upgrade import migrate

from benchmarks.cases import Case
from lineage_service import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_service.runs.run_report import RunReport

BASELINE = "Baseline"
CAPTURES = ("off", "inject", "defer", "stage", "lazy", "auto")
WAYS = ("backward", "forward")
SINGLE = ("inject", "defer", "stage")  # strategies that leave an index, so that `auto` can be held against them


@dataclass(frozen=True)
class Job:
    """A case over the data in one folder. `scratch` is this try's own and empty, `kept` the case's over all tries."""

    case: Case
    data: Path
    scratch: Path
    kept: Path
    spark: SparkSession


@dataclass(frozen=True)
class Outcome:
    """What a try left. `after` are the seconds between the outputs being there and the lineage being there."""

    pairs: int = 0
    bytes: int = 0
    backward: int | None = None  # bytes of the index of this direction, where there is one
    forward: int | None = None
    after: float = 0.0
    strategy: str | None = None


class Technique(Protocol):
    """One way to run a query."""

    @property
    def name(self) -> str: ...

    @property
    def is_ours(self) -> bool: ...

    def ready(self, job: Job) -> Callable[[], Any]:
        """What is timed. All that a user would not wait for each time has been done."""

    def outcome(self, job: Job, returned: Any) -> Outcome:
        """What it left, after the clock has stopped."""


@dataclass(frozen=True)
class Plain:
    """A plain PySpark script: reads the source, writes the result. Also the cost of the paper's Lazy."""

    name: str = BASELINE
    is_ours: bool = False

    def ready(self, job: Job) -> Callable[[], Any]:
        def call() -> None:
            job.case.query.result(job.spark, job.data).write.parquet(str(job.scratch / "out"))

        return call

    def outcome(self, job: Job, returned: Any) -> Outcome:  # noqa: ARG002 (it leaves no lineage)
        return Outcome()


@dataclass(frozen=True)
class Ours:
    """`Home.run` under one capture, in a home that was made for this try or (`warm`) has run the workflow before."""

    name: str
    capture: str
    warm: bool = False
    is_ours: bool = True

    def ready(self, job: Job) -> Callable[[], RunReport]:
        home = self._home(job)
        file = home.with_suffix(".yml")
        if not home.is_dir():
            home.mkdir(parents=True)
            migrate(f"sqlite:///{home / 'catalog.db'}")  # a home is created once; a run is what is measured
            file.write_text(self.text(job), encoding="utf-8")
            if self.warm:
                self._run(home, file, job)
        return lambda: self._run(home, file, job)

    def text(self, job: Job) -> str:
        """The workflow file."""
        return job.case.workflow

    def outcome(self, job: Job, returned: RunReport) -> Outcome:
        found = [each for sources in returned.capture.values() for each in sources.values()]
        folder = self._home(job) / "runs" / returned.run_id
        size = sum(each.get("bytes") or 0 for each in found)
        # Forward lineage is in files of its own or takes nothing; backward lineage may be columns of the output.
        forward = sum(path.stat().st_size for path in folder.rglob("*forward*.parquet"))
        return Outcome(
            sum(each.get("pairs") or 0 for each in found),
            size,
            backward=max(size - forward, 0),
            forward=forward,
            after=sum(returned.seconds.get(phase, 0.0) for phase in ("capture", "index")),
            strategy=", ".join(sorted({each["strategy"] for each in found if each.get("strategy")})) or None,
        )

    def _home(self, job: Job) -> Path:
        return (job.kept if self.warm else job.scratch) / self.name

    def _run(self, home: Path, file: Path, job: Job) -> RunReport:
        with Home.open(home) as opened:
            return opened.run(file, capture=self.capture, vars={"data": str(job.data)})


def ours() -> list[Technique]:
    return [*(Ours(capture, capture) for capture in CAPTURES), Ours("auto-warm", "auto", warm=True)]
