"""The demo's commands name the home they mean. The story itself is told in tests/cli/test_demo.py."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from lineage_cli.demo import data, story

from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A story of one command that needs no Spark."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "has_flights", lambda: False)
    monkeypatch.setattr(story, "SHOP", (story.Scene("What a file may hold.", "schema"),))


def commands(out: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("$ ")]


def test_a_home_that_is_named_is_named_in_every_command(call: Call, tmp_path: Path) -> None:
    result = call(["demo", "shown", "--home", "my home", "--catalog", "sqlite:///x.db"])
    assert result.code == 0
    words = ["--home", str(tmp_path / "my home"), "--catalog", "sqlite:///x.db"]
    assert commands(result.out) == [
        ["smoke-lineage", "schema", *words],
        ["cd", "shown"],
        ["smoke-lineage", "graph", "--all", "--out", "graph.html", *words],
        ["smoke-lineage", "trace", "ranked", "--rid", "0", "--out", "trace.html", *words],
    ]
    assert not (tmp_path / "shown" / ".smoke").exists()


def test_else_the_demo_has_its_own(call: Call, tmp_path: Path) -> None:
    result = call("demo shown")
    assert commands(result.out)[-1] == ["smoke-lineage", "trace", "ranked", "--rid", "0", "--out", "trace.html"]
    assert (tmp_path / "shown" / ".smoke").is_dir()
