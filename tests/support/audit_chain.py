"""A chain of three workflows and a saved query over persons that are made up, and a decoder that knows nothing of ours.

Joins, a left and an anti join, unions, aggregates with having, windows, a semi join, a difference, a limit; sources as
CSV, JSON and Parquet, copied and in place; published copies; values of persons in variables and in a saved query.
"""

import csv
import json
import random
from collections.abc import Collection
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_service import Home

VIP, ASIDE = 3, 5  # persons whose values stand in a variable, and in the text of the saved query


def person(number: int) -> dict[str, object]:
    return {"id": 9_070_310_000 + number, "name": f"Person-{number:04d}-Quux", "email": f"p{number:04d}@mail.example"}


def subjects(number: int) -> list[str]:
    return [f"customer={person(number)['id']}", f"mail={person(number)['email']}"]


def values(number: int) -> list[str]:
    """What tells who somebody is: nobody else has any of it."""
    return [str(value) for value in person(number).values()]


FIRST = """
version: 1
name: first
vars: {{vip: {vip}}}
privacy: {{purpose: Reports, recipients: [Auditor Ltd]}}
sources:
  people: {{path: people.csv, options: {{header: true}}, schema: "id BIGINT, name STRING, email STRING, city STRING",
            subject: {{customer: id}}, pii: [name, email], on_erased: {on_erased}}}
  orders: {{path: orders.parquet, subject: {{customer: customer}}, pii: [note], snapshot: {snapshot},
            on_erased: {on_erased}}}
steps:
  - {{name: joined, op: join, how: left, left: people, right: orders, on: "id = customer"}}
  - {{name: flagged, op: with_columns, input: joined, columns: {{is_vip: "coalesce(email = '${{vip}}', false)"}}}}
  - {{name: spend, op: aggregate, input: flagged, by: [city],
      measures: {{total: sum(amount), people: count(distinct id), first_name: min(name)}}}}
  - {{name: silent, op: join, how: anti, left: people, right: orders, on: "id = customer"}}
  - {{name: best, op: limit, input: orders, n: 5, by: ["amount desc", order_id]}}
outputs:
  flagged: {{path: out/flagged}}
  spend: {{path: out/spend}}
  silent:
  best:
"""
SECOND = """
version: 1
name: second
sources:
  flagged: {output: first.flagged}
  silent: {output: first.silent}
  tickets: {path: tickets.json, schema: "ticket BIGINT, email STRING, text STRING", subject: {mail: email},
            pii: [email, text], on_erased: drop}
steps:
  - {name: a, op: project, input: flagged, columns: {who: email, city: city, amount: "coalesce(amount, 0)"}}
  - {name: b, op: project, input: silent, columns: {who: email, city: city, amount: "-1"}}
  - {name: both, op: union, inputs: [a, b]}
  - {name: ranked, op: window, input: both, partition_by: [city], order_by: ["amount desc", who],
     measures: {place: row_number(), share: sum(amount)}}
  - {name: asked, op: join, how: semi, left: both, right: tickets, on: "who = email"}
  - {name: cities, op: aggregate, input: both, by: [city], measures: {n: count(*), top: max(amount)}, having: n > 1}
outputs:
  ranked:
  asked:
  cities: {path: out/cities}
lineage: {keep: [both]}
"""
THIRD = """
version: 1
name: third
sources:
  ranked: {output: second.ranked}
  cities: {output: second.cities}
steps:
  - {name: leaders, op: filter, input: ranked, where: "place = 1"}
  - {name: named, op: join, left: leaders, right: cities, using: [city]}
  - {name: lc, op: project, input: ranked, columns: {city: city}}
  - {name: cc, op: project, input: cities, columns: {city: city}}
  - {name: rest, op: difference, left: lc, right: cc}
  - {name: whole, op: aggregate, input: ranked, by: [], measures: {n: count(*), s: sum(amount)}}
outputs:
  named:
  rest:
  whole: {path: out/whole}
"""
SAVED = (
    "SELECT city, count(*) AS n, min(who) AS first_who FROM second.ranked "
    f"WHERE who <> '{person(ASIDE)['email']}' GROUP BY city"
)
ORDERS = pa.schema([("order_id", pa.int64()), ("customer", pa.int64()), ("amount", pa.int32()), ("note", pa.string())])


class Chain:
    """The chain in a folder, over persons 0 to `count` but those in `without`."""

    def __init__(
        self, folder: Path, count: int, without: Collection[int] = (), *, snapshot: bool = True,
        on_erased: str = "fail", catalog: str | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.count, self.without = folder, count, set(without)
        self.home = Home.open(folder / "home", catalog=catalog)
        folder.mkdir(parents=True, exist_ok=True)
        self._write_sources()
        vip = json.dumps(person(VIP)["email"])
        text = FIRST.format(vip=vip, snapshot=str(snapshot).lower(), on_erased=on_erased)
        for name, content in (("first", text), ("second", SECOND), ("third", THIRD)):
            (folder / f"{name}.yml").write_text(content)

    def run(self, *flows: str, query: bool = True) -> "Chain":
        """All of it, or only some of the workflows, then without the saved query."""
        for name in flows or ("first", "second", "third"):
            self.home.run(self.folder / f"{name}.yml")
        query = query and not flows
        if query:
            self.home.query(SAVED, save="per_city", reveal=True)
        return self

    def _write_sources(self) -> None:
        chance = random.Random(7)
        people = [
            {**person(number), "city": chance.choice(["Ulm", "Bonn", "Kiel", ""])} for number in range(self.count)
        ]
        orders, number = [], 0
        for each in people:
            for _ in range(chance.choice([0, 0, 1, 2, 3])):
                amount = chance.randint(1, 50)
                note = f"note {number} of {each['name']}"
                orders.append({"order_id": number, "customer": each["id"], "amount": amount, "note": note})
                number += 1
        chance.shuffle(orders)
        asked = chance.choices(people, k=self.count // 2)
        tickets = [
            {"ticket": number, "email": each["email"], "text": f"ticket of {each['name']}"}
            for number, each in enumerate(asked)
        ]
        gone = [person(number) for number in self.without]
        ids, mails = {each["id"] for each in gone}, {each["email"] for each in gone}
        with (self.folder / "people.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, ["id", "name", "email", "city"])
            writer.writeheader()
            writer.writerows(each for each in people if each["id"] not in ids)
        rows = [each for each in orders if each["customer"] not in ids]
        pq.write_table(pa.Table.from_pylist(rows, schema=ORDERS), self.folder / "orders.parquet")
        lines = [json.dumps(each) + "\n" for each in tickets if each["email"] not in mails]
        (self.folder / "tickets.json").write_text("".join(lines))

    def rows(self) -> dict[str, list[str]]:
        """Every dataset but sources, as a bag of rows."""
        found = {}
        for each in self.home.datasets().to_pylist():
            if each["kind"] != "source":
                rows = self.home.rows(each["dataset"], reveal=True).to_pylist()
                found[each["dataset"]] = sorted(
                    repr({name: value for name, value in row.items() if name != "_rid"}) for row in rows
                )
        return found

    def published(self) -> dict[str, list[str]]:
        """What published copies hold, read by DuckDB alone."""
        return {
            path.name: sorted(map(repr, duckdb.sql(f"FROM read_parquet('{path}/*.parquet')").fetchall()))
            for path in sorted((self.folder / "out").iterdir())
        }

    def kept_places(self) -> list[Path]:
        """Where nothing of an erased person may be: the home with its catalog, and published copies."""
        return [self.folder / "home", self.folder / "out"]


def texts_in(folder: Path) -> str:
    """Everything that files below a folder hold, as one text: Parquet decoded by DuckDB, with its dictionaries by way
    of statistics, everything else as bytes."""
    return "\n".join(texts_in_file(path) for path in sorted(each for each in folder.rglob("*") if each.is_file()))


def texts_in_file(path: Path) -> str:
    raw = path.read_bytes()
    found = [raw.decode("latin-1")]
    if raw[:4] == b"PAR1":
        for query in (f"FROM read_parquet('{path}', hive_partitioning = false)", f"FROM parquet_metadata('{path}')",
                      f"FROM parquet_kv_metadata('{path}')"):  # fmt: skip
            found.append(repr(duckdb.sql(query).fetchall()))
        table = pq.read_table(path, read_dictionary=_texts_of(path))
        for column in table.columns:
            if pa.types.is_dictionary(column.type):
                found += [repr(chunk.dictionary.to_pylist()) for chunk in column.chunks]
    return "\n".join(found)


def _texts_of(path: Path) -> list[str]:
    """Columns of text that have dictionaries in each part of the file."""
    metadata = pq.read_metadata(path)
    texts = [each.name for each in pq.read_schema(path) if pa.types.is_string(each.type)]
    chunks = [
        metadata.row_group(group).column(number)
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
    ]
    plain = {chunk.path_in_schema for chunk in chunks if "RLE_DICTIONARY" not in chunk.encodings or
             any(encoding.startswith("DELTA") for encoding in chunk.encodings)}  # fmt: skip
    return [name for name in texts if name not in plain]
