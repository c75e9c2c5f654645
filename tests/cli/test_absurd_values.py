"""Absurd values of options over a real home: a usage error, a user's error or an answer, and never an internal error."""

import io
import json
import os
import stat
import sys
from datetime import UTC, datetime

import pytest
from lineage_cli.main import main

from lineage_service import Home
from lineage_service.audit.log.sealed_documents import write_document
from lineage_service.audit.privacy_declarations import end_of_term
from lineage_service.bounded.limits import MOST_SECONDS, SECONDS, time_limit
from lineage_service.errors import QuestionError
from tests.support.made_home import made_home

ABSURD = (
    "-1",
    "1" + "0" * 30,
    "nan",
    "inf",
    "",
    " ",
    "1.5",
    "1e400",
    str(2**63),
    "0x10",
    "9" * 5_000,
    "a\0b",
    "\ud800",
)
VERBS = {
    "rows out": ("--limit", "--rid", "--order-by"),
    "backward out --to a --all": ("--limit", "--top"),
    "backward out --to a": ("--rid",),
    "forward a --to out": ("--rid",),
    "trace out --rid 0": ("--depth", "--rows"),
    "trace out": ("--rid",),
    "diff out out": ("--rows", "--limit", "--tolerance"),
    "why-not a --to out --all": ("--limit",),
    "audit log": ("--retain-days",),
    "refresh a": ("--removed",),
    "audit access person:1": ("--min-group",),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("absurd")
    made_home(made)
    return made


@pytest.fixture
def exit_code(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        with pytest.raises(SystemExit) as left:
            main([*words, "--home", str(folder / "home")])
        told = capsys.readouterr().err
        assert "internal error" not in told and "Traceback" not in told, told
        assert left.value.code == 0 or told.strip(), "what is wrong is told"
        return int(left.value.code)

    return call


@pytest.mark.parametrize(("verb", "option"), [(verb, option) for verb, options in VERBS.items() for option in options])
def test_absurd_numbers(exit_code, verb, option):
    for value in ABSURD:
        code = exit_code(*verb.split(), f"{option}={value}")
        assert code in (1, 2) or (code == 0 and option == "--order-by"), value


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e400", "1e30", str(2**63), "", "x"])
def test_absurd_times(exit_code, value):
    assert exit_code("query", "SELECT 1 AS one", f"--timeout={value}") in (1, 2)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 10**30, MOST_SECONDS + 1])
def test_absurd_times_in_python(folder, seconds):
    with Home.open(folder / "home") as home, pytest.raises(QuestionError, match="at most 31,536,000"):
        home.query("SELECT 1 AS one", timeout=seconds)


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-5", "0", "soon"])
def test_absurd_times_of_the_environment_count_as_the_default(monkeypatch, value):
    monkeypatch.setenv("SMOKE_TIMEOUT", value)
    assert time_limit() == SECONDS


@pytest.mark.parametrize("verb", ["graph", "explain", "validate"])
def test_a_home_with_too_long_a_name(folder, monkeypatch, capsys, verb):
    monkeypatch.chdir(folder)
    steps = "steps: [{name: x, op: filter, input: a, where: k > 1}]"
    lines = ["version: 1", "name: w", "sources: {a: {path: a.parquet}}", steps, "outputs: {x: }", ""]
    (folder / "w.yml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main([verb, "w.yml", "--home", "x" * 5_000])
    assert left.value.code in (0, 1)
    assert "internal error" not in capsys.readouterr().err


def test_numbers_that_only_a_calendar_cannot_take(exit_code):
    assert exit_code("audit", "log", f"--retain-days={2**63 - 1}") == 1
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert end_of_term(since, 2**31 - 1) is None and end_of_term(since, None) is None
    assert end_of_term(since, 31) == datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize("verb", ["approve", "refuse --reason why", "apply"])
def test_a_reference_that_is_too_long_to_be_a_path(exit_code, verb):
    first, *rest = verb.split()
    assert exit_code("audit", first, "9" * 5_000, *rest) == 1


def test_a_workflow_that_the_catalog_holds_and_nobody_can_read(exit_code):
    """Homes made by hand hold an empty one."""
    assert exit_code("why-not", "a", "--to", "out", "--all") == 1


# --- files of results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["rows", "out"],
        ["audit", "plan-erasure", "--subject", "person=1"],
        ["audit", "plan-rectification", "--subject", "person=1", "--set", "k=1"],
        ["audit", "apply", "plan.json"],
    ],
)
def test_no_verb_makes_missing_folders_for_its_result(folder, monkeypatch, capsys, words):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as left:
        main([*words, "--out", "no/such/result.json", "--home", str(folder / "home")])
    assert left.value.code == 1
    assert capsys.readouterr().err == "error: cannot write 'no/such/result.json': the folder 'no/such' does not exist\n"
    assert not (folder / "no").exists()


def test_a_document_is_written_to_a_pipe_and_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere" / "plan.json")
    write_document({"plan_id": "x"}, tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "elsewhere" / "plan.json").read_text()) == {"plan_id": "x"}
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_document({"plan_id": "x"}, tmp_path / "pipe")
    assert json.loads(os.read(reader, 1000)) == {"plan_id": "x"}
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)  # it was written to, and not replaced by a file
