from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from lineage_cli import options
from lineage_cli.main import main

from tests.cli.fakes import FakeHome


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Runs the program in this process: call("rows totals", answer)."""

    def run(
        arguments: str | list[str], answer: Any = None, *, home: FakeHome | None = None, stdin: bytes = b""
    ) -> Result:
        fake = home or FakeHome(answer)
        monkeypatch.setattr(options, "open_home", fake.open)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments.split() if isinstance(arguments, str) else arguments)
        out, err = capsysbinary.readouterr()
        assert isinstance(left.value.code, int)
        return Result(left.value.code, out.decode("utf-8"), err.decode("utf-8"))

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard streams look like an 80 column terminal."""
    monkeypatch.setattr(options, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
