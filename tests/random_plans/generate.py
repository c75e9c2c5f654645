"""Random workflows for property tests: small tables full of nulls and duplicates, and a DAG over them.

`random_plan(seed)` is a function of its seed alone. A plan's result is deterministic: steps that Spark could
answer in more than one way are dropped while generating, with the oracle as judge; so are steps that grow.
"""

import datetime
import math
from dataclasses import dataclass, field, replace
from random import Random

from tests.oracle.reference import Evaluation, Unsupported, evaluate, inputs_of
from tests.random_plans.generate_types import (
    ARRAY,
    LITERALS,
    NESTED_LITERALS,
    SCALARS,
    STRUCT,
    TYPES,
    family,
    quoted,
    type_of,
)
from tests.random_plans.generate_windows import random_window
from tests.support.sql_tables import with_prefixed_tables

MAX_ROWS = 60
NAMES = ["v", "w", "x", "rid", "value", "my col", "größe", "group", "oid", "count", "a.b", "order"]


@dataclass
class Plan:
    """A workflow over small tables. `tables` and `files` hold the same rows; a row's position is its rid."""

    seed: int
    tables: dict[str, list[dict]]
    schemas: dict[str, dict[str, str]]
    files: dict[str, list[list[dict]]]
    steps: list[dict]
    outputs: list[str]
    keep: list[str] = field(default_factory=list)

    def evaluate(self) -> Evaluation:
        return evaluate(self.tables, self.schemas, self.steps)

    def prefixed(self, prefix: str) -> "Plan":
        """The same plan with all names of sources and steps prefixed, so that plans can be merged."""

        def renamed(step: dict) -> dict:
            names = {key: prefix + step[key] for key in ("name", "input", "left", "right") if key in step}
            if "inputs" in step:
                names["inputs"] = [prefix + name for name in step["inputs"]]
            if step["op"] == "sql":
                names["query"] = with_prefixed_tables(step["query"], prefix)
            return {**step, **names}

        return replace(
            self,
            tables={prefix + name: rows for name, rows in self.tables.items()},
            schemas={prefix + name: schema for name, schema in self.schemas.items()},
            files={prefix + name: files for name, files in self.files.items()},
            steps=[renamed(step) for step in self.steps],
            outputs=[prefix + name for name in self.outputs],
            keep=[prefix + name for name in self.keep],
        )


def random_plan(seed: int, size: int = 5) -> Plan:
    return Generator(seed).plan(size)


class Generator:
    def __init__(self, seed: int):
        self.seed = seed
        self.random = Random(seed)
        self.tables: dict[str, list[dict]] = {}
        self.schemas: dict[str, dict[str, str]] = {}
        self.steps: list[dict] = []
        self.columns: dict[str, dict[str, str]] = {}  # dataset -> column -> type, what can be read
        self.ambiguous: dict[str, frozenset[str]] = {}  # step -> names that a join below has twice
        self.fresh = 0

    # --- tables ---

    def value(self, kind: str):
        pick = self.random.choice
        if self.random.random() < 0.2:
            return None
        match kind:
            case "INT" | "BIGINT":
                return pick([0, 1, 1, 2, 2, 3])
            case "STRING":
                return pick(["a", "a", "b", "", "B"])
            case "DOUBLE":
                return pick([0.0, -0.0, 0.25, 0.5, 1.25, math.nan])
            case "BOOLEAN":
                return pick([True, False])
            case "DATE":
                return pick([datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(2019, 12, 31)])
            case "ARRAY<BIGINT>":
                return pick([[], [1], [1, None], [None, 1], [2, 2], [None]])
        return pick([{"a": 1, "b": None}, {"a": None, "b": "a"}, {"a": 1, "b": "a"}, {"a": None, "b": None}])

    def add_table(self, name: str) -> None:
        names = self.random.sample(NAMES, self.random.randint(1, 3))
        schema = {"k": self.random.choice(["BIGINT", "INT", "INT", "STRING"])}
        schema |= {column: self.random.choice(TYPES) for column in names}
        rows = [{c: self.value(kind) for c, kind in schema.items()} for _ in range(self.random.randint(0, 8))]
        for _ in range(self.random.randint(0, 2) if rows else 0):
            rows.append(dict(self.random.choice(rows)))
        if self.random.random() < 0.5:
            # No two rows alike: what ties would leave open has an answer. Gaps, a null, and places in no order.
            numbers = [None, *range(1, 5), *range(7, 20, 3)]
            schema["n"] = self.random.choice(["BIGINT", "INT"])
            rows = [row | {"n": n} for row, n in zip(rows, self.random.sample(numbers, len(numbers)), strict=False)]
        self.tables[name], self.schemas[name] = rows[:8], schema
        self.columns[name] = dict(schema)

    def split(self, rows: list[dict]) -> list[list[dict]]:
        cuts = sorted(self.random.randint(0, len(rows)) for _ in range(self.random.choice([0, 0, 1, 2])))
        return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]

    # --- the plan ---

    def plan(self, size: int) -> Plan:
        for name in ["t", "u", "v"][: self.random.randint(2, 3)]:
            self.add_table(name)
        attempts = 0
        while attempts < 10 * size and len(self.steps) < size:
            attempts += 1
            kinds = list(OPERATORS)
            operator = self.random.choices(kinds, [OPERATORS[kind] for kind in kinds])[0]
            self.try_steps(getattr(self, operator)())
        if not any(self.is_whole(step["name"]) for step in self.steps):
            self.try_steps([{"name": self.name(), "op": "filter", "input": "t", "where": "true"}])
        return self.finished()

    def is_determined(self, steps: list[dict]) -> bool:
        try:
            result = evaluate(self.tables, self.schemas, self.steps + steps)
        except Unsupported:
            return False
        return not any(step["name"] in result.nondeterministic for step in steps)

    def try_steps(self, steps: list[dict] | None) -> None:
        """Adds the steps, unless their result is too large or not determined."""
        if not steps:
            return
        try:
            result = evaluate(self.tables, self.schemas, self.steps + steps)
        except Unsupported:
            return
        names = [step["name"] for step in steps]
        if any(len(result[name]) > MAX_ROWS or name in result.nondeterministic for name in names):
            return
        if not result[names[-1]] and self.random.random() < 0.7:
            return  # emptiness breeds: some of it is enough
        for step in steps:
            self.steps.append(step)
            self.columns[step["name"]] = types_after(step, self.columns, result)
        self.ambiguous = result.ambiguous

    def is_whole(self, name: str) -> bool:
        """All columns can be read, so it can be an output or part of a set operation."""
        return bool(self.columns[name]) and not self.ambiguous.get(name)

    def finished(self) -> Plan:
        whole = [step["name"] for step in self.steps if self.is_whole(step["name"])]
        read = {name for step in self.steps for name in inputs_of(step)}
        sinks = [name for name in whole if name not in read] or whole[-1:]
        outputs = sinks[-3:]
        if len(outputs) < 3 and self.random.random() < 0.3:
            outputs = sorted({*outputs, self.random.choice(whole)})
        needed = set(outputs)
        for step in reversed(self.steps):
            if step["name"] in needed:
                needed |= set(inputs_of(step))
        steps = [step for step in self.steps if step["name"] in needed]
        between = [name for name in whole if name in needed and name not in outputs]
        keep = [self.random.choice(between)] if between and self.random.random() < 0.3 else []
        tables = {name: rows for name, rows in self.tables.items() if name in needed}
        files = {name: self.split(rows) for name, rows in tables.items()}
        schemas = {name: self.schemas[name] for name in tables}
        return Plan(self.seed, tables, schemas, files, steps, outputs, keep)

    # --- names and expressions ---

    def name(self) -> str:
        self.fresh += 1
        return f"s{self.fresh}"

    def new_column(self) -> str:
        self.fresh += 1
        return self.random.choice([f"c{self.fresh}", f"c{self.fresh}", f"c {self.fresh}"])

    def dataset(self, whole: bool = False) -> str:
        """Some dataset, later ones more often; `whole`: one whose columns can all be read."""
        names = [name for name in self.columns if self.columns[name] and (not whole or self.is_whole(name))]
        return self.random.choices(names, [1 + i for i in range(len(names))])[0]

    def some(self, items, low: int = 1, high: int = 2) -> list:
        items = list(items)
        return self.random.sample(items, min(len(items), self.random.randint(low, high)))

    def of_family(self, columns: dict[str, str], *families: str) -> list[str]:
        return [name for name, kind in columns.items() if family(kind) in families]

    def expression(self, columns: dict[str, str]) -> str:
        name = self.random.choice(list(columns))
        column, kind = quoted(name), family(columns[name])
        choices = {
            "integer": ["{} + 1", "{} * 2", "coalesce({}, 0)", "{} % 2", "abs({} - 2)", "nullif({}, 1)"],
            "STRING": ["upper({})", "concat({}, 'a')", "coalesce({}, 'a')", "length({})", "lower({})"],
            "DOUBLE": ["{} + 0.5D", "coalesce({}, 0.25D)", "{} * 2"],
            "BOOLEAN": ["NOT {}", "if({}, 1, 0)"],
            "DATE": ["year({})", "month({})"],
            ARRAY: ["size({})"],
            STRUCT: ["{}.a", "{}.b"],
        }
        return self.random.choice(["{}", *choices[kind]]).format(column)

    def predicate(self, columns: dict[str, str], depth: int = 1) -> str:
        if depth and self.random.random() < 0.4:
            one, other = self.predicate(columns, depth - 1), self.predicate(columns, depth - 1)
            return self.random.choice([f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one})"])
        name = self.random.choice(list(columns))
        column, kind = quoted(name), family(columns[name])
        if kind not in SCALARS or self.random.random() < 0.15:
            return column + self.random.choice([" IS NULL", " IS NOT NULL"])
        partners = [quoted(other) for other in self.of_family(columns, kind) if other != name]
        if partners and self.random.random() < 0.3:
            return f"{column} {self.comparison()} {self.random.choice(partners)}"
        if self.random.random() < 0.2:
            return f"{column} IN ({', '.join(self.random.sample(LITERALS[kind], 2))})"
        return f"{column} {self.comparison()} {self.random.choice(LITERALS[kind])}"

    def comparison(self) -> str:
        return self.random.choice(["=", "=", "<>", "<", "<=", ">", ">=", "<=>"])

    def orderable(self, columns: dict[str, str]) -> list[str]:
        """Spark's sort puts -0.0 before 0.0, though they are equal: doubles are no order here."""
        return self.of_family(columns, *(SCALARS - {"DOUBLE"}))

    def order(self, names: list[str]) -> list[str]:
        return [
            quoted(name) + self.random.choice(["", "", " desc", " asc nulls last", " desc nulls first"])
            for name in names
        ]

    def measures(self, columns: dict[str, str]) -> dict[str, str]:
        functions = ["count(*)"]
        for name, kind in columns.items():
            column = quoted(name)
            functions.append(f"count({column})")
            if family(kind) in SCALARS:
                functions += [f"min({column})", f"max({column})"]
            if family(kind) in ("integer", "DOUBLE"):
                functions += [f"sum({column})"] * 2
        return {self.new_column(): text for text in self.some(functions, 1, 2)}

    # --- operators: each gives steps to try, or None ---

    def filter(self):
        source = self.dataset()
        where = self.predicate(self.columns[source])
        return [{"name": self.name(), "op": "filter", "input": source, "where": where}]

    def project(self):
        source = self.dataset()
        columns = self.columns[source]
        step = {"name": self.name(), "op": "project", "input": source}
        if self.random.random() < 0.4:
            step["columns"] = self.some(columns, 1, 3)
        else:
            step["columns"] = {name: quoted(name) for name in self.some(columns, 1, 2)}
            step["columns"][self.new_column()] = self.expression(columns)
        if self.random.random() < 0.25:
            step["distinct"] = True
        return [step]

    def with_columns(self):
        source = self.dataset()
        columns = self.columns[source]
        name = self.random.choice(list(columns)) if self.random.random() < 0.3 else self.new_column()
        new = {name: self.expression(columns)}
        return [{"name": self.name(), "op": "with_columns", "input": source, "columns": new}]

    def aggregate(self):
        source = self.dataset()
        columns = self.columns[source]
        by: list | dict = self.some(columns, 0, 2)
        if self.random.random() < 0.2:
            by = {self.new_column(): self.expression(columns)}
        measures = self.measures(columns)
        step = {"name": self.name(), "op": "aggregate", "input": source, "by": by, "measures": measures}
        counts = [name for name, text in measures.items() if text.startswith("count")]
        if counts and self.random.random() < 0.4:
            step["having"] = f"{quoted(counts[0])} {self.random.choice(['= 1', '> 1', '<= 2'])}"
        return [step]

    def distinct(self):
        return [{"name": self.name(), "op": "distinct", "input": self.dataset(whole=True)}]

    def join(self):
        left, right = self.dataset(), self.dataset()
        how = self.random.choices(["inner", "left", "right", "full", "semi", "anti", "cross"], [5, 2, 1, 2, 4, 3, 1])[0]
        step = {"name": self.name(), "op": "join", "left": left, "right": right, "how": how}
        if how != "cross" and not self.add_condition(step):
            return None
        if how == "inner":
            del step["how"]
        steps = [step]
        shared = step.get("using", [])
        both = ((set(self.columns[left]) & set(self.columns[right])) - set(shared)) | self.hidden(left, right)
        if both and how not in ("semi", "anti"):
            rest = [c for c in [*shared, *self.columns[left], *self.columns[right]] if c not in both]
            rest = list(dict.fromkeys(rest))
            columns = self.some(rest, 1, 4) if rest else {self.new_column(): "1"}
            steps.append({"name": self.name(), "op": "project", "input": step["name"], "columns": columns})
        return steps

    def hidden(self, *names: str) -> set[str]:
        return {column for name in names for column in self.ambiguous.get(name, ())}

    def add_condition(self, step: dict) -> bool:
        left, right = self.columns[step["left"]], self.columns[step["right"]]
        twice = {*(set(left) & set(right)), *self.hidden(step["left"], step["right"])}
        shared = [c for c in left if c in right and family(left[c]) == family(right[c])]
        pairs = [(a, b) for a in left for b in right if family(left[a]) == family(right[b])]
        if shared and self.random.random() < 0.4:
            step["using"] = self.some(shared, 1, 2)
            return True
        if not pairs:
            return False

        def sides(pair):
            one, other = quoted(pair[0]), quoted(pair[1])
            bare = not twice & set(pair) and self.random.random() < 0.5
            return (one, other) if bare else (f"left.{one}", f"right.{other}")

        pair = self.random.choice(pairs)
        a, b = sides(pair)
        equality = f"{a} = {b}"
        if family(left[pair[0]]) == "integer" and self.random.random() < 0.2:
            equality = f"{a} + 1 = {b}"
        kind = self.random.choice(["equal", "equal", "null safe", "one side", "mixed", "or", "theta"])
        scalars = [p for p in pairs if family(left[p[0]]) in SCALARS]
        c, d = sides(self.random.choice(scalars or pairs))
        other = f"{c} {self.random.choice(['<', '<=', '<>'] if scalars else ['='])} {d}"
        qualified = {f"right.{quoted(name)}": kind for name, kind in right.items()}
        name, of = self.random.choice(list(qualified.items()))
        one_side = f"{name} IS NOT NULL"
        if family(of) in SCALARS:
            one_side = f"{name} {self.comparison()} {self.random.choice(LITERALS[family(of)])}"
        step["on"] = {
            "equal": equality,
            "null safe": f"{a} <=> {b}",
            "one side": f"{equality} AND {one_side}",
            "mixed": f"{equality} AND {other}",
            "or": f"{equality} OR {other}",
            "theta": other,
        }[kind]
        return True

    def set_inputs(self) -> tuple[list[dict], str, str] | None:
        """Two datasets with the same columns, by name and in any order; projections where it takes some."""
        left, right = self.dataset(whole=True), self.dataset(whole=True)
        if self.random.random() < 0.25:
            right = left
        one, other = self.columns[left], self.columns[right]
        kinds = {name: family(kind) for name, kind in one.items()}
        if kinds == {name: family(kind) for name, kind in other.items()} and self.random.random() < 0.6:
            return [], left, right
        chosen = self.some(one, 1, 2)
        mapped = {}
        for name in chosen:
            partners = [quoted(c) for c in other if family(other[c]) == kinds[name]]
            literals = LITERALS.get(kinds[name]) or NESTED_LITERALS[kinds[name]]
            mapped[name] = self.random.choice(partners or literals)
        self.random.shuffle(chosen)
        a, b = self.name(), self.name()
        steps = [
            {"name": a, "op": "project", "input": left, "columns": chosen},
            {"name": b, "op": "project", "input": right, "columns": mapped},
        ]
        return steps, a, b

    def union(self):
        steps, a, b = self.set_inputs()
        step = {"name": self.name(), "op": "union", "inputs": [a, b]}
        if self.random.random() < 0.3:
            step["inputs"].append(self.random.choice([a, b]))
        if self.random.random() < 0.5:
            step["distinct"] = True
        return [*steps, step]

    def intersect(self, op: str = "intersect"):
        steps, a, b = self.set_inputs()
        step = {"name": self.name(), "op": op, "left": a, "right": b}
        if self.random.random() < 0.5:
            step["distinct"] = False
        return [*steps, step]

    def difference(self):
        return self.intersect("difference")

    def window(self):
        """Several are tried: most measures need an order without ties, and few orders have none."""
        for _ in range(6):
            source = self.dataset()
            step = {"name": self.name(), "op": "window", "input": source}
            step |= random_window(self.random, self.columns[source], self.new_column)
            if self.is_determined([step]):
                return [step]
        return None

    def sort(self):
        source = self.dataset()
        orderable = self.orderable(self.columns[source])
        if not orderable:
            return None
        by = self.order(self.some(orderable, 1, 3))
        return [{"name": self.name(), "op": "sort", "input": source, "by": by}]

    def limit(self):
        source = self.dataset()
        by = self.order(self.orderable(self.columns[source]))
        n = self.random.choice([0, 1, 2, 2, 3, 5])
        if not by:
            return None
        if self.random.random() < 0.7:
            return [{"name": self.name(), "op": "limit", "input": source, "n": n, "by": by}]
        name = self.name()
        first = {"name": name, "op": "sort", "input": source, "by": by}
        return [first, {"name": self.name(), "op": "limit", "input": name, "n": n}]

    def explode(self):
        sources = [(name, c) for name in self.columns for c in self.of_family(self.columns[name], ARRAY)]
        if not sources:
            return None
        source, column = self.random.choice(sources)
        step = {"name": self.name(), "op": "explode", "input": source, "column": column}
        step["as"] = self.new_column()
        if self.random.random() < 0.5:
            step["outer"] = True
        return [step]


OPERATORS = {
    "filter": 3,
    "project": 2,
    "with_columns": 2,
    "aggregate": 5,
    "distinct": 2,
    "join": 7,
    "union": 3,
    "intersect": 2,
    "difference": 2,
    "window": 6,
    "sort": 1,
    "limit": 2,
    "explode": 3,
}


def types_after(step: dict, columns: dict[str, dict[str, str]], result: Evaluation) -> dict[str, str]:
    """The types of a step's columns that can be read."""
    inputs = [columns[name] for name in inputs_of(step)]
    known = {name: kind for source in reversed(inputs) for name, kind in source.items()}
    written = {}
    for part in ("columns", "by", "measures"):
        if isinstance(step.get(part), dict):
            written |= {name: type_of(text, known) for name, text in step[part].items()}
    if step["op"] == "explode":
        written[step["as"]] = "BIGINT"
    return {name: written.get(name) or known[name] for name in result.columns[step["name"]]}
