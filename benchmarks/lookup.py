"""How long is one look-up? A group-by of 10 million rows in 5,000 groups, alike in size or skewed; a group at a time.

Spark builds everything first and is stopped; then questions are asked in an open `Home`, and of what rivals left.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.asking import Plain, asked, figures_of, interleaved
from benchmarks.data import Zipf, zipf_folder
from benchmarks.figures import measured as command
from benchmarks.groupby import OUTPUT, WORKFLOW, grouped
from benchmarks.results import Result
from benchmarks.rivals import annotated
from benchmarks.rounds import Options, reason, tell
from benchmarks.session import running_spark
from benchmarks.techniques import Job
from lineage_service import Home
from lineage_service.errors import LineageError

ROWS, GROUPS = 10_000_000, 5_000
THETAS = (0.0, 0.4, 0.8, 1.2, 1.6)
ASKED, COMMANDS = 200, 10
HOMES, OF_EACH = 40, 5  # freshly opened homes, and what each is asked after one look-up that opens the files
HEAT = 400  # look-ups after which an index is in use, if it ever is
RIVALS_ASKED, REPEATS = 20, 7
# Groups by their size: rows are asked for over the whole range.
SIZES = {"smallest": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "99%": 0.99, "99.9%": 0.999, "largest": 1.0}


@dataclass(frozen=True)
class Built:
    """What there is to look up in for one skew: a folder with a home and the rivals' outputs; what the run told."""

    label: str
    folder: Path
    source: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "told.json").read_text(encoding="utf-8"))
        return found

    def result(self, technique: str, **figures: Any) -> Result:
        told = self.told if technique in ("auto", "auto rids") else {}
        return Result(experiment="lookup", case=self.label, technique=technique, **{**figures, **told})


def measure(folder: Path, options: Options) -> list[Result]:
    labels = {theta: f"theta={theta:g}" for theta in THETAS}
    wanted = {theta: label for theta, label in labels.items() if options.wants_case(label)}
    if not wanted:
        raise SystemExit(f"no such case; cases of lookup: {', '.join(labels.values())}")
    built = _build(folder, wanted, options)
    results: list[Result] = []
    for number, each in enumerate(built):
        tell(f"lookup {each.label}: asking")
        parts = {"auto rids": _rids, "auto rows": _rows, **({"command": _commands} if number == 0 else {})}
        for name, part in parts.items():
            try:
                results += part(each, options)
            except Exception as error:  # whatever cannot be asked, the rest is
                results.append(each.result(name, note=reason(error)))
    return [replace(each, scale=options.scale) for each in results]


def _build(folder: Path, labels: dict[float, str], options: Options) -> list[Built]:
    """One folder per skew; what a `--keep` has of it is used again."""
    tables = {label: Zipf(int(ROWS * options.scale), GROUPS, theta) for theta, label in labels.items()}
    found = {
        label: Built(label, folder / f"lookup-{table.name}", zipf_folder(folder / "data", zipf=table) / "zipf.parquet")
        for label, table in tables.items()
    }
    missing = {label: built for label, built in found.items() if not (built.folder / "told.json").is_file()}
    if missing:
        with running_spark() as spark:
            for label, built in missing.items():
                tell(f"lookup {label}: building")
                shutil.rmtree(built.folder, ignore_errors=True)
                built.folder.mkdir(parents=True)
                case = grouped(folder / "data", label, tables[label], "lookup")
                try:
                    told = _run(built)
                except LineageError as error:
                    told = {"note": reason(error)}
                job = Job(case, built.source.parent, built.folder, built.folder, spark)
                annotated(job).write.parquet(str(built.folder / "logic-rid"))
                annotated(job, tuples=True).write.parquet(str(built.folder / "logic-tup"))
                (built.folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
    return list(found.values())


def _run(built: Built) -> dict[str, Any]:
    """Builds the home; what of the run belongs to each figure."""
    file = built.folder / "groupby.yml"
    file.write_text(WORKFLOW, encoding="utf-8")
    with Home.open(built.home) as home:
        report = home.run(file, vars={"data": str(built.source.parent)})
    captured = report.capture[OUTPUT]["zipf"]
    pairs, size = captured["pairs"], captured["bytes"]
    return {
        "pairs": pairs,
        "bytes_per_pair": size / pairs if size and pairs else None,
        "strategy": captured["strategy"],
    }


def _groups(home: Home) -> list[tuple[int, int, int]]:
    """All groups as (rows, rid, key), smallest first."""
    table = home.rows(OUTPUT, all=True, columns=["z", "n"]).arrow()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("n", "_rid", "z")), strict=True))


def _rids(built: Built, options: Options) -> Iterator[Result]:
    """Rids of one group, and of the one group of a row: from the files, from an index in use, from a rival's output."""
    chance = random.Random(7)
    with Home.open(built.home) as home:
        groups = _groups(home)
    outs = [rid for _, rid, _ in chance.choices(groups, k=max(ASKED, HEAT))]

    def behind(home: Home, out: int) -> object:
        return home.backward(OUTPUT, to="zipf", rid=out, rids=True).arrow()

    if options.wants("auto"):
        first, later = [], []
        for number in range(HOMES):
            with Home.open(built.home) as home:
                took = asked(outs[number * OF_EACH :][: OF_EACH + 1], partial(behind, home))
            first.append(took[0])
            later += took[1:]
        yield built.result("auto", **figures_of(later))
        yield built.result("auto-first", **figures_of(first), note="the first look-up in a home that was just opened")
    with Home.open(built.home) as home:
        if options.wants("auto-hot"):
            asked(outs[:HEAT], partial(behind, home))
            yield built.result("auto-hot", **figures_of(asked(outs[:ASKED], partial(behind, home))))
        if options.wants("auto-forward"):
            rows = sum(size for size, _, _ in groups)
            rids = [chance.randrange(rows) for _ in range(ASKED)]
            took = asked(rids, lambda rid: home.forward("zipf", to=OUTPUT, rid=rid, rids=True).arrow())
            yield built.result("auto-forward", **figures_of(took))
    if options.wants("Logic-Rid"):
        with Plain.opened(built.source, built.folder) as plain:
            keys = [key for _, _, key in chance.choices(groups, k=RIVALS_ASKED)]
            yield built.result("Logic-Rid", **figures_of(asked(keys, plain.logic_rids)))


def _rows(built: Built, options: Options) -> Iterator[Result]:
    """Rows of one group, at sizes over the whole range: ours, by position, by scan, from a rival's output."""
    with Home.open(built.home) as home, Plain.opened(built.source, built.folder) as plain:
        groups = _groups(home)
        for size, share in SIZES.items():
            rows, out, key = groups[round(share * (len(groups) - 1))]
            ways = {
                "auto": lambda out=out: home.backward(OUTPUT, to="zipf", rid=out).arrow(),
                "fetch": lambda key=key: plain.fetch(key),
                "scan": lambda key=key: plain.scan(key),
                "Logic-Tup": lambda key=key: plain.logic_tuples(key),
            }
            took = interleaved({name: way for name, way in ways.items() if options.wants(name)}, REPEATS, rows)
            others = [statistics.median(took[name]) for name in ("fetch", "scan") if name in took]
            for name, seconds in took.items():
                figures = figures_of(seconds)
                if len(others) == 2:
                    figures |= {"base_s": min(others), "ratio": statistics.median(seconds) / min(others)}
                yield built.result(f"{name} rows {size}", **figures, rows=rows)


def _commands(built: Built, options: Options) -> Iterator[Result]:
    """The same as a command, from start to end; the output goes nowhere."""
    if not options.wants("command"):
        return
    chance = random.Random(7)
    ways = {"command": ("backward", OUTPUT, "zipf"), "command-forward": ("forward", "zipf", OUTPUT)}
    for name, (verb, start, target) in ways.items():
        seconds, failure = [], None
        for _ in range(COMMANDS):
            rid = str(chance.randrange(GROUPS // 10))
            ran = command(verb, start, "--to", target, "--rid", rid, "--rids", "--home", str(built.home))
            seconds.append(ran.seconds)
            failure = failure or ran.failure
        figures = {} if failure else {"total_s": statistics.median(seconds), **figures_of(seconds)}
        yield built.result(name, **figures, note=failure or f"`{verb} --rids` as a command")
