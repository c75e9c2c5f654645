"""A home with every kind of file in it, ways to damage one, and questions that must then be answered as before or be
refused with the name of what is damaged."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_service import Home
from lineage_service.errors import LineageError
from lineage_service.store import checksums

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


def make(folder: Path) -> Path:
    """Makes the home; needs Spark."""
    folder.mkdir(parents=True)
    chance = random.Random(16)
    lines = [f"{number},Person-{number:03d},{CITIES[number % 4]}" for number in range(PEOPLE)]
    (folder / "people.csv").write_text("\n".join(["id,name,city", *lines]) + "\n")
    rows = [{"customer": chance.randrange(PEOPLE - 5), "amount": chance.randrange(8)} for _ in range(ORDERS)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "orders.parquet", row_group_size=100)
    pq.write_table(pa.Table.from_pylist(rows[::-1]), folder / "sold.parquet")
    for name, text in (("shop", SHOP), ("second", SECOND), ("plain", PLAIN), ("lazy", LAZY)):
        (folder / f"{name}.yml").write_text(text)
    regions = [f"{number},region-{number % 5}" for number in range(PEOPLE)]
    (folder / "regions.csv").write_text("\n".join(["customer,region", *regions]) + "\n")
    with Home.open(folder / "home") as home:
        home.run(folder / "shop.yml")
        home.run(folder / "plain.yml")
        home.run(folder / "lazy.yml")
        home.refresh(
            "shop.orders", removed="amount = 7", added=[{"customer": 3, "amount": 6}, {"customer": 9, "amount": 5}]
        )
        home.run(folder / "second.yml")
        home.query("SELECT city, count(*) AS n FROM shop.joined GROUP BY city", save="per_city", reveal=True)
        home.audit.access("customer=7")
        home.audit.plan_erasure("customer=5", out=folder / "plan.json")
        home.audit.apply(folder / "plan.json", out=folder / "certificate.json")
    return folder / "home"


# --- questions ------------------------------------------------------------------------------------------------

DATASETS = ("shop.people", "shop.orders", "shop.joined", "shop.ranked", "shop.buyers", "shop.silent", "shop.cities",
            "second.best", "second.counted", "per_city", "plain.summed", "plain.high", "plain.regions")  # fmt: skip
WAYS = (("shop.ranked", "people"), ("shop.ranked", "orders"), ("shop.buyers", "orders"), ("shop.cities", "people"),
        ("second.counted", "shop.people"), ("per_city", "shop.orders"), ("plain.high", "plain.sold"))  # fmt: skip


def questions(home: Home) -> dict[str, Callable[[], Any]]:
    def told(name: str) -> Callable[[], Any]:
        return lambda: home.rows(name, reveal=True).to_pylist()

    found: dict[str, Callable[[], Any]] = {f"rows {name}": told(name) for name in DATASETS}
    for start, end in WAYS:
        found[f"backward {start} {end}"] = lambda s=start, e=end: home.backward(
            s, to=e, all=True, pairs=True
        ).to_pylist()
        found[f"forward {start} {end}"] = lambda s=start, e=end: home.forward(
            e if "." in e else f"shop.{e}", to=s, all=True, pairs=True
        ).to_pylist()
        found[f"one {start} {end}"] = lambda s=start, e=end: home.backward(s, to=e, rid=1, rids=True).to_pylist()
    access = {"customer=7", "customer=5"}
    found |= {f"access {who}": lambda w=who: _without_times(home.audit.access(w).document) for who in sorted(access)}
    found |= {
        "how": lambda: home.backward("plain.summed", to=["sold", "regions"], rid=0, semantics="how").to_pylist(),
        "why": lambda: home.backward("plain.summed", to=["sold", "regions"], rid=1, semantics="why").to_pylist(),
        "trace": lambda: home.trace("shop.ranked", rid=0, reveal=True).to_json(),
        "query": lambda: home.query(
            "SELECT city, count(*) AS n FROM shop.joined GROUP BY city ORDER BY city"
        ).to_pylist(),
        "workload": lambda: home.query("SELECT * FROM workload('details', '_rid = 0')").to_pylist(),
        "groups": lambda: home.query("SELECT * FROM workload('amounts', '_rid < 3')").to_pylist(),
        "runs": lambda: home.runs().to_pylist(),
        "datasets": lambda: home.datasets().to_pylist(),
        "columns": lambda: home.columns("shop.ranked").to_pylist(),
        "diff": lambda: home.diff("shop.ranked").to_json(),
        "log": lambda: home.audit.log(verb="apply erasure").to_pylist(),
        "requests": lambda: home.audit.requests(all=True).to_pylist(),
    }
    return found


def with_spark(home: Home) -> dict[str, Callable[[], Any]]:
    """Questions that have steps evaluated again, or lineage captured."""
    return {
        "why not": lambda: home.why_not("shop.orders", to="shop.ranked", where="amount < 3").to_json(),
        "lazy": lambda: home.backward("lazy.summed", to="sold", rid=0, rids=True).to_pylist(),
    }


def _without_times(document: dict[str, Any]) -> Any:
    text = json.dumps(document, default=str, sort_keys=True)
    return {key: value for key, value in json.loads(text).items() if key not in ("made_at", "at", "created", "log")}


def answers(folder: Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The answers to questions, all of them without names, or the errors: as in a new process."""
    checksums.forget()
    found: dict[str, Any] = {}
    with Home.open(folder) as home:
        known = {**questions(home), **with_spark(home)}
        for name in dict.fromkeys(known if names is None else names):
            try:
                found[name] = known[name]()
            except LineageError as error:
                found[name] = error
    return found


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
    return parts[2]


def files_by_kind(home: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*")):
        ours = path.is_file() and path.name not in (".lock", ".committed", "_SUCCESS") and path.suffix != ".crc"
        if ours and path.stat().st_size and "tmp" not in path.relative_to(home).parts:
            found.setdefault(kind_of(path, home), []).append(path)
    return found


HOW = ("bit", "bit", "bit", "bit", "byte", "byte", "truncated", "zeroed", "deleted", "swapped")


@contextmanager
def damage(home: Path, files: dict[str, list[Path]], chance: random.Random) -> Iterator[Damage]:
    """Damages a file by chance, and puts everything back."""
    kind = chance.choice(sorted(files))
    path, how = chance.choice(files[kind]), chance.choice(HOW)
    others = [each for each in files[kind] if each != path and each.read_bytes() != path.read_bytes()]
    if how == "swapped" and not others:
        how = "bit"
    done = Damage(how, [path], kind, path.read_bytes())
    kept = {each: (each.read_bytes(), each.stat()) for each in {path, *_changing(home)}}
    content = bytearray(path.read_bytes())
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
        other = chance.choice(others)
        kept[other] = other.read_bytes(), other.stat()
        done.paths.append(other)
        content = bytearray(other.read_bytes())
        other.write_bytes(kept[path][0])
    try:
        if how == "deleted":
            path.unlink()
        else:
            path.write_bytes(content)
        yield done
    finally:
        _restore(home, kept)


@contextmanager
def put_back(home: Path, *paths: Path) -> Iterator[None]:
    """Puts files back as they were, and what questions write to."""
    kept = {each: (each.read_bytes(), each.stat()) for each in {*paths, *_changing(home)}}
    try:
        yield
    finally:
        _restore(home, kept)


def _restore(home: Path, kept: dict[Path, tuple[bytes, os.stat_result]]) -> None:
    for left in home.glob("catalog.db-*"):
        left.unlink()
    for each, (before, state) in kept.items():
        each.write_bytes(before)
        os.utime(each, ns=(state.st_atime_ns, state.st_mtime_ns))


def _changing(home: Path) -> list[Path]:
    """Files that questions write to: the log is in the catalog."""
    return [path for path in home.iterdir() if path.is_file() and path.name in ("catalog.db", "audit.anchors")]


def is_named(error: LineageError, done: Damage, home: Path) -> bool:
    """Whether an error names one of the damaged files."""
    names = {str(path.relative_to(home)) for path in done.paths} | {path.name for path in done.paths}
    return any(name in str(error) for name in names)
