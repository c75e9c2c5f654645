"""A stand-in for the service: a Home that answers what it is told and remembers what it was asked.

As a script (`python -m tests.cli.fakes SCENARIO ARGUMENTS…`) it runs the real program before such a Home.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass
class FakePart:
    table: pa.Table
    dataset: str | None = None
    remaining: int | None = None
    batch_size: int | None = None
    fails_with: BaseException | None = None
    masked: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return self.table.schema.names

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches(self.batch_size)
        if self.fails_with:
            raise self.fails_with


@dataclass
class FakeAnswer:
    parts: list[FakePart]
    kind: str = "rows"
    notes: list[str] = field(default_factory=list)
    absence: list[str] = field(default_factory=list)


def answer(columns: dict[str, Any], kind: str = "rows", **more: Any) -> FakeAnswer:
    """An answer of one part."""
    beside = {name: more.pop(name) for name in ("notes", "absence") if name in more}
    return FakeAnswer([FakePart(pa.table(columns), **more)], kind, **beside)


REPORT = {
    "run_id": "3f2a9c01",
    "workflow": "revenue",
    "status": "committed",
    "vars": {"since": "1995-01-01"},
    "outputs": {"totals": {"rows": 11620, "bytes": 4096}},
    "sources": {"orders": {"rows": 15000}},
    "capture": {
        "totals": {"orders": {"strategy": "inject", "pairs": 2**60, "bytes": 99}, "nation": {"strategy": "lazy"}}
    },
    "seconds": {"execute": 1.5, "capture": 0.1, "index": 0.2},
}


@dataclass
class FakeReport:
    content: dict[str, Any] = field(default_factory=lambda: REPORT)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return self.content


class FakeHome:
    """Answers every question with `answer`, or raises it."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.opened_with: tuple[str | None, str | None] | None = None
        self.closed = False

    def open(self, home: str | None, catalog: str | None) -> FakeHome:
        self.opened_with = (home, catalog)
        return self

    def __getattr__(self, verb: str) -> Any:
        if verb not in (
            "run",
            "rows",
            "backward",
            "forward",
            "trace",
            "diff",
            "runs",
            "datasets",
            "columns",
            "graph",
            "gc",
        ):
            raise AttributeError(verb)

        def ask(*args: Any, **options: Any) -> Any:
            self.asked.append((verb, args, options))
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer(**options) if callable(self.answer) else self.answer

        return ask

    @property
    def options(self) -> dict[str, Any]:
        """The options of the last question."""
        return self.asked[-1][2]

    def close(self) -> None:
        self.closed = True


def _many(**_: Any) -> FakeAnswer:
    rids = pa.array(range(1_000_000))
    return FakeAnswer([FakePart(pa.table({"out_rid": rids, "rid": rids}), batch_size=10_000)], "pairs")


def _sleepy(*, progress: Any, **_: Any) -> FakeReport:
    print("started", flush=True)
    time.sleep(600)
    return FakeReport()


def _pipe_to_spark_broke(**_: Any) -> FakeAnswer:
    from lineage_service import errors

    # As if raised inside of the service: its code object carries a file name of that package.
    code = compile("raise BrokenPipeError(32, 'secret')", errors.__file__, "exec")
    exec(code, {})
    raise AssertionError


if __name__ == "__main__":
    from lineage_cli import options
    from lineage_cli.main import main

    scenario = {"many": _many, "sleepy": _sleepy, "spark": _pipe_to_spark_broke}[sys.argv[1]]
    options.open_home = FakeHome(scenario).open  # type: ignore[assignment]
    main(sys.argv[2:])
