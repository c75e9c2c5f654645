"""Exit codes and messages for everything that can go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lineage_service.errors import LineageError, NotFound, Position, Problem, WorkflowError
from tests.cli.conftest import Call
from tests.cli.fakes import FakeAnswer, FakeHome, FakePart, answer
from tests.support.paths import ROOT


def test_a_users_error_is_one_clear_message(call: Call) -> None:
    result = call("rows totals", NotFound("no dataset 'totals' in /x/.smoke", hint="did you mean 'total'?"))
    assert result.code == 1
    assert result.out == ""
    assert result.err == "error: no dataset 'totals' in /x/.smoke\n  hint: did you mean 'total'?\n"


def test_every_problem_is_printed_and_positions_start_the_line(call: Call) -> None:
    problems = [
        Problem("unknown column 'amnt'", Position("orders.yml", 14, 12), hint="did you mean 'amount'?"),
        Problem("no step or output reads step 'x'", Position("orders.yml", 15, 3), severity="warning"),
        Problem("no file"),
    ]
    result = call("run orders.yml", WorkflowError(problems))
    assert result.code == 1
    assert result.err.splitlines() == [
        "orders.yml:14:12: unknown column 'amnt'",
        "  hint: did you mean 'amount'?",
        "orders.yml:15:3: warning: no step or output reads step 'x'",
        "error: no file",
    ]


def test_a_fault_of_ours_names_kind_and_place_but_no_data(call: Call) -> None:
    result = call("rows totals", KeyError("Jane Doe, Vienna"))
    assert result.code == 3
    assert "Jane" not in result.err
    assert result.err.startswith("internal error: KeyError at lineage_cli/commands/rows.py:")
    assert result.err.endswith("; run again with --debug for the traceback\n")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", ["--debug rows totals", "rows totals --debug"])
def test_debug_gives_the_traceback(call: Call, arguments: str) -> None:
    result = call(arguments, KeyError("Jane Doe"))
    assert result.code == 3
    assert "Traceback (most recent call last)" in result.err
    assert "KeyError: 'Jane Doe'" in result.err


def test_debug_keeps_the_code_of_a_users_error(call: Call) -> None:
    result = call("--debug rows totals", LineageError("no such thing"))
    assert result.code == 1
    assert "Traceback" in result.err
    assert result.err.endswith("error: no such thing\n")


@pytest.mark.parametrize("error", [EOFError("data"), OSError(5, "Input/output error", "/secret"), MemoryError()])
def test_other_errors_are_faults(call: Call, error: Exception) -> None:
    result = call("rows totals", error)
    assert result.code == 3
    assert "secret" not in result.err


def test_interrupted(call: Call) -> None:
    result = call("run x.yml", KeyboardInterrupt())
    assert result.code == 1
    assert result.err == "interrupted; nothing was kept\n"


class Interrupted(FakeHome):
    """Everything that is asked of it is interrupted."""

    audit = property(lambda self: self)

    def apply(self, *_: object, **__: object) -> None:
        raise KeyboardInterrupt

    gc = apply


@pytest.mark.parametrize(
    "command, told",
    [
        ("audit apply plan.json", "run the same command again: it finishes the plan"),
        ("gc", "run the same command again to remove the rest"),
        ("gc --retention", "run the same command again to remove the rest"),
    ],
)
def test_what_was_interrupted_in_the_middle_of_a_change_does_not_say_that_nothing_was_kept(call, command, told) -> None:
    result = call(command, home=Interrupted())
    assert result.code == 1
    assert result.err.startswith("error: interrupted; ")
    assert "nothing was kept" not in result.err
    assert told in result.err


def test_an_answer_that_fails_midway_leaves_no_file(call: Call, tmp_path: Path) -> None:
    for name in ("x.csv", "x.json", "x.parquet", "x.txt"):
        part = FakePart(pa.table({"_rid": [0]}), fails_with=LineageError("a file has changed"))
        result = call(["rows", "t", "--out", str(tmp_path / name)], FakeAnswer([part]))
        assert (result.code, result.err) == (1, "error: a file has changed\n")
    assert list(tmp_path.iterdir()) == []


def test_out_problems_are_users_errors(call: Call, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for name, reason in (
        ("no/x.csv", "does not exist"),
        ("folder", "it is a folder"),
        ("file/x.csv", "does not exist"),
        ("n" * 300, "cannot write"),
    ):
        result = call(["rows", "t", "--out", str(tmp_path / name)], answer({"_rid": [0]}))
        assert result.code == 1
        assert result.err.startswith("error: cannot write '")
        assert reason in result.err


def test_out_without_permission(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.csv"
    file.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere: modes would not do
    result = call(["rows", "t", "--out", str(file)], answer({"_rid": [0]}))
    assert (result.code, result.err) == (1, f"error: cannot write '{file}': permission denied\n")
    assert file.read_text() == "old"


def test_out_replaces_a_file_keeps_a_link_and_spares_a_device(call: Call, tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    assert call(["rows", "t", "--out", str(link)], answer({"_rid": [0]})).code == 0
    assert link.is_symlink()
    assert real.read_text() == "_rid\n0\n"
    assert call(["rows", "t", "--format", "csv", "--out", os.devnull], answer({"_rid": [0]})).code == 0
    assert not Path(os.devnull).is_file()
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_a_full_disk_is_a_users_error(call: Call) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    for format_ in ("csv", "parquet", "json", "table"):
        result = call(["rows", "t", "--format", format_, "--out", str(full)], answer({"_rid": list(range(100_000))}))
        assert result.code == 1
        assert result.err == "error: cannot write '/dev/full': no space left on device\n"


def start(*arguments: str, **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.fakes", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.long
@pytest.mark.parametrize("format_", ["csv", "json", "ndjson", "table"])
def test_a_reader_who_has_enough_is_no_error(format_: str) -> None:
    with start("many", "backward", "t", "--all", "--to", "s", "--pairs", "--format", format_) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_broken_pipe_within_the_service_is_not_taken_for_ours() -> None:
    with start("spark", "rows", "t") as process:
        out, err = process.communicate()
    assert process.returncode == 3
    assert out == b""
    assert err.startswith(b"internal error: BrokenPipeError at lineage_service/errors.py:1;")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_or_terminated(number: signal.Signals) -> None:
    with start("sleepy", "run", "x.yml") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == b""
    assert err == b"interrupted; nothing was kept\n"
