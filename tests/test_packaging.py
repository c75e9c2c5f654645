"""Wheel and sdist as a user gets them: built, installed into an environment of their own, and run from there.

The wheel is installed without its dependencies, which are large: the new environment sees those of this one, but not
our own source folders. That they would have come along is checked by reading: whatever is imported is declared.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections import defaultdict
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from lineage_service import Home
from tests.support.paths import ROOT

PACKAGES = {"lineage_service": ROOT, "lineage_catalog": ROOT / "catalog", "lineage_cli": ROOT / "cli"}
# Alembic runs it, in a context of its own making.
NOT_IMPORTED = {"lineage_catalog.migrations.env"}
# Named by a dependency of ours as its own dependency, in one version only.
COMES_WITH = {"pydantic-core": "pydantic"}


def build(folder: Path, target: str, out: Path) -> Path:
    """The one file that building `folder` makes."""
    out.mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("built") / "wheel")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The environment's `bin`: the wheel in a new environment, run in a folder that is not ours."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    packages = site_packages(environment)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin" / "python"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    # A folder named in a .pth file is searched, but the .pth files in it, such as our editable install's, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return environment / "bin"


def site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def run(installed: Path, folder: Path, *command: str, check: int = 0) -> subprocess.CompletedProcess[str]:
    """One command of the installed environment, without anything of ours from this one."""
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SMOKE_HOME", "SMOKE_CATALOG")
    }
    done = subprocess.run(
        [installed / command[0], *command[1:]],
        cwd=folder, env={**environment, "NO_COLOR": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def files_of(package: str) -> set[str]:
    folder = PACKAGES[package]
    found = (path for path in (folder / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def test_the_wheel_holds_our_packages_and_nothing_else(wheel):
    names = set(contents(wheel))
    (information,) = {name.split("/")[0] for name in names} - PACKAGES.keys()
    assert re.fullmatch(r"smoke_lineage-[0-9.]+\.dist-info", information)
    assert {name for name in names if not name.startswith(information)} == set().union(*map(files_of, PACKAGES))


def test_migrations_and_templates_are_in_the_wheel(wheel):
    names = set(contents(wheel))
    versions = ROOT / "catalog" / "lineage_catalog" / "migrations" / "versions"
    assert {f"lineage_catalog/migrations/versions/{path.name}" for path in versions.glob("0*.py")} <= names
    assert "lineage_catalog/migrations/versions/0001_the_catalog.py" in names
    assert "lineage_catalog/migrations/script.py.mako" in names
    templates = {"workflow.yml", "README.md", "gitignore.txt", "data/deliveries.csv", "data/products.json"}
    assert {f"lineage_service/starter/project/{name}" for name in templates} <= names


def test_the_sdist_builds_the_same_wheel(wheel, tmp_path):
    sdist = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    for name in ("README.md", "docs/architecture.md", "workflows/shop/revenue.yml", "tests/test_packaging.py"):
        assert (source / name).is_file(), f"{name} is not in the sdist"
    assert contents(build(source, "wheel", tmp_path / "wheel")) == contents(wheel)


def test_nothing_of_a_common_name_is_installed(installed):
    packages = site_packages(installed.parent)
    names = {path.name for path in packages.iterdir()}
    assert not names & {"cli", "catalog", "tests", "benchmarks", "workflows", "docs"}
    assert {name for name in names if not name.endswith((".dist-info", ".pth"))} == PACKAGES.keys()


def test_every_module_imports(installed, tmp_path):
    code = (
        "import importlib, json, pkgutil, sys\n"
        "names, skipped = json.loads(sys.argv[1]), json.loads(sys.argv[2])\n"
        "found = []\n"
        "for name in names:\n"
        "    package = importlib.import_module(name)\n"
        "    found += [each.name for each in pkgutil.walk_packages(package.__path__, name + '.')]\n"
        "for name in found:\n"
        "    if name not in skipped:\n"
        "        importlib.import_module(name)\n"
        "print(json.dumps({n: sys.modules[n].__file__ for n in found if n not in skipped}))\n"
    )
    done = run(installed, tmp_path, "python", "-c", code, json.dumps(list(PACKAGES)), json.dumps(list(NOT_IMPORTED)))
    imported = json.loads(done.stdout)
    packages = site_packages(installed.parent)
    assert all(Path(file).is_relative_to(packages) for file in imported.values()), "our source folders are not seen"
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for package in PACKAGES
        for name in files_of(package)
        if name.endswith(".py")
    }
    assert imported.keys() == modules - NOT_IMPORTED - PACKAGES.keys()


def test_the_command_runs_from_the_wheel(installed, tmp_path):
    assert "Verbs:" in run(installed, tmp_path, "smoke-lineage", "--help").stdout
    assert re.fullmatch(
        r"smoke-lineage, version [0-9.]+\n", run(installed, tmp_path, "smoke-lineage", "--version").stdout
    )
    assert json.loads(run(installed, tmp_path, "smoke-lineage", "schema").stdout)["properties"]["steps"]
    run(installed, tmp_path, "smoke-lineage", "init", "project")
    assert run(installed, tmp_path / "project", "smoke-lineage", "validate", "bakery.yml").stdout == "bakery.yml: ok\n"


def test_questions_are_answered_from_the_wheel(spark, installed, tmp_path):
    """The wheel makes a project, a run of it is made here, and the wheel is asked: no Spark starts for that."""
    run(installed, tmp_path, "smoke-lineage", "init", "--name", "buns")
    with Home.open(tmp_path / ".smoke") as home:
        home.run(tmp_path / "buns.yml")
    asked = ("backward", "bills", "--key", "customer=Café Anker", "--to", "deliveries", "--json")
    behind = json.loads(run(installed, tmp_path, "smoke-lineage", *asked).stdout)
    assert [(row["_rid"], row["quantity"]) for row in behind] == [(0, 40), (4, 2), (7, 200)]


def test_a_catalog_is_made_from_the_wheel(installed, tmp_path):
    code = "import sys; from lineage_catalog.schema_upgrade import migrate; migrate(sys.argv[1])"
    run(installed, tmp_path, "python", "-c", code, f"sqlite:///{tmp_path / 'catalog.db'}")
    assert (tmp_path / "catalog.db").stat().st_size > 0


def imported_names() -> dict[str, set[str]]:
    """The top-level modules that are neither Python's nor ours, and the files that import them."""
    found: dict[str, set[str]] = defaultdict(set)
    for package, folder in PACKAGES.items():
        for path in (folder / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    names = [node.module]
                for name in (each.split(".")[0] for each in names):
                    if name not in sys.stdlib_module_names and name not in PACKAGES:
                        found[name].add(str(path.relative_to(ROOT)))
    return dict(found)


def distribution_name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


@pytest.mark.long
def test_what_is_imported_is_declared():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for group in project.get("optional-dependencies", {}).values() for each in group]
    declared = {distribution_name(each) for each in [*project["dependencies"], *extras]}
    owners = packages_distributions()
    undeclared = {}
    for name, files in imported_names().items():
        needed = {distribution_name(each) for each in owners.get(name, [name])}
        if not needed & declared and not any(COMES_WITH.get(each) in declared for each in needed):
            undeclared[name] = sorted(files)
    assert not undeclared
    for name, carrier in COMES_WITH.items():
        assert name in {distribution_name(each) for each in requires(carrier) or []}


@pytest.mark.long
def test_what_is_declared_is_imported():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    owners = packages_distributions()
    # A package of data, or one that is looked for and may be missing, is named in a text and not imported.
    texts = {
        node.value
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = [*imported_names(), *(name for name in owners if name in texts)]
    used = {distribution_name(owner) for name in named for owner in owners.get(name, [name])}
    assert {distribution_name(each) for each in project["dependencies"]} - used == set()
