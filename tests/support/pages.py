"""Pages that are run: `$ …` lines of ```console blocks and cells of ```python, each followed by what it prints.

`smoke-lineage` commands run in this process, in a folder of their own; other commands run in a shell. A comment
before a block says more: `<!-- before: COMMAND -->` runs something that the reader does not see, and
`<!-- not run: WHY -->` leaves the block alone, as blocks that set up a machine are. Run ids are the same each time, by
the name of the page and the number of the run. Times, seconds and sizes are not compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lineage_cli.main import PROGRAM, main

REWRITE = bool(os.environ.get("SMOKE_GOLDEN"))

BLOCK = re.compile(
    r"(?P<notes>(?:<!-- (?:before|not run): .*? -->\n+)*)(?P<open>```console\n)(?P<body>.*?)(?=^```$)",
    re.DOTALL | re.MULTILINE,
)
NOTE = re.compile(r"<!-- (?P<kind>before|not run): (?P<text>.*?) -->")
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?([+]00:00|Z)?"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? (s|seconds|minutes)\b"), "<seconds>"),
    (re.compile(r"\b\d+([.,]\d+)? (bytes|kB|MB|KiB|MiB)\b"), "<size>"),
)
SETTING_UP = re.compile(r"^\$ (make|git|pip|python3|source|\.) ", re.MULTILINE)
SHELL = re.compile(r"[|<>;&*]")  # what only a shell can do with a command


@dataclass(frozen=True)
class Said:
    """One command of a page, what the page says it prints, and what it printed."""

    command: str
    expected: str
    printed: str

    @property
    def holds(self) -> bool:
        return compared(self.expected) == compared(self.printed)

    def __str__(self) -> str:
        return f"$ {self.command}\n--- the page says\n{self.expected}--- it prints\n{self.printed}"


def compared(text: str) -> str:
    """The text less what differs from run to run."""
    for pattern, placeholder in VARYING:
        text = pattern.sub(placeholder, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def commands(body: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the text below it; a line that ends in a backslash goes on."""
    found = [part.partition("\n") for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
    return [(command, text.rstrip("\n") + "\n" if text.strip() else "") for command, _, text in found]


class Reader:
    """Somebody who types every command of a page, in a folder of their own."""

    def __init__(self, folder: Path, name: str, monkeypatch) -> None:
        from lineage_service.store import layout

        self.folder = self.here = folder
        numbers = itertools.count(1)
        monkeypatch.setattr(
            layout, "uuid", _Ids(lambda: hashlib.sha256(f"{name} {next(numbers)}".encode()).hexdigest())
        )
        for variable in ("SMOKE_HOME", "SMOKE_CATALOG"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        self._monkeypatch = monkeypatch

    def types(self, command: str) -> str:
        """What the command prints, both streams together."""
        words = shlex.split(command, comments=True)
        self._monkeypatch.chdir(self.here)
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self._monkeypatch.setenv(name, value)
            return ""
        if words[0] == "cd" and len(words) == 2:
            self.here = self.here / words[1]
            assert self.here.is_dir(), command
            return ""
        printed = self._in_process(words[1:]) if words[0] == PROGRAM and not SHELL.search(command) else _shell(command)
        return printed.replace(str(self.folder), "~")

    def _in_process(self, arguments: list[str]) -> str:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        code: object = None
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            try:
                main(arguments)
            except SystemExit as left:
                code = left.code
        stream.flush()
        printed = stream.buffer.getvalue().decode("utf-8")
        assert code in (0, 1, 2, 4), f"a fault of ours, which no page may show: {printed}"
        return printed


class _Ids:
    """Stands for the module uuid, so that a page can name its runs."""

    def __init__(self, next_id) -> None:
        self._next_id = next_id

    def uuid4(self):
        return type("Id", (), {"hex": self._next_id()})()


def _shell(command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def read_page(page: Path, reader: Reader) -> list[Said]:
    """Everything the page says, tried in order. With SMOKE_GOLDEN the page is rewritten where it is not true."""
    said: list[Said] = []

    def tried(found: re.Match[str]) -> str:
        notes = NOTE.findall(found["notes"])
        if SETTING_UP.search(found["body"]) or any(kind == "not run" for kind, _ in notes):
            return found[0]
        for _, hidden in notes:
            reader.types(hidden)
        parts = []
        for command, expected in commands(found["body"]):
            said.append(Said(command, expected, reader.types(command)))
            shown = expected if said[-1].holds else said[-1].printed.rstrip("\n") + "\n" if said[-1].printed else ""
            parts.append(f"$ {command}\n{shown}")
        gap = "\n" if any(part.count("\n") > 1 for part in parts) else ""
        return found["notes"] + found["open"] + gap.join(parts)

    text = page.read_text(encoding="utf-8")
    rewritten = BLOCK.sub(tried, text)
    if REWRITE and rewritten != text:
        page.write_text(rewritten, encoding="utf-8")
        return [Said(each.command, each.printed, each.printed) for each in said]
    return said


CELL = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n(?P<open>```text\n)(?P<text>.*?)(?=```\n))?", re.DOTALL)


def read_notebook(page: Path) -> list[Said]:
    """The Python cells of a page, run in one namespace, each with the text block behind it as what it prints."""
    said: list[Said] = []
    names: dict[str, object] = {"__name__": "__main__"}

    def tried(found: re.Match[str]) -> str:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(found["code"], str(page), "exec"), names)
        said.append(Said(found["code"], found["text"] or "", stream.getvalue()))
        if found["open"] is None or said[-1].holds:
            return found[0]
        return f"```python\n{found['code']}```\n\n{found['open']}{stream.getvalue()}"

    text = page.read_text(encoding="utf-8")
    rewritten = CELL.sub(tried, text)
    if REWRITE and rewritten != text:
        page.write_text(rewritten, encoding="utf-8")
        return [Said(each.command, each.printed, each.printed) for each in said]
    return said
