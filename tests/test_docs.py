"""The documents are true: docs/cli.md holds each verb's --help, workflows validate, links lead somewhere.

SMOKE_GOLDEN=1 rewrites the help in docs/cli.md.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner
from lineage_cli.commands.audit import AUDIT_VERBS
from lineage_cli.main import PROGRAM, VERBS, cli

from lineage_service.workflow import validate_workflow

ROOT = Path(__file__).parents[1]
CLI = ROOT / "docs" / "cli.md"
WORKFLOWS = sorted((ROOT / "workflows").rglob("*.yml"))
FOLDERS = ("docs", "benchmarks", "workflows")
PAGES = sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])

WIDTH = 98  # what a terminal of 100 columns or more gets
EVERY_VERB = [*VERBS, *(f"audit {verb}" for verb in AUDIT_VERBS)]
BLOCK = re.compile(r"(?<=<!-- help: )(?P<verb>[a-z -]+?)(?P<start> -->\n```text\n)(?P<text>.*?)(?=```\n)", re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


def help_of(verb: str) -> str:
    arguments = ["--help"] if verb == PROGRAM else [*verb.split(), "--help"]
    result = CliRunner().invoke(cli, arguments, prog_name=PROGRAM, terminal_width=WIDTH)
    assert result.exit_code == 0
    return result.output


def with_current_help(page: str) -> str:
    """The page with each block's help as it is now; a verb that has no block gets one at the end."""
    page = BLOCK.sub(lambda found: found["verb"] + found["start"] + help_of(found["verb"]), page)
    missing = [verb for verb in EVERY_VERB if verb not in documented(page)]
    return page + "".join(f"\n## {verb}\n\n<!-- help: {verb} -->\n```text\n{help_of(verb)}```\n" for verb in missing)


def documented(page: str) -> dict[str, str]:
    return {found["verb"]: found["text"] for found in BLOCK.finditer(page)}


def test_every_verb_is_documented():
    if os.environ.get("SMOKE_GOLDEN"):
        CLI.write_text(with_current_help(CLI.read_text(encoding="utf-8")), encoding="utf-8")
    found = documented(CLI.read_text(encoding="utf-8"))
    assert found.keys() == {PROGRAM, *EVERY_VERB}
    assert found == {verb: help_of(verb) for verb in found}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda path: str(path.relative_to(ROOT)))
def test_workflow_files_are_valid(file, tmp_path):
    validate_workflow(file, home=tmp_path)  # sources that are not there are warnings


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made for Markdown on the web."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for found in LINK.finditer(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        path, _, anchor = unquote(found["target"]).partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(found["target"])
    assert not broken
