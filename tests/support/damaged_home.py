"""A home with every kind of file in it, ways to damage one, and questions that must then be answered as before or be
refused with the name of what is damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, LineageInterrupted, StoreError
from lineage_service.runs.lineage_indexing import LineageBuild
from lineage_service.store import checksums
from lineage_service.store.shared_rows import record_files

CITIES = ("Ulm", "Bonn", "Kiel", "Köln")
PEOPLE, ORDERS = 40, 400

SHOP = """
version: 1
name: shop
privacy: {purpose: Billing}
sources:
  people: {path: people.csv, schema: "id int, name string, city string", options: {header: true},
           subject: {customer: id}, pii: [name]}
  orders: {path: orders.parquet, subject: {customer: customer}, snapshot: true}
steps:
  - {name: large, op: filter, input: orders, where: "amount > 2"}
  - {name: joined, op: join, left: people, right: large, on: "id = customer"}
  - {name: spend, op: aggregate, input: joined, by: [city], measures: {total: sum(amount), n: count(*)}, having: "n > 1"}
  - {name: ranked, op: sort, input: spend, by: [total desc, city]}
  - {name: buyers, op: join, how: semi, left: people, right: large, on: "id = customer"}
  - {name: silent, op: join, how: anti, left: people, right: large, on: "id = customer"}
  - {name: cities, op: distinct, input: joined}
outputs: {ranked: , buyers: , silent: , cities: }
lineage: {keep: [joined], capture: stage}
"""
SECOND = """
version: 1
name: second
sources: {joined: {output: shop.joined}}
steps:
  - {name: best, op: filter, input: joined, where: "amount > 4"}
  - {name: counted, op: aggregate, input: best, by: [city], measures: {n: count(*)}}
outputs: {counted: , best: }
lineage: {capture: inject}
"""
PLAIN = """
version: 1
name: plain
sources:
  sold: {path: sold.parquet, snapshot: true}
  regions: {path: regions.csv, schema: "customer int, region string", options: {header: true}}
steps:
  - {name: placed, op: join, left: sold, right: regions, using: [customer]}
  - {name: high, op: filter, input: placed, where: "amount > 3"}
  - {name: summed, op: aggregate, input: high, by: [region], measures: {total: sum(amount)}}
outputs: {summed: , high: }
lineage:
  capture: stage
  workload:
    - {name: details, backward: summed, to: sold, columns: [amount]}
    - {name: amounts, backward: summed, to: sold, by: [amount], measures: {n: count(*)}}
    - {name: ahead, forward: sold, to: [summed, high]}
    - {name: chosen, backward: high, to: sold}
    - {name: how, backward: summed, to: [sold, regions], semantics: how}
"""
LAZY = """
version: 1
name: lazy
sources: {sold: {path: sold.parquet}}
steps:
  - {name: summed, op: aggregate, input: sold, by: [customer], measures: {total: sum(amount)}, having: "total > 9"}
outputs: {summed: }
lineage: {capture: lazy}
"""
# The filter means nothing to DuckDB: Spark reads the rows again when it is asked.
ASKED = """
version: 1
name: asked
sources:
  sold: {path: sold.parquet, snapshot: true}
  regions: {path: regions.csv, schema: "customer int, region string", options: {header: true}}
steps:
  - {name: placed, op: join, left: sold, right: regions, using: [customer]}
  - {name: some, op: filter, input: placed, where: "xxhash64(amount, customer) % 3 <> 0"}
  - {name: summed, op: aggregate, input: some, by: [region], measures: {total: sum(amount)}}
outputs: {summed: }
lineage: {capture: lazy}
"""
PENDING = """
version: 1
name: pending
sources: {sold: {path: sold.parquet, snapshot: true}}
steps:
  - {name: large, op: filter, input: sold, where: "amount > 1"}
  - {name: summed, op: aggregate, input: large, by: [customer], measures: {total: sum(amount)}}
  - {name: ordered, op: sort, input: summed, by: [total desc, customer]}
outputs: {ordered: }
lineage: {capture: stage}
"""
BULK = PENDING.replace("pending", "bulk")  # its index is made by Spark: a folder of files

WORKFLOWS = {"shop": SHOP, "second": SECOND, "plain": PLAIN, "lazy": LAZY, "asked": ASKED, "pending": PENDING,
             "bulk": BULK}  # fmt: skip


def make(folder: Path) -> Path:
    """Makes the home; needs Spark."""
    folder.mkdir(parents=True)
    chance = random.Random(16)
    lines = [f"{number},Person-{number:03d},{CITIES[number % 4]}" for number in range(PEOPLE)]
    (folder / "people.csv").write_text("\n".join(["id,name,city", *lines]) + "\n")
    rows = [{"customer": chance.randrange(PEOPLE - 5), "amount": chance.randrange(8)} for _ in range(ORDERS)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "orders.parquet", row_group_size=100)
    pq.write_table(pa.Table.from_pylist(rows[::-1]), folder / "sold.parquet")
    for name, text in WORKFLOWS.items():
        (folder / f"{name}.yml").write_text(text)
    regions = [f"{number},region-{number % 5}" for number in range(PEOPLE)]
    (folder / "regions.csv").write_text("\n".join(["customer,region", *regions]) + "\n")
    with Home.open(folder / "home") as home:
        home.run(folder / "shop.yml")
        home.run(folder / "plain.yml")
        home.run(folder / "lazy.yml")
        home.run(folder / "asked.yml")
        _run_by_spark(home, folder / "bulk.yml")
        home.refresh(
            "shop.orders", removed="amount = 7", added=[{"customer": 3, "amount": 6}, {"customer": 9, "amount": 5}]
        )
        home.run(folder / "second.yml")
        home.query("SELECT city, count(*) AS n FROM shop.joined GROUP BY city", save="per_city", reveal=True)
        home.audit.access("customer=7")
        home.audit.plan_erasure("customer=5", out=folder / "plan.json")
        home.audit.apply(folder / "plan.json", out=folder / "certificate.json")
        _run_interrupted(home, folder / "pending.yml")  # the last: an erasure would finish its lineage
    return folder / "home"


def _run_by_spark(home: Home, workflow: Path) -> None:
    """Runs a workflow whose index is made by Spark, of several files."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    home.run(workflow, index_engine="spark")
    spark.conf.set("spark.sql.shuffle.partitions", before)


def _run_interrupted(home: Home, workflow: Path) -> None:
    """Runs a workflow, and is interrupted between its outputs and its lineage."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LineageBuild, "build", interrupt)
        with pytest.raises(LineageInterrupted):
            home.run(workflow)


# --- questions ------------------------------------------------------------------------------------------------

DATASETS = ("shop.people", "shop.orders", "shop.joined", "shop.ranked", "shop.buyers", "shop.silent", "shop.cities",
            "second.best", "second.counted", "per_city", "plain.summed", "plain.high", "plain.regions", "plain.sold",
            "lazy.summed", "asked.summed", "asked.sold", "asked.regions", "bulk.ordered", "bulk.sold",
            "pending.ordered", "pending.sold")  # fmt: skip
WAYS = (("shop.ranked", "shop.people"), ("shop.ranked", "shop.orders"), ("shop.buyers", "shop.orders"),
        ("shop.buyers", "shop.people"), ("shop.cities", "shop.people"), ("shop.joined", "shop.orders"),
        ("shop.silent", "shop.people"), ("second.counted", "shop.people"), ("second.best", "shop.orders"),
        ("per_city", "shop.orders"), ("plain.high", "plain.sold"), ("bulk.ordered", "bulk.sold"),
        ("pending.ordered", "pending.sold"))  # fmt: skip


def _same_rows(home: Home) -> list[Any]:
    """Which records of files the rows of all sources are: what questions over several runs go by."""
    graph = home._open.questions.graph
    ids = sorted({each.version_id for run in home._open.questions.reader.runs() for each in graph.sources(run.id)})
    found = [record_files(graph.version(each), home.layout.absolute) for each in ids]
    return [{file.path: [ids.tolist() for ids in runs.pairs()] for file, runs in each.items()} for each in found]


def questions(home: Home) -> dict[str, Callable[[], Any]]:
    def told(name: str) -> Callable[[], Any]:
        return lambda: home.rows(name, reveal=True).to_pylist()

    # First what other questions change: they finish lineage, and write to the log.
    found: dict[str, Callable[[], Any]] = {
        "runs": lambda: home.runs().to_pylist(),
        "log verdict": lambda: _log_verdict(home),
    }
    found |= {f"rows {name}": told(name) for name in DATASETS}
    for start, end in WAYS:
        found |= _over(home, start, end)
    for name in ("people", "orders", "joined", "ranked", "buyers", "silent", "cities"):
        found[f"rows before {name}"] = lambda n=name: home.rows(_before(home, n), reveal=True).to_pylist()
    for start, end in (each for each in WAYS if each[0].startswith("shop.")):
        found[f"backward before {start} {end}"] = lambda s=start, e=end: home.backward(
            _before(home, s), to=e.removeprefix("shop."), all=True, pairs=True
        ).to_pylist()
        found[f"forward before {start} {end}"] = lambda s=start, e=end: home.forward(
            _before(home, e), to=_before(home, s), all=True, pairs=True
        ).to_pylist()
    access = {"customer=7", "customer=5"}
    found |= {f"access {who}": lambda w=who: _without_times(home.audit.access(w).document) for who in sorted(access)}
    found |= {
        "how": lambda: home.backward("plain.summed", to=["sold", "regions"], rid=0, semantics="how").to_pylist(),
        "why": lambda: home.backward("plain.summed", to=["sold", "regions"], rid=1, semantics="why").to_pylist(),
        "how bulk": lambda: home.backward("bulk.ordered", to="sold", rid=0, semantics="how").to_pylist(),
        "how lazy": lambda: home.backward("lazy.summed", to="sold", rid=0, semantics="how").to_pylist(),
        "lazy": lambda: home.backward("lazy.summed", to="sold", rid=0, rids=True).to_pylist(),
        "same rows": lambda: _same_rows(home),
        "trace": lambda: home.trace("shop.ranked", rid=0, reveal=True).to_json(),
        "query": lambda: home.query(
            "SELECT city, count(*) AS n FROM shop.joined GROUP BY city ORDER BY city"
        ).to_pylist(),
        "workload": lambda: home.query("SELECT * FROM workload('details', '_rid = 0')").to_pylist(),
        "witnesses": lambda: home.query("SELECT * FROM workload('how', '_rid = 0')").to_pylist(),
        "ahead": lambda: home.query("SELECT * FROM workload('ahead', '_rid < 9')").to_pylist(),
        "absence": lambda: _absence(home, "shop.silent"),
        "absence before": lambda: _absence(home, _before(home, "silent")),
        "groups": lambda: home.query("SELECT * FROM workload('amounts', '_rid < 3')").to_pylist(),
        "datasets": lambda: home.datasets().to_pylist(),
        "columns": lambda: home.columns("shop.ranked").to_pylist(),
        "diff": lambda: home.diff("shop.ranked").to_json(),
        "log": lambda: home.audit.log(verb="apply erasure").to_pylist(),
        "requests": lambda: home.audit.requests(all=True).to_pylist(),
    }
    return found


def _before(home: Home, name: str) -> str:
    """A dataset of the run of `shop` before the latest."""
    runs = [each["run_id"] for each in home.runs().to_pylist() if each["workflow"] == "shop"]
    return f"shop.{name.removeprefix('shop.')}@{runs[1]}"


def _absence(home: Home, silent: str) -> Any:
    first = home.rows(silent, reveal=True).to_pylist()[0]["_rid"]
    return home.backward(silent, to="orders", rid=first, influence=True).to_pylist()


def _over(home: Home, start: str, end: str) -> dict[str, Callable[[], Any]]:
    """Questions over the lineage between two datasets: of all rows, of one, of some."""
    some = [0, 1]

    def ids(rids: Any) -> list[int]:  # a refresh and an erasure leave gaps
        known = [row["_rid"] for row in home.rows(start, reveal=True).to_pylist()]
        return [known[each % len(known)] for each in rids]

    return {
        f"backward {start} {end}": lambda: home.backward(start, to=end, all=True, pairs=True).to_pylist(),
        f"forward {start} {end}": lambda: home.forward(end, to=start, all=True, pairs=True).to_pylist(),
        f"one {start} {end}": lambda: home.backward(start, to=end, rid=ids([1]), rids=True).to_pylist(),
        f"some {start} {end}": lambda: home.backward(start, to=end, rid=ids(some), pairs=True).to_pylist(),
    }


def with_spark(home: Home) -> dict[str, Callable[[], Any]]:
    """Questions that have steps evaluated again, or lineage captured: they take seconds."""
    return {
        "why not": lambda: home.why_not("shop.orders", to="shop.ranked", where="amount < 3").to_json(),
        "why not plain": lambda: home.why_not("plain.sold", to="plain.summed", where="amount < 2").to_json(),
        "how asked": lambda: home.backward("asked.summed", to="sold", rid=0, semantics="how").to_pylist(),
        "asked": lambda: sorted(home.backward("asked.summed", to="sold", rid=0, rids=True).to_pylist(), key=str),
    }


def _without_times(document: dict[str, Any]) -> Any:
    text = json.dumps(document, default=str, sort_keys=True)
    return {key: value for key, value in json.loads(text).items() if key not in ("made_at", "at", "created", "log")}


def _log_verdict(home: Home) -> Any:
    """What the log is, where nothing is found wrong with it: else it is refused as a whole, with all that it is."""
    verdict = home.audit.verify_log()
    if not verdict.ok:
        raise StoreError(f"{verdict.problems} in catalog.db, audit.anchors or by audit.key")
    return verdict.entries, verdict.first, verdict.last, verdict.head


def answers(folder: Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The answers to questions, all of them without names, or the errors: as in a new process."""
    checksums.forget()
    found: dict[str, Any] = {}
    with Home.open(folder) as home:
        known = {**questions(home), **with_spark(home)}
        wanted = set(known if names is None else names)
        for name, question in known.items():
            if name not in wanted:
                continue
            try:
                found[name] = question()
            except LineageError as error:
                found[name] = error
    return found


# --- which question reads which file --------------------------------------------------------------------------

_noting: list[list[str]] = []  # where files are noted that Python opens, while anybody wants to know


@cache
def _hook() -> None:
    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or (event == "open" and arguments[1] is not None):  # not those to be synced
            for each in _noting:
                each.append(str(arguments[0]))

    sys.addaudithook(note)  # for good: hooks cannot be taken away


@dataclass(frozen=True)
class Known:
    """What is answered while nothing is damaged, and which files each question reads. Those `with_spark` take
    seconds."""

    answers: dict[str, Any]
    files: dict[str, set[Path]]
    with_spark: frozenset[str]

    def readers(self, path: Path) -> list[str]:
        """The questions that read a file; those that take long only where there is no other."""
        found = sorted(name for name, files in self.files.items() if path in files)
        return [name for name in found if name not in self.with_spark] or found

    @property
    def quick(self) -> list[str]:
        return sorted(set(self.answers) - self.with_spark)


def ask_everything(folder: Path) -> Known:
    """Asks every question as the first one of a process, and notes the files that are compared or opened for it."""
    with Home.open(folder) as home:
        dear = frozenset(with_spark(home))
        names = [*questions(home), *dear]
    right: dict[str, Any] = {}
    files: dict[str, set[Path]] = {}
    for name in names:
        with put_back(folder), _noted_reads() as noted:
            right |= answers(folder, [name])
        files[name] = {Path(each) for each in noted if each.startswith(f"{folder}/")}
    return Known(right, files, dear)


@contextmanager
def _noted_reads() -> Iterator[list[str]]:
    _hook()
    noted: list[str] = []
    compare = checksums._verify

    def noting(path: str, needed: Any) -> None:
        noted.append(path)
        compare(path, needed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checksums, "_verify", noting)
        _noting.append(noted)
        try:
            yield noted
        finally:
            _noting.clear()


# --- damage ---------------------------------------------------------------------------------------------------


@dataclass
class Damage:
    """What was done to which files."""

    how: str
    paths: list[Path] = field(default_factory=list)
    kind: str = ""
    before: bytes = b""

    @property
    def is_same_key(self) -> bool:
        """Whether a damaged key still means the same: its digits may be capital letters."""
        return self.paths[0].read_bytes().lower() == self.before


def kind_of(path: Path, home: Path) -> str:
    """The kind of a file of the home, by where it lies."""
    parts = path.relative_to(home).parts
    if parts[0] != "runs":
        return parts[0]
    if path.suffix == ".json":
        return path.name
    if parts[2] == "index" and ".prepared" in path.name:
        return "prepared"
    if parts[2] == "index" and len(parts) > 4:
        return "index by Spark"
    return parts[2]


def files_by_kind(home: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*")):
        ours = path.is_file() and path.name not in (".lock", ".committed", "_SUCCESS") and path.suffix != ".crc"
        if ours and path.stat().st_size and "tmp" not in path.relative_to(home).parts:
            found.setdefault(kind_of(path, home), []).append(path)
    return found


PENDING_TABLES = "runs/*/lineage/*-below"
HOW = ("bit", "bit", "bit", "bit", "byte", "byte", "truncated", "zeroed", "deleted", "swapped")


@contextmanager
def damage(home: Path, files: dict[str, list[Path]], chance: random.Random) -> Iterator[Damage]:
    """Damages a file by chance, and puts everything back."""
    kind = chance.choice(sorted(files))
    path, how = chance.choice(files[kind]), chance.choice(HOW)
    before = path.read_bytes()
    others = [each for each in files[kind] if each != path and each.read_bytes() != before]
    if how == "swapped" and not others:
        how = "bit"
    done = Damage(how, [path], kind, before)
    content = bytearray(before)
    place = chance.randrange(len(content))
    if how == "bit":
        content[place] ^= 1 << chance.randrange(8)
    elif how == "byte":
        content[place] = (content[place] + chance.randrange(1, 256)) % 256
    elif how == "truncated":
        del content[place:]
    elif how == "zeroed":
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    elif how == "swapped":
        done.paths.append(chance.choice(others))
    with put_back(home, *done.paths):
        if how == "deleted":
            path.unlink()
        elif how == "swapped":
            path.write_bytes(done.paths[1].read_bytes())
            done.paths[1].write_bytes(before)
        else:
            path.write_bytes(content)
        yield done


@contextmanager
def put_back(home: Path, *paths: Path) -> Iterator[None]:
    """Puts files back as they were, and what questions write to."""
    kept = {each: (each.read_bytes(), each.stat()) for each in {*paths, *_changing(home)}}
    unmade = [folder.parents[1] / "index" for folder in home.glob(PENDING_TABLES)]
    try:
        yield
    finally:
        for index in unmade:
            shutil.rmtree(index, ignore_errors=True)
        _restore(home, kept)


def _restore(home: Path, kept: dict[Path, tuple[bytes, os.stat_result]]) -> None:
    for left in home.glob("catalog.db-*"):
        left.unlink()
    for each, (before, state) in kept.items():
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(before)
        os.utime(each, ns=(state.st_atime_ns, state.st_mtime_ns))


def _changing(home: Path) -> list[Path]:
    """Files that questions write to, or remove: the log is in the catalog; pending lineage is finished."""
    pending = [path for folder in home.glob(PENDING_TABLES) for path in folder.parent.rglob("*")]
    return [path for path in (home / "catalog.db", home / "audit.anchors", *pending) if path.is_file()]


def is_named(error: LineageError, done: Damage, home: Path) -> bool:
    """Whether an error names one of the damaged files."""
    names = {str(path.relative_to(home)) for path in done.paths} | {path.name for path in done.paths}
    return any(name in str(error) for name in names)
