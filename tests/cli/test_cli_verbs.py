"""The verbs that do more than ask: run, validate, schema, gc; and what help costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lineage_cli.commands.audit import AUDIT_VERBS
from lineage_cli.main import ALIASES, VERBS, main

from lineage_service.errors import ChecksFailed, NotFound, Position, Problem, WorkflowError
from lineage_service.progress import Began, Ended, Moved
from tests.cli.conftest import Call
from tests.cli.fakes import REPORT, FakeHome, FakeReport
from tests.support.made_home import made_home
from tests.support.paths import ROOT

HEAVY = ("duckdb", "pyarrow", "sqlalchemy", "pydantic", "sqlglot", "rich", "pyspark", "lineage_service.home")


def test_run_prints_id_rows_and_pairs(call: Call) -> None:
    home = FakeHome(FakeReport(warnings=["x.yml:3:1: warning: nobody reads 'x'"]))
    result = call(
        "run x.yml --capture defer --var since=1996 --var a=b=c --master local[2] --conf spark.x=1", home=home
    )
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "run 3f2a9c01  revenue  committed"
    assert ["totals", "11,620"] in [line.split() for line in lines]
    assert ["totals", "nation", "lazy", "-"] in [line.split() for line in lines]
    assert result.err == "x.yml:3:1: warning: nobody reads 'x'\n"
    verb, (file,), options = home.asked[0]
    assert (verb, file) == ("run", Path("x.yml"))
    assert options == {
        "capture": "defer",
        "vars": {"since": "1996", "a": "b=c"},
        "master": "local[2]",
        "remote": None,
        "conf": {"spark.x": "1"},
        "index_engine": "auto",
        "sources": (),
        "progress": None,
    }
    assert home.closed


def test_run_json_is_one_object_on_one_line(call: Call) -> None:
    result = call("run x.yml --json", FakeReport())
    assert result.json["seconds"] == REPORT["seconds"]
    assert result.json["capture"]["totals"]["orders"]["pairs"] == str(2**60)
    assert len(result.out.splitlines()) == 1


def test_run_json_tells_a_run_that_failed_a_check_too(call: Call) -> None:
    failed = ChecksFailed(
        [Problem("3 rows of 'totals' fail unique order_id")], FakeReport({**REPORT, "status": "failed"})
    )
    result = call("run x.yml --json", failed)
    assert result.code == 1
    assert result.json["status"] == "failed"
    assert result.json["run_id"] == "3f2a9c01"
    assert result.err == "error: 3 rows of 'totals' fail unique order_id\n"
    result = call("run x.yml", failed)
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: 3 rows of 'totals' fail unique order_id\n"


def talkative(*, progress: Any, **_: Any) -> FakeReport:
    if progress:
        progress(Began("reading orders", 2, 7))
        progress(Moved(3, 8))
        progress(Ended("reading orders", 1.5, 3000, 4096))
        progress(Began("z" * 500, 3, 7))
        progress(Ended("z" * 500, 0.25))
    return FakeReport()


def test_progress(call: Call, terminal: None) -> None:
    err = call("run x.yml", talkative).err
    assert "[1/7] reading orders · 3/8 tasks · 0 s" in err
    assert "2,000 rows/s" in err
    assert "\n" not in err
    assert err.endswith("\r\x1b[2K")
    assert max(len(line) for line in err.split("\r\x1b[2K")) < 80
    assert call("run x.yml --quiet", talkative).err == ""
    assert call("run x.yml --verbose", talkative).err.startswith(
        "reading orders: 3,000 rows, 4.1 kB, 1.5 s (2,000 rows/s)\nzzz"
    )


def drawn_lines(call: Call, *events: Any) -> list[str]:
    def run(*, progress: Any, **_: Any) -> FakeReport:
        for event in events:
            progress(event)
        return FakeReport()

    return [line.removesuffix(" · 0 s") for line in call("run x.yml", run).err.split("\r\x1b[2K") if line]


def test_stages_side_by_side_count_on_and_never_back(call: Call, terminal: None) -> None:
    assert drawn_lines(
        call,
        Began("start", 1),
        Ended("start", 0.0),
        Began("a", 2, 4),
        Began("b", 3, 4),
        Ended("a", 0.0),
        Began("c", 4, 4),
        Ended("c", 0.0),
        Ended("b", 0.0),
    ) == ["[1] start", "[1] start", "[2/4] a", "[2/4] b", "[3/4] b", "[3/4] c", "[4/4] b", "[4/4] b"]


def test_more_stages_than_announced_have_no_total(call: Call, terminal: None) -> None:
    assert drawn_lines(call, Began("a", 1, 1), Ended("a", 0.0), Began("b", 2, 2), Ended("b", 0.0)) == [
        "[1/1] a", "[1/1] a", "[2] b", "[2] b",
    ]  # fmt: skip


def test_no_progress_without_a_terminal_unless_asked_for(call: Call) -> None:
    assert call("run x.yml", talkative).err == ""
    assert call("run x.yml --verbose", talkative).err.startswith("reading orders: ")


def test_an_interrupt_after_the_commit_does_not_deny_the_run(call: Call) -> None:
    class Late(FakeHome):
        def close(self) -> None:
            raise KeyboardInterrupt

    result = call("run x.yml", home=Late(FakeReport()))
    assert result.code == 0
    assert result.out.startswith("run 3f2a9c01")


@pytest.fixture
def workflows(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """lineage_service.runs.workflow_file, as far as the program uses it."""
    asked: dict[str, Any] = {}
    module = ModuleType("lineage_service.runs.workflow_file")

    def validate_workflow(
        file: Path, vars: Any = None, home: Any = None, catalog: Any = None, sources: Any = (), beside: Any = ()
    ) -> tuple[Problem, ...]:
        asked["vars"] = vars
        if file.name == "missing.yml":
            raise NotFound(f"no file '{file}'")
        if file.name == "bad.yml":
            raise WorkflowError(
                [Problem(what, Position(str(file), line, 1)) for line, what in ((1, "one"), (2, "two"))]
            )
        if file.name == "warned.yml":
            return (Problem("nobody reads 'x'", Position(str(file), 3, 1), severity="warning"),)
        return ()

    module.validate_workflow = validate_workflow  # type: ignore[attr-defined]
    module.outputs_of_files = frozenset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lineage_service.runs.workflow_file", module)
    return asked


def test_validate_reports_the_problems_of_all_files(call: Call, workflows: dict[str, Any]) -> None:
    result = call("validate bad.yml good.yml warned.yml missing.yml --var a=1")
    assert result.code == 1
    assert result.out == "good.yml: ok\nwarned.yml: ok, 1 warning\n"
    assert result.err.splitlines() == [
        "warned.yml:3:1: warning: nobody reads 'x'",
        "bad.yml:1:1: one",
        "bad.yml:2:1: two",
        "error: no file 'missing.yml'",
    ]
    assert workflows["vars"] == {"a": "1"}


@pytest.mark.parametrize("verb", ["validate", "explain", "graph", "run"])
def test_a_file_that_is_not_there_is_answered_with_a_close_one(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows").mkdir()
    for name in ("bakery.yml", "flows/bakery.yaml", "flows/bakry.txt"):
        (tmp_path / name).write_text("")
    for file, hint in (
        ("bakry.yml", "\n  hint: did you mean 'bakery.yml'?"),
        ("flows/bakry.yml", "\n  hint: did you mean 'flows/bakery.yaml'?"),
        ("other.yml", ""),
        ("nowhere/bakery.yml", ""),
    ):
        result = call([verb, file], NotFound(f"workflow file '{file}' does not exist"))
        assert result.code == 1
        assert result.err == f"error: workflow file '{file}' does not exist{hint}\n"


def test_validate_is_done_where_nothing_is_wrong(call: Call, workflows: dict[str, Any]) -> None:
    assert call("validate good.yml warned.yml").code == 0


def test_schema(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("lineage_service.spec.json_schema")
    module.workflow_json_schema = lambda: {"type": "object"}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lineage_service.spec.json_schema", module)
    assert call("schema").json == {"type": "object"}


def test_gc(call: Call) -> None:
    home = FakeHome({"removed": 3, "bytes": 12_345_678})
    assert call("gc", home=home).out == "removed 3 folders, 12.3 MB\n"
    assert home.options == {"dry_run": False, "retention": False, "actor": None}
    assert call("gc --dry-run", home=home).out == "would remove 3 folders, 12.3 MB\n"
    assert call("gc --json", home=home).json == {"removed": 3, "bytes": 12345678}
    assert call("gc", {"removed": 1, "bytes": 7}).out == "removed 1 folder, 7 bytes\n"


def test_gc_tells_what_retention_took_and_what_it_did_not(call: Call) -> None:
    told = {"expired": ["r1"], "cut": ["b.in@r2"], "published": ["/out"], "files": 4, "notes": ["no anchor"]}
    done = call("gc --retention", {"removed": 0, "bytes": 7, **told})
    assert done.out == "1 run past its retention\n  r1\nremoved 0 folders, 7 bytes\n"
    assert "cut at b.in@r2" in done.err and "'/out' was removed too" in done.err and "no anchor" in done.err


HELP = """
import contextlib, io, json, sys
from lineage_cli.main import main
told = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(words)
        except SystemExit as left:
            told.append([left.code, out.getvalue(), sorted(sys.modules)])
print(json.dumps(told))
"""


def test_help_loads_nothing_heavy() -> None:
    """One process for all of them: what one had loaded, those after it would show too."""
    verbs = ["", *VERBS, *ALIASES, *(f"audit {verb}" for verb in AUDIT_VERBS)]
    words = json.dumps([["-h"], *([*verb.split(), "--help"] for verb in verbs[1:])])
    done = subprocess.run([sys.executable, "-c", HELP, words], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert len(told) == len(verbs)
    for verb, (code, text, loaded) in zip(verbs, told, strict=True):
        assert code == 0, verb
        assert text.startswith("Usage: smoke-lineage"), verb
        assert [name for name in HEAVY if name in loaded] == [], verb
        if verb:
            assert "Example" in text, verb
            if verb not in ("schema", "init", "audit", "import"):  # they open no home themselves
                assert {"--home", "--catalog"} <= set(text.split()), verb
        else:
            assert not [name for name in loaded if name.startswith("lineage_cli.commands.")]
            assert all(each in text for each in (*VERBS, *ALIASES))


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["validate", str(ROOT / "workflows/shop/revenue.yml")], ("duckdb", "pyarrow", "sqlalchemy", "pandas", "rich")),
        (["backward", "out", "--rid", "0", "--to", "a", "--rids"], ("duckdb", "pandas", "rich", "pydantic", "sqlglot")),
        (["rows", "out"], ("pandas", "pydantic", "networkx", "sqlglot")),
        (["doctor"], ("duckdb", "sqlglot", "pydantic")),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], unneeded: tuple[str, ...], tmp_path: Path) -> None:
    """So it starts fast; how fast, `python -m benchmarks commands` tells."""
    program = (
        "import sys, json\nfrom lineage_cli.main import main\n"
        "try: main()\n"
        "finally: print(json.dumps([name for name, module in sys.modules.items() if module]), file=sys.stderr)"
    )
    home = made_home(tmp_path)
    command = [sys.executable, "-c", program, *arguments, "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert loaded.isdisjoint({*unneeded, "pyspark", "alembic"})


def test_help_tells_how_to_start(call: Call) -> None:
    lines = [line.strip() for line in call("--help").out.splitlines()]
    start = lines.index("Start with:")
    assert lines[start + 1].startswith("smoke-lineage demo ")
    assert lines[start + 2].startswith("smoke-lineage init my-project ")


def test_version(call: Call) -> None:
    result = call("--version")
    assert result.code == 0
    assert result.out.startswith("smoke-lineage, version ")


def test_the_shell_can_ask_for_completions() -> None:
    environment = {
        **os.environ,
        "_SMOKE_LINEAGE_COMPLETE": "bash_complete",
        "COMP_WORDS": "smoke-lineage ba",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "lineage_cli.main"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,backward\n"


def test_columns_that_name_none(capsys):
    with pytest.raises(SystemExit) as left:
        main(["rows", "o", "--columns", " , "])
    assert left.value.code == 2 and "--columns names no column" in capsys.readouterr().err
