"""What the pages for newcomers say is so: every command of the tutorial and the README, every cell of the Python page.

SMOKE_GOLDEN=1 rewrites the outputs in the pages.
"""

import re
import shutil

import pytest

from tests.support.pages import Reader, commands, compared, read_notebook, read_page
from tests.support.paths import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
PYTHON = ROOT / "docs" / "python.md"
WITNESSES = ROOT / "docs" / "witnesses.md"


def copied(folder):
    ignored = shutil.ignore_patterns(".smoke", "out", "tpch")
    shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=ignored)
    return folder


def test_every_command_of_the_tutorial(spark, tmp_path, monkeypatch):
    said = read_page(TUTORIAL, Reader(tmp_path, "tutorial", monkeypatch))
    assert said
    assert not [str(each) for each in said if not each.holds]


def test_every_command_of_the_page_on_witnesses(spark, tmp_path, monkeypatch):
    said = read_page(WITNESSES, Reader(tmp_path, "witnesses", monkeypatch))
    assert said
    assert not [str(each) for each in said if not each.holds]


def test_no_page_shows_a_fault_of_ours():
    for page in (TUTORIAL, README, PYTHON, WITNESSES, ROOT / "docs" / "examples.md"):
        text = page.read_text(encoding="utf-8")
        assert "internal error" not in text
        assert "Traceback" not in text


def test_every_command_of_the_readme(spark, tmp_path, monkeypatch):
    said = read_page(README, Reader(copied(tmp_path), "readme", monkeypatch))
    assert said
    assert not [str(each) for each in said if not each.holds]


def test_every_cell_of_the_python_page(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(tmp_path))
    for variable in ("SMOKE_HOME", "SMOKE_CATALOG"):
        monkeypatch.delenv(variable, raising=False)
    said = read_notebook(PYTHON)
    assert len(said) == 19
    assert not [str(each) for each in said if not each.holds]


def test_every_verb_is_in_a_page_for_newcomers():
    from lineage_cli.main import VERBS

    paths = (TUTORIAL, README, ROOT / "docs" / "examples.md", ROOT / "docs" / "import.md")
    pages = "".join(path.read_text(encoding="utf-8") for path in paths)
    shown = set(re.findall(r"^\$ smoke-lineage ([a-z-]+)", pages, re.MULTILINE))
    assert VERBS.keys() - shown <= {"schema", "datasets", "runs", "gc", "doctor", "demo", "index"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("$ ls\n", [("ls", "")]),
        ("$ ls a\nb\n\nc\n\n$ cd d\n", [("ls a", "b\n\nc\n"), ("cd d", "")]),
    ],
)
def test_commands_are_told_from_what_they_print(body, expected):
    assert commands(body) == expected


def test_only_what_varies_is_not_compared():
    assert compared("run 1, 2026-01-02 03:04:05, 1.5 s") == compared("run 1, 2025-11-12 13:14, 20 s")
    assert compared("3 rows") != compared("4 rows")


def test_a_page_that_lies_is_noticed(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n\n$ echo two\nthree\n```\n", encoding="utf-8")
    monkeypatch.setattr("tests.support.pages.REWRITE", False)
    assert [each.holds for each in read_page(page, Reader(tmp_path, "page", monkeypatch))] == [True, False]
    monkeypatch.setattr("tests.support.pages.REWRITE", True)
    read_page(page, Reader(tmp_path, "page", monkeypatch))
    assert page.read_text(encoding="utf-8") == "```console\n$ echo one\none\n\n$ echo two\ntwo\n```\n"
