"""How long do commands take from start to end? What tests only count – modules, calls – is timed here. No Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.asking import figures_of
from benchmarks.results import Result
from benchmarks.rounds import Options, tell

PAIRS = 1_000_000
ROUNDS = 20
WORKFLOW = Path(__file__).parent.parent / "workflows" / "shop" / "revenue.yml"
START = {
    "--help": ("--help",),
    "validate": ("validate", str(WORKFLOW)),
    "doctor": ("doctor",),
    "rows": ("rows", "out", "--limit", "3"),
    "backward --rids": ("backward", "out", "--rid", "1", "--to", "a", "--rids"),
}
TEXT = {
    f"pairs as {name}": ("backward", "out", "--all", "--to", "a", "--pairs", "--format", name)
    for name in ("csv", "ndjson", "json")
}


def measure(folder: Path, options: Options) -> list[Result]:
    results = []
    for case, size, commands in (("start", 4, START), ("pairs", int(PAIRS * options.scale), TEXT)):
        if not options.wants_case(case):
            continue
        tell(f"commands {case}")
        home = _small(folder / "commands-start") if case == "start" else _many(folder / "commands-pairs", size)
        for name, words in commands.items():
            rounds = ROUNDS if case == "start" else options.rounds
            seconds = [_seconds(home, *words) for _ in range(options.warmups + rounds)][options.warmups :]
            found = Result(experiment="commands", case=case, technique=name, rows=size, **figures_of(seconds))
            results.append(found)
    return results


def _small(folder: Path) -> Path:
    from tests.support.made_home import made_home

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return made_home(folder)


def _many(folder: Path, size: int) -> Path:
    """Each row of the output is made of one of the source, from the other end."""
    from tests.support.made_runs import Made, MadeHome

    shutil.rmtree(folder, ignore_errors=True)
    rows = pa.table({"k": range(size)})
    pairs = [(rid, size - 1 - rid) for rid in range(size)]
    made = MadeHome(folder)
    made.run("flow", {"a": Made(rows, "source"), "out": Made(rows, hops={"a": pairs})})
    return made.folder


def _seconds(home: Path, *words: str) -> float:
    command = [sys.executable, "-m", "lineage_cli.main", *words]
    command += [] if words == ("--help",) else ["--home", str(home)]
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return seconds
