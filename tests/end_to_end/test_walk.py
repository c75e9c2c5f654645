"""Every verb in random order, with `gc` and `doctor --deep` after each: whatever was answered before is answered the
same, what was erased is gone, published copies are those of the latest run, and nothing lies about that nobody needs.

`SMOKE_WALKS=20` walks as many seeds, `SMOKE_SEED=7` begins with that one, `SMOKE_STEPS=40` takes as many steps.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import ChecksFailed, LineageError
from lineage_service.store.published_folder import copies_beside
from lineage_service.store.references import References, held_runs, with_companions
from tests.support.killing import counted

WALKS = int(os.environ.get("SMOKE_WALKS", "2"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))
STEPS = int(os.environ.get("SMOKE_STEPS", "8"))

FIRST = """
version: 1
name: first
sources:
  people: {path: people.parquet, subject: {customer: id}, pii: [name], snapshot: true}
  orders: {path: orders.parquet, subject: {customer: customer}, snapshot: true}
  cities: {path: cities.parquet, snapshot: true}
steps:
  - {name: joined, op: join, left: people, right: orders, on: "id = customer"}
  - {name: large, op: filter, input: joined, where: "amount > 1"}
  - {name: spend, op: aggregate, input: large, by: [city], measures: {total: sum(amount), n: count(*)}}
  - {name: known, op: join, left: spend, right: cities, using: [city]}
outputs:
  large: {path: out/large}
  known: {path: out/known}
"""
SECOND = """
version: 1
name: second
sources:
  large: {output: first.large}
steps:
  - {name: best, op: filter, input: large, where: "amount > 2"}
outputs:
  best: {path: out/best}
"""
BRIEF = """
version: 1
name: brief
privacy: {retention_days: 0}
sources:
  people: {path: people.parquet, subject: {customer: id}, pii: [name], snapshot: true}
steps:
  - {name: here, op: project, input: people, columns: [id, city]}
outputs:
  here: {path: out/here}
"""
CHECKED = """
version: 1
name: checked
sources:
  cities: {path: cities.parquet}
  people: {path: people.parquet, subject: {customer: id}, pii: [name]}
steps:
  - {name: both, op: join, left: people, right: cities, using: [city]}
outputs:
  both: {path: out/both, checks: [{where: "id < 0"}]}
"""
BASE = 7_394_810_000
CITIES = ("Ulm", "Bonn", "Kiel")


@pytest.fixture(autouse=True)
def without_java(monkeypatch):
    """`doctor` is asked again and again; which Java there is, takes longer than all the rest."""
    monkeypatch.setattr("lineage_service.doctor.examination._java_checks", lambda: [])


class Walk:
    """A home, what it has answered so far, and the verbs."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.people = {BASE + number: f"Person-{seed:02d}{number:03d}-Zyx" for number in range(9)}
        self.orders = [(BASE + number % 9, 1 + number % 5) for number in range(30)]
        self.gone: set[int] = set()
        self.answers: dict[str, dict[str, Any]] = {}
        self.steps: list[str] = []
        pq.write_table(pa.table({"city": list(CITIES), "size": [1, 2, 3]}), folder / "cities.parquet")
        for name, text in (("first", FIRST), ("second", SECOND), ("brief", BRIEF), ("checked", CHECKED)):
            (folder / f"{name}.yml").write_text(text)
        self.write()
        self.numbers = iter(range(1000))

    # --- the data ---------------------------------------------------------------------------------------------

    def write(self) -> None:
        people = [{"id": key, "name": name, "city": CITIES[key % 3]} for key, name in self.people.items()]
        orders = [{"customer": key, "amount": amount} for key, amount in self.orders]
        schema = pa.schema({"customer": pa.int64(), "amount": pa.int64()})
        pq.write_table(pa.Table.from_pylist(people), self.folder / "people.parquet")
        pq.write_table(pa.Table.from_pylist(orders, schema), self.folder / "orders.parquet")

    def open(self) -> Home:
        return Home.open(self.folder / "home")

    def latest(self, home: Home, workflow: str) -> str | None:
        found = home._open.reader.latest_run(workflow)
        return None if found is None else found.id

    # --- verbs ------------------------------------------------------------------------------------------------

    def run(self, home: Home) -> None:
        home.run(self.folder / "first.yml")

    def run_after_a_change(self, home: Home) -> None:
        key = self.chance.choice(list(self.people))
        self.orders = [*self.orders[self.chance.randrange(3) :], (key, self.chance.randrange(1, 6))]
        self.write()
        home.run(self.folder / "first.yml")

    def run_second(self, home: Home) -> None:
        home.run(self.folder / "second.yml")

    def run_brief(self, home: Home) -> None:
        home.run(self.folder / "brief.yml")

    def fail_a_check(self, home: Home) -> None:
        with pytest.raises(ChecksFailed):
            home.run(self.folder / "checked.yml")

    def capture_when_asked(self, home: Home) -> None:
        home.run(self.folder / "first.yml", capture="defer")

    def refresh_removed(self, home: Home) -> None:
        home.refresh("first.orders", removed=f"amount = {self.chance.randrange(1, 6)}")

    def refresh_added(self, home: Home) -> None:
        key = self.chance.choice(list(self.people))
        home.refresh("first.orders", added=[{"customer": key, "amount": self.chance.randrange(1, 6)}])

    def refresh_changed(self, home: Home) -> None:
        rows = home.rows("first.orders", limit=5).to_pylist()
        if rows:
            row = self.chance.choice(rows)
            home.refresh("first.orders", changed=[{"_rid": row["_rid"], "amount": self.chance.randrange(1, 6)}])

    def refresh_files(self, home: Home) -> None:
        self.orders.append((self.chance.choice(list(self.people)), 4))
        self.write()
        home.refresh("first")

    def save(self, home: Home) -> None:
        home.query("SELECT city, count(*) AS n FROM first.large GROUP BY city", save="saved")

    def what_if(self, home: Home) -> None:
        home.what_if(without="first.orders", where="amount = 3", on=["first.large"])

    def why_not(self, home: Home) -> None:
        home.why_not("first.orders", to="first.large", where="amount = 1")

    def index(self, home: Home) -> None:
        home.index()

    def retention(self, home: Home) -> None:
        home.gc(retention=True)
        for run_id in [each for each, kept in self.answers.items() if kept["workflow"] == "brief"]:
            del self.answers[run_id]

    def erase(self, home: Home, kill_at: int | None = None) -> None:
        if len(self.people) <= 3:
            return
        key = self.chance.choice(sorted(self.people))
        plan = self.folder / "plan.json"
        home.audit.plan_erasure(f"customer={key}", out=plan)
        if kill_at is not None:
            with counted(self.folder, kill_at=kill_at):
                home.audit.apply(plan)
            home.close()
        try:
            with self.open() as again:
                again.audit.apply(plan, out=self.folder / "certificate.json")
        except LineageError as error:
            if "applied already" not in str(error):
                raise
        self.forget(key)
        with self.open() as again:
            verdict = again.audit.verify(self.folder / "certificate.json", values=[str(key)])
            # The source files are ours in this test, and have the person no more either.
            assert verdict.holds, verdict.to_json()

    def forget(self, key: int) -> None:
        """The sources are the user's: he removes the person from them himself."""
        del self.people[key]
        self.orders = [each for each in self.orders if each[0] != key]
        self.gone.add(key)
        self.write()
        with self.open() as home:
            held = {run.id for run in home._open.reader.runs()}
        self.answers = {run_id: kept for run_id, kept in self.answers.items() if run_id in held}

    def rectify(self, home: Home) -> None:
        key = self.chance.choice(sorted(self.people))
        name = f"Corrected-{next(self.numbers):03d}"
        plan = self.folder / "plan.json"
        home.audit.plan_rectification(f"customer={key}", values={"name": name}, out=plan)
        home.audit.apply(plan)
        self.people[key] = name
        self.write()
        held = {run.id for run in home._open.reader.runs()}
        self.answers = {run_id: kept for run_id, kept in self.answers.items() if run_id in held}

    def killed(self, verb: Callable[[Home], None]) -> Callable[[Home], None]:
        def interrupted(home: Home) -> None:
            with counted(self.folder, kill_at=self.chance.randrange(120)) as done:
                verb(home)
            home.close()
            self.steps[-1] += f" killed before {len(done)}"

        return interrupted

    def killed_erasure(self, home: Home) -> None:
        self.erase(home, kill_at=self.chance.randrange(250))

    def verbs(self) -> dict[str, Callable[[Home], None]]:
        plain = (
            self.run_after_a_change, self.run_second, self.run_brief, self.fail_a_check, self.capture_when_asked,
            self.refresh_removed, self.refresh_added, self.refresh_changed, self.refresh_files, self.save,
            self.what_if, self.why_not, self.index, self.retention, self.erase, self.rectify, self.killed_erasure,
        )  # fmt: skip
        dying = (self.run, self.refresh_removed, self.refresh_added, self.refresh_files, self.save, self.run_second)
        return {each.__name__: each for each in plain} | {
            f"killed {each.__name__}": self.killed(each) for each in dying
        }

    # --- what must hold ---------------------------------------------------------------------------------------

    def step(self, name: str) -> None:
        self.steps.append(name)
        home = self.open()
        try:
            self.verbs()[name](home) if name != "run" else self.run(home)
        finally:
            home.close()
        self.check()

    def check(self) -> None:
        with self.open() as home:
            home.gc()
        told = examine(self.folder / "home", deep=True).checks
        wrong = [
            each for each in told if each.status == "problem" or (each.status != "ok" and each.name == "leftovers")
        ]
        assert not wrong and not [each for each in told if each.name == "published"], told
        with self.open() as home:
            reader, layout = home._open.reader, home.layout
            found = {run.id: self.answer(home, run.id, run.workflow) for run in reader.runs()}
            there = {str(path.relative_to(layout.path)) for path in layout.runs.rglob("*") if path.is_file()}
            needed = References(reader, layout).files_of_runs(held_runs(reader))
            marks = {each for each in there if each.rpartition("/")[2] in (".lock", ".committed")}
            assert there == with_companions(needed, there) | marks
            self.check_published(home)
        for run_id, kept in self.answers.items():
            assert found.get(run_id) == kept, run_id
        self.answers = found
        text = json.dumps(found)
        assert not [key for key in self.gone if str(key) in text]

    def answer(self, home: Home, run_id: str, workflow: str) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for each in home._open.reader.datasets(run_id):
            name = f"{each.name}@{run_id}"
            rows[each.name] = sorted(map(repr, home.rows(name, reveal=True).to_pylist()))
            if each.role != "source":
                for source in home._open.reader.datasets(run_id):
                    if source.role == "source" and (each.name, source.name) != ("large", "cities"):
                        pairs = home.backward(name, to=f"{source.name}@{run_id}", all=True, pairs=True)
                        rows[f"{each.name} {source.name}"] = sorted(map(repr, pairs.to_pylist()))
        return {"workflow": workflow, "rows": rows}

    def check_published(self, home: Home) -> None:
        for workflow, output in (("first", "large"), ("first", "known"), ("second", "best"), ("brief", "here")):
            target = self.folder / "out" / output
            assert copies_beside(target) == []
            if self.latest(home, workflow) is None:
                assert not target.exists()
                continue
            rows = home.rows(f"{workflow}.{output}", reveal=True).to_pylist()
            published = duckdb.sql(f"FROM read_parquet('{target}/*.parquet')").to_arrow_table().to_pylist()
            plain = [{name: value for name, value in row.items() if name != "_rid"} for row in rows]
            assert sorted(map(repr, published)) == sorted(map(repr, plain)), output
        assert not (self.folder / "out" / "both").exists()


def walked(folder: Path, seed: int, steps: int) -> None:
    walk = Walk(folder, seed)
    names = sorted(walk.verbs())
    try:
        walk.step("run")
        walk.step("run_second")
        for name in walk.chance.sample(names, min(steps, len(names))):
            walk.step(name)
        for _ in range(steps - len(names)):
            walk.step(walk.chance.choice(names))
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(walk.steps)}")
        raise


def test_two_erasures_share_what_they_did_not_touch(spark, tmp_path):
    """The new runs read on in folders of runs that are superseded; `gc` once took those for left over."""
    walk = Walk(tmp_path, seed=1)
    for name in ("run", "refresh_added", "erase", "erase", "refresh_removed"):
        walk.step(name)
    with walk.open() as home:
        runs = {run.id for run in home._open.reader.runs()}
        folders = {path.name for path in home.layout.runs.iterdir()}
    assert folders - runs, "files lie in folders of superseded runs"


@pytest.mark.parametrize("seed", range(SEED, SEED + WALKS))
def test_every_verb_in_random_order(spark, tmp_path, seed):
    walked(tmp_path, seed, STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_every_verb_in_random_order_at_length(spark, tmp_path, seed):
    walked(tmp_path, seed, 40)
