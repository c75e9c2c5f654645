"""Runs and datasets: tables leave out columns of little use and fit the terminal; other formats hold everything."""

from __future__ import annotations

import re
import threading

import pytest
from lineage_cli import progress

from lineage_service.errors import NotFound
from lineage_service.query.answer import records
from tests.cli.conftest import Call
from tests.cli.fakes import FakeAnswer, FakeHome, answer

FIRST, SECOND = "0bc658a7d5034161", "0bc658a7e5034161"  # alike for eight characters


def runs() -> FakeAnswer:
    return answer(
        {
            "run_id": [SECOND, FIRST],
            "workflow": ["revenue", "shop"],
            "status": ["committed", "committed"],
            "capture": ["auto", "stage"],
            "started_at": ["2026-11-16T05:57:21.804+00:00", "2026-11-15T05:57:21.804+00:00"],
            "committed_at": ["2026-11-16T05:58:11.088+00:00", None],
            "workflow_version": ["2e1fd466" * 8, "3e1fd466" * 8],
        },
        "records",
        remaining=4,
    )


def datasets(name: str = "shop.customers") -> FakeAnswer:
    return answer(
        {
            "dataset": [name],
            "kind": ["source"],
            "rows": [1234567],
            "bytes": [123456789],
            "run_id": [FIRST],
            "version": ["9f" * 16],
        },
        "records",
    )


def lines(out: str) -> list[str]:
    return [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", out).splitlines()]


def test_runs_as_a_table(call: Call) -> None:
    result = call("runs", runs())
    assert result.out.splitlines() == [
        "run_id            workflow  status     capture  started_at           committed_at",
        "----------------  --------  ---------  -------  -------------------  -------------------",
        f"{SECOND}  revenue   committed  auto     2026-11-16 05:57:21  2026-11-16 05:58:11",
        f"{FIRST}  shop      committed  stage    2026-11-15 05:57:21  null",
    ]
    assert result.err == "… and 4 more rows; use --limit to see more\n"


def test_other_formats_hold_everything(call: Call) -> None:
    first = call("runs --json", runs()).json[0]
    assert first["workflow_version"] == "2e1fd466" * 8
    assert first["started_at"] == "2026-11-16T05:57:21.804+00:00"
    assert call("datasets --format csv", datasets()).out.splitlines()[1].endswith(f",{FIRST},{'9f' * 16}")


@pytest.mark.usefixtures("terminal")
def test_runs_on_narrow_terminals(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = {}
    for columns in (90, 82, 80, 60, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = lines(call("runs", runs()).out)
        assert len(shown) == 4, "a line per run"
        assert max(map(len, shown)) <= columns
        heads[columns] = (shown[0].split(), shown[3].split()[0])
    every = ["run_id", "workflow", "status", "capture", "started_at", "committed_at"]
    without_status = ["run_id", "workflow", "capture", "started_at", "committed_at"]
    assert heads[90] == (every, FIRST)
    assert heads[82] == (every, FIRST[:9])
    assert heads[80] == (without_status, FIRST[:9])
    assert heads[60] == (["run_id", "workflow", "capture", "committed_at"], FIRST[:9])
    assert heads[40] == (["run_id", "workflow", "committed_at"], FIRST[:9])


@pytest.mark.usefixtures("terminal")
def test_datasets_on_narrow_terminals(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert lines(call("datasets", datasets()).out)[2] == f"shop.customers  source  1234567  123456789  {FIRST}"
    assert lines(call("datasets", datasets("shop.customers2")).out)[2].endswith(f"123456789  {FIRST[:8]}")
    name = "a_rather_long_workflow.with_a_long_name"
    assert lines(call("datasets", datasets(name)).out)[2] == f"{name}  1234567  {FIRST[:8]}"


def test_an_empty_list(call: Call) -> None:
    out = call("runs", records(["run_id", "workflow", "started_at", "workflow_version"], [])).out
    assert out.splitlines() == ["run_id  workflow  started_at", "------  --------  ----------"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ("rows t", "looking up"),
        ("backward t --all", "looking up"),
        ("forward t --all", "looking up"),
        ("runs", "looking up"),
        ("datasets", "looking up"),
        ("trace t --rid 0", "tracing"),
        ("diff t", "comparing"),
    ],
)
def test_a_long_wait_shows_from_the_opening_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, arguments: str, label: str
) -> None:
    drawn, draw = threading.Event(), progress._Line._draw

    def noted(line: progress._Line) -> None:
        draw(line)
        if line._drawn:
            drawn.set()

    class Locked(FakeHome):
        def open(self, home: str | None, catalog: str | None) -> FakeHome:
            assert drawn.wait(120)
            raise NotFound("it stays locked")

    monkeypatch.setattr(progress._Line, "_draw", noted)
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    monkeypatch.setattr(progress, "TICK", 0.02)
    result = call(arguments, home=Locked())
    assert result.code == 1
    assert re.search(rf"{label} · \d+ s", result.err)
    assert result.err.endswith("\r\x1b[2Kerror: it stays locked\n")
