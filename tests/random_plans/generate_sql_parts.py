"""Tables, columns in scope, literals and windows for the random queries of generate_sql.py."""

import datetime
import math
from dataclasses import dataclass
from random import Random

from tests.oracle.sql_reference import SqlTable

LITERALS = {
    "int": ["0", "1", "2", "3"],
    "str": ["'a'", "'b'", "''"],
    "dbl": ["0.0D", "0.5D", "1.25D"],
    "date": ["DATE '2020-01-01'", "DATE '2020-02-29'"],
    "bool": ["true", "false"],
}
AGGREGATES = {
    "int": ["sum", "min", "max"],
    "str": ["min", "max"],
    "dbl": ["sum", "min", "max"],
    "date": ["min", "max"],
    "bool": ["min", "max"],
}
VALUES = {
    "INT": [0, 1, 1, 1, 2, 2, 3],
    "BIGINT": [0, 1, 2, 2, 3, 4],
    "STRING": ["a", "a", "b", "", "B"],
    "DOUBLE": [0.0, -0.0, 0.25, 0.5, 1.25, math.nan],  # sums of these are exact in any order
    "DATE": [datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(2019, 12, 31)],
    "ARRAY<INT>": [[], [1], [1, 2], [None, 1], [2, 2]],
}


def random_table(random: Random, name: str) -> SqlTable:
    """A table with a unique column `id`, a skewed key `k`, and some more; rows that are alike but for `id`."""
    schema = {"id": "INT", "k": random.choice(["INT", "BIGINT"])}
    more = {"v": "INT", "s": "STRING", "x": "DOUBLE", "d": "DATE", "w": "BIGINT", "arr": "ARRAY<INT>"}
    schema |= {column: more[column] for column in sorted(random.sample(sorted(more), random.randint(3, 5)))}
    rows = []
    for _ in range(random.randint(2, 6)):
        row = {column: random_value(random, kind) for column, kind in schema.items()}
        rows += [row] * random.choice([1, 1, 1, 2])
    places = random.sample(range(1, 10), min(len(rows), 7))
    if name == "ta" and random.random() < 0.3:
        del schema["id"]  # rows that are alike in everything
    return SqlTable(schema, [row | {"id": n} for n, row in zip(places, rows, strict=False)])


def random_value(random: Random, kind: str):
    return None if random.random() < 0.2 else random.choice(VALUES[kind])


@dataclass(frozen=True)
class Field:
    """A column that can be read."""

    qualifier: str | None
    name: str
    kind: str

    @property
    def text(self) -> str:
        return f"{self.qualifier}.{self.name}" if self.qualifier else self.name


@dataclass(frozen=True)
class Columns:
    """The columns of one query level."""

    fields: list[Field]

    def of(self, kind: str) -> list[Field]:
        return [each for each in self.fields if each.kind == kind]

    @property
    def can_be_starred(self) -> bool:
        """A star gives columns of different names, none of them an array."""
        names = [each.name for each in self.fields]
        return not self.of("arr") and len(set(names)) == len(names) and not any("." in name for name in names)

    def all_fields(self) -> list[Field]:
        return [Field(None, each.name, each.kind) for each in self.fields]


@dataclass(frozen=True)
class Select:
    text: str
    fields: list[Field]  # without qualifier


def window_text(generator, columns: Columns) -> str:
    """A window function that gives a number; with ties only where these cannot be told apart."""
    pick, chance = generator.pick, generator.chance
    plain = [f.text for f in columns.fields if f.kind != "arr"]
    numbers = [f.text for f in columns.of("int")] or ["1"]
    unique = [f.text for f in columns.of("int") if f.name == "id"]
    partition = f"PARTITION BY {pick(*plain)} " if plain and chance(0.6) else ""
    keys = [f"{pick(*plain)}{pick('', ' DESC', ' NULLS LAST')}"] if plain else ["1"]
    total = ", ".join([*(keys if chance(0.5) else []), *unique]) or keys[0]
    order = f"ORDER BY {total}" if chance(0.6) else f"ORDER BY {keys[0]}"
    frame = pick(
        "", "", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    aggregate = pick(f"sum({pick(*numbers)})", "count(*)", f"max({pick(*numbers)})", f"count({pick(*numbers)})")
    forms = [
        f"row_number() OVER ({partition}ORDER BY {total})",
        f"rank() OVER ({partition}{order})",
        f"dense_rank() OVER ({partition}{order})",
        f"lag({pick(*numbers)}) OVER ({partition}ORDER BY {total})",
        f"lead({pick(*numbers)}, 2) OVER ({partition}ORDER BY {total})",
        f"ntile(2) OVER ({partition}ORDER BY {total})",
        f"first_value({pick(*numbers)}) OVER ({partition}ORDER BY {total})",
        f"{aggregate} OVER ({partition})",
        f"{aggregate} OVER ({partition}{order})",
        f"{aggregate} OVER ({partition}{order})",
        f"{aggregate} OVER ({partition}ORDER BY {total}{frame})",
    ]
    return pick(*forms)
