"""The documents are true: docs/cli.md holds each verb's --help, workflows validate, links lead somewhere; variables,
options, modules, methods and targets of make that a page names exist, and those that exist are named.

SMOKE_GOLDEN=1 rewrites the help in docs/cli.md.
"""

import ast
import os
import re
import shlex
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import click
import pytest
from click.testing import CliRunner
from lineage_cli.commands.audit import AUDIT_VERBS
from lineage_cli.commands.import_ import IMPORT_VERBS
from lineage_cli.main import ALIASES, PROGRAM, VERBS, cli

from lineage_service import Home
from lineage_service.audit.facade import Audit
from lineage_service.capture.estimate import Sizes
from lineage_service.capture.instrument import instrument
from lineage_service.capture.plan_text import format_plan
from lineage_service.errors import NotFound
from lineage_service.plan.nodes import Node
from lineage_service.runs.validation import checked_workflow
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.spec.step_models import Step
from tests.support.paths import ROOT

CLI = ROOT / "docs" / "cli.md"
WORKFLOWS = sorted((ROOT / "workflows").rglob("*.yml"))
FOLDERS = ("docs", "benchmarks", "workflows")
PAGES = sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])

WIDTH = 98  # what a terminal of 100 columns or more gets
WITH_VERBS = {"audit": AUDIT_VERBS, "import": IMPORT_VERBS}  # verbs that have verbs of their own
EVERY_VERB = [*VERBS, *(f"{verb} {own}" for verb, verbs in WITH_VERBS.items() for own in verbs)]
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


# --- what pages name ----------------------------------------------------------------------------------------------

README, CONTRIBUTING, ARCHITECTURE = ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"
USERS_PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = (ROOT / "lineage_service", ROOT / "cli" / "lineage_cli", ROOT / "catalog" / "lineage_catalog")
VARIABLE = re.compile(r"(?<![A-Z_])SMOKE_[A-Z]+(?:_[A-Z]+)*(?![A-Z_])")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OF_OTHER_PROGRAMS = {"--check", "--hex", "--full-refresh"}  # ruff, openssl, dbt


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def sources_of(*folders: Path) -> str:
    return "\n".join(text_of(path) for folder in folders for path in sorted(folder.rglob("*.py")))


def read_variables(code: str) -> set[str]:
    """The variables of ours that code reads from the environment: each stands in it as a text of its own."""
    return {name for name in VARIABLE.findall(code) if f'"{name}"' in code}


def test_every_variable_is_on_the_page_about_the_home_and_no_other():
    table = "\n".join(line for line in text_of(ROOT / "docs" / "home.md").splitlines() if line.startswith("| `SMOKE_"))
    assert set(VARIABLE.findall(table)) == read_variables(sources_of(*PACKAGES))


@pytest.mark.parametrize("page", USERS_PAGES, ids=lambda path: path.name)
def test_variables_on_users_pages_are_read(page):
    assert set(VARIABLE.findall(text_of(page))) <= read_variables(sources_of(*PACKAGES))


def test_variables_of_tests_are_told_to_contributors():
    ours = read_variables(sources_of(*PACKAGES))
    asked = set(re.findall(r'environ\.get\("(SMOKE_[A-Z_]+)"', sources_of(ROOT / "tests"))) - ours
    assert asked == set(VARIABLE.findall(text_of(CONTRIBUTING))) - ours


@cache
def options_of(verb: str) -> frozenset[str]:
    """The options of a verb, those without a line in its help too."""
    found = cli
    for word in verb.split():
        context = click.Context(found, info_name=word)
        found = found.get_command(context, word)
    return frozenset(
        {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "--debug"}
    )


@pytest.mark.parametrize("page", [*USERS_PAGES, CONTRIBUTING], ids=lambda path: path.name)
def test_options_on_pages_exist(page):
    known = frozenset().union(*(options_of(verb) for verb in ("", *EVERY_VERB))) | OF_OTHER_PROGRAMS
    text = text_of(page)
    if page == README:  # names options that are still to come
        before, _, rest = text.partition("## Not there yet")
        text = before + rest[rest.index("\n## ") :]
    assert set(OPTION.findall(BLOCK.sub("", text))) <= known


def test_options_that_are_not_there_yet_are_not_there():
    text = re.search(r"## Not there yet\n(.*?)\n## ", text_of(README), re.DOTALL)[1]
    for verb, option in re.findall(r"`([a-z-]+) (--[a-z-]+)`", text):
        assert option not in options_of(verb)
    verbs = re.search(r"^- `serve`.*$", text, re.MULTILINE)[0]
    assert not set(re.findall(r"`([a-z]+)`", verbs)) & set(VERBS)


def commands_on(page: Path) -> list[str]:
    """What a page shows as typed: lines of its blocks that begin with the program's name, perhaps behind a prompt."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    shown = (block for kind, block in blocks if kind in ("", "console"))
    lines = (line.removeprefix("$ ") for block in shown for line in block.splitlines())
    return [line for line in lines if line.startswith(f"{PROGRAM} ")]


def check_options(line: str) -> None:
    words = shlex.split(line.split(" | ", maxsplit=1)[0], comments=True)[1:]
    verb = ALIASES.get(words[0], words[0])
    verb = f"{verb} {words[1]}" if verb in WITH_VERBS else verb
    assert verb in EVERY_VERB, line
    assert {word.partition("=")[0] for word in words if OPTION.match(word)} <= options_of(verb), line


WITH_COMMANDS = [page for page in (*USERS_PAGES, CONTRIBUTING) if commands_on(page)]


def test_most_pages_show_commands():
    assert len(WITH_COMMANDS) > len(USERS_PAGES) / 2


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda path: path.name)
def test_commands_on_pages_have_the_options_of_their_verb(page):
    lines = commands_on(page)
    assert lines
    for line in lines:
        check_options(line)


def test_examples_in_the_help_have_the_options_of_their_verb():
    lines = [line.strip() for text in documented(text_of(CLI)).values() for line in text.splitlines()]
    examples = [line for line in lines if re.match(rf"{PROGRAM} [a-z]", line) and "  " not in line]
    assert len(examples) > len(EVERY_VERB)
    for line in examples:
        check_options(line)


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "python.md"], ids=lambda path: path.name)
def test_methods_on_pages_exist(page):
    text = text_of(page)
    before, _, rest = text.partition("## Not there yet")
    text = before + rest[rest.index("\n## ") :] if rest else before
    named = re.findall(r"\bhome\.([a-z_]+)\(", text)
    assert named and {name for name in named if not hasattr(Home, name)} == set()
    assert {name for name in re.findall(r"\bhome\.audit\.([a-z_]+)\(", text) if not hasattr(Audit, name)} == set()


def test_every_verb_is_a_method_on_the_page_about_python():
    text = text_of(ROOT / "docs" / "python.md")
    listed = re.search(r"[Tt]he verbs that run and ask are methods of `Home`:([^;.]*?)(?:, and|;)", text)[1]
    assert all(hasattr(Home, name) for name in re.findall(r"`(\w+)`", listed))
    verbs = {verb.replace("-", "_") for verb in VERBS} - {"demo", "init", "schema", "validate", "explain", "graph"}
    assert verbs - {"doctor", "audit", "import"} <= set(re.findall(r"`(\w+)`", listed))


def python_files() -> list[str]:
    found = (path for folder in (*PACKAGES, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


@pytest.mark.parametrize(
    "page", [*USERS_PAGES, CONTRIBUTING, ROOT / "benchmarks" / "README.md"], ids=lambda path: path.name
)
def test_python_files_that_pages_name_exist(page):
    """By the end of their paths; one of a user's own is called job.py."""
    files = python_files()
    named = set(re.findall(r"(?<![\w/.*-])((?:[\w-]+/)*[\w*-]+\.py)\b", text_of(page))) - {"job.py"}
    assert [each for each in sorted(named) if not any(fnmatch(f"/{file}", f"*/{each}") for file in files)] == []


def test_folders_and_paths_that_contributors_are_told_of_exist():
    house = re.search(r"```\nlineage_service/\n(.*?)```", text_of(CONTRIBUTING), re.DOTALL)[1]
    inside = house.partition("catalog/lineage_catalog/")[0]
    top = {path.name for path in PACKAGES[0].iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    named = set(re.findall(r"\b(\w+\.py)\b", inside)) | set(re.findall(r"^  (\w+)/", inside, re.MULTILINE))
    assert named == top - {"__init__.py"}


def test_modules_that_architecture_names_in_tables_exist():
    """In the tables of sections 9 and 11 modules stand without their folder."""
    for heading, folder in (("## 9. SQL over lineage", "sql"), ("## 11. Up to date again", "refresh")):
        section = text_of(ARCHITECTURE).partition(heading)[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        assert len(rows) > 3, heading
        for row in rows:
            for name in re.findall(r"`([\w/.]+)`", row):
                path = PACKAGES[0] / (name if "/" in name else f"{folder}/{name}.py")
                assert path.is_file(), name


def definitions(file: Path) -> set[str]:
    """Names of functions and classes in a file, methods behind their class's."""
    found = set()
    for node in ast.parse(text_of(file)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def exhaustive_functions(classes: set[str]) -> set[tuple[str, str]]:
    """File and name of functions that match some of these classes, and end in assert_never."""
    found = set()
    for path in PACKAGES[0].rglob("*.py"):
        for function in ast.walk(ast.parse(text_of(path))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for match in (each for each in ast.walk(function) if isinstance(each, ast.Match)):
                patterns = [each for case in match.cases for each in ast.walk(case.pattern)]
                named = {ast.unparse(each.cls) for each in patterns if isinstance(each, ast.MatchClass)}
                if named & classes and "assert_never" in ast.unparse(match.cases[-1]):
                    found.add((str(path.relative_to(PACKAGES[0])), function.name))
    return found


def test_places_for_a_new_operator_are_those_that_mypy_finds():
    section = text_of(CONTRIBUTING).partition("## Adding an operator")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w/]+\.py)`((?:, `[\w.]+`)+) \|.*\(mypy\) \|$", section, re.MULTILINE)
    told = {(file, name) for file, names in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert all(name in definitions(PACKAGES[0] / file) for file, name in told)
    operators = {each.__name__ for each in (*get_args(Node), *get_args(Step))}
    assert {(file, name.rpartition(".")[2]) for file, name in told} == exhaustive_functions(operators)


def test_places_for_a_new_format_are_those_that_mypy_finds():
    section = text_of(CONTRIBUTING).partition("## Adding a source format")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:spec|store)/[\w/]+\.py)`", section))
    closed = {
        str(path.relative_to(PACKAGES[0]))
        for path in PACKAGES[0].rglob("*.py")
        if re.search(r'case "parquet":(?:.|\n)*?assert_never\(name\)', text_of(path))
    }
    assert closed == {"spec/file_formats.py", "store/formats/format_registry.py"}
    assert closed <= named


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda path: path.name)
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", text_of(page), re.MULTILINE)) <= targets


def test_architecture_shows_the_plan_of_the_shop():
    def unknown(name: str) -> None:
        raise NotFound(name)

    _, plan, _ = checked_workflow(ROOT / "workflows" / "shop" / "revenue.yml", None, unknown)
    sizes = Sizes({"customers": 12, "items": 110, "orders": 40})
    assert f"```text\n{format_plan(instrument(plan, 'auto', sizes))}\n```" in text_of(ARCHITECTURE)


def test_architecture_names_every_table_of_the_catalog():
    from lineage_catalog.models import metadata

    section = text_of(ARCHITECTURE).partition("## 7. Catalog")[2].partition("\n## ")[0]
    assert set(metadata.tables) <= set(re.findall(r"`(\w+)`", section))


def test_every_benchmark_is_in_its_readme():
    code = text_of(ROOT / "benchmarks" / "__main__.py")
    names = {
        name for line in re.findall(r"^[A-Z]+ = \((.*)\)", code, re.MULTILINE) for name in re.findall(r'"(\w+)"', line)
    }
    table = text_of(ROOT / "benchmarks" / "README.md").partition("| name | question |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == names
