"""A small shop for tests of erasure: two workflows, published copies and a saved query over made-up persons.

Everything in it means the same to DuckDB and Spark, so that `apply` needs no Spark. It can be put back as it was: the
home, the published copies and the plan lie in one folder, at one path.
"""

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from lineage_catalog.erasures import erasure
from lineage_catalog.models import metadata
from sqlalchemy import select

from lineage_service import Home
from tests.support.audit_chain import texts_in

CITIES = ("Ulm", "Bonn", "Kiel")
PEOPLE = 12
GONE = 4  # the person who asks to be erased


FIRST_ID = 7_394_810_000  # long: a short number is found by chance, in the time of a file


def person(number: int) -> dict[str, object]:
    return {"id": FIRST_ID + number, "name": f"Person-{number:04d}-Zyx", "city": CITIES[number % 3]}


def values(number: int) -> list[str]:
    """What nobody else has."""
    return [str(person(number)["id"]), str(person(number)["name"])]


FIRST = """
version: 1
name: first
privacy: {purpose: Billing, recipients: [Auditor Ltd]}
sources:
  people: {path: people.parquet, subject: {customer: id}, pii: [name], snapshot: true}
  orders: {path: orders.parquet, subject: {customer: customer}, snapshot: true}
steps:
  - {name: joined, op: join, left: people, right: orders, on: "id = customer"}
  - {name: large, op: filter, input: joined, where: "amount > 2"}
  - {name: spend, op: aggregate, input: large, by: [city], measures: {total: sum(amount), n: count(*)}}
outputs:
  large: {path: out/large}
  spend: {path: out/spend}
"""
SECOND = """
version: 1
name: second
sources:
  large: {output: first.large}
steps:
  - {name: names, op: project, input: large, columns: {name: name, amount: amount}}
  - {name: best, op: filter, input: names, where: "amount > 4"}
outputs:
  best: {path: out/best}
"""
SAVED = "SELECT city, count(*) AS n, min(name) AS first_name FROM first.large GROUP BY city"


class Shop:
    """The shop in a folder, without the persons in `without`."""

    def __init__(self, folder: Path, without: tuple[int, ...] = (), catalog: str | None = None) -> None:
        self.folder, self.catalog = folder, catalog
        folder.mkdir(parents=True, exist_ok=True)
        self.write_sources(without)
        (folder / "first.yml").write_text(FIRST)
        (folder / "second.yml").write_text(SECOND)

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.json"

    def open(self) -> Home:
        return Home.open(self.folder / "home", catalog=self.catalog)

    def write_sources(self, without: tuple[int, ...] = ()) -> None:
        people = [person(number) for number in range(PEOPLE) if number not in without]
        orders = [
            {"customer": FIRST_ID + number % PEOPLE, "amount": 1 + number % 7}
            for number in range(4 * PEOPLE)
            if number % PEOPLE not in without
        ]
        pq.write_table(pa.Table.from_pylist(people), self.folder / "people.parquet")
        pq.write_table(pa.Table.from_pylist(orders), self.folder / "orders.parquet")

    def run(self) -> "Shop":
        home = self.open()
        home.run(self.folder / "first.yml")
        home.run(self.folder / "second.yml")
        home.query(SAVED, save="per_city", reveal=True)
        home.close()
        return self

    def planned(self, *, rewrite_sources: bool = False) -> "Shop":
        home = self.open()
        home.audit.plan_erasure(f"customer={person(GONE)['id']}", rewrite_sources=rewrite_sources, out=self.plan)
        home.close()
        return self

    # --- what is there ----------------------------------------------------------------------------------------

    def rows(self) -> dict[str, list[str]]:
        """Every dataset but sources, as a bag of rows, by a home that is opened for it."""
        home = self.open()
        try:
            return {
                each["dataset"]: bag(home.rows(each["dataset"], reveal=True).to_pylist())
                for each in home.datasets().to_pylist()
                if each["kind"] != "source"
            }
        finally:
            home.close()

    def published(self) -> dict[str, list[str]]:
        """What lies at the published paths; a path where nothing lies is left out."""
        found = {}
        for name in ("large", "spend", "best"):
            if (self.folder / "out" / name).is_dir():
                path = self.folder / "out" / name / "*.parquet"
                found[name] = sorted(map(repr, duckdb.sql(f"FROM read_parquet('{path}')").fetchall()))
        return found

    def left(self, number: int = GONE) -> list[str]:
        """Values of a person that lie anywhere in the home or the published copies."""
        text = texts_in(self.folder / "home") + texts_in(self.folder / "out")
        return [value for value in values(number) if value in text]

    def state(self) -> str | None:
        """How far the catalog says the planned erasure is."""
        home = self.open()
        try:
            with home._open.reader.engine.connect() as connection:
                found = erasure(connection, json.loads(self.plan.read_text())["plan_id"])
            return None if found is None else found.state
        finally:
            home.close()

    def dump(self) -> dict[str, list[str]]:
        """The catalog, row by row, but for the log."""
        home = self.open()
        try:
            with home._open.reader.engine.connect() as connection:
                return {
                    table.name: sorted(map(repr, connection.execute(select(table)).all()))
                    for table in metadata.sorted_tables
                    if table.name not in ("audit_log", "audit_requests")
                }
        finally:
            home.close()


def bag(rows: list[dict[str, object]]) -> list[str]:
    return sorted(repr({name: value for name, value in row.items() if name != "_rid"}) for row in rows)


def put_back(kept: Path, folder: Path) -> None:
    """A folder as it was when it was copied, with the times of its files."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder, symlinks=True)
