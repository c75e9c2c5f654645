"""Every file in bad/ has exactly the problems of its .txt. A new case: write it, run with SMOKE_GOLDEN=1, read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lineage_service.errors import LineageError
from lineage_service.spec.loader import load_workflow

BAD = Path(__file__).parent / "bad"


def problems_of(path: Path) -> str:
    try:
        found = load_workflow(path).problems
    except LineageError as error:
        found = error.problems
    return "".join(f"{problem}\n" for problem in found).replace(str(path), path.name)


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yml")), ids=lambda path: path.stem)
def test_bad_file_has_exactly_these_problems(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMOKE_TEST_UNSET", raising=False)
    golden = path.with_suffix(".txt")
    if os.environ.get("SMOKE_GOLDEN"):
        golden.write_text(problems_of(path), encoding="utf-8")
    assert problems_of(path) == golden.read_text(encoding="utf-8")
