"""Random Spark SQL texts over small tables, for property tests.

`generate_sql(seed)` is a function of its seed alone. Every query is deterministic, in its rows and in its lineage: the
oracle judges each candidate, and what Spark could answer in more than one way is dropped, like what raises an error.
Queries of neighbouring seeds share their tables, so that a test can register these once for many queries.
"""

import itertools
from dataclasses import dataclass, field, replace
from random import Random

from sqlglot.errors import ParseError

from tests.oracle.reference_expressions import Ambiguous
from tests.oracle.sql_reference import MoreThanOneRow, SqlAnswer, SqlTable, Unsupported, evaluate_sql
from tests.random_plans.generate_sql_expressions import integer_forms, text_forms
from tests.random_plans.generate_sql_groups import grouped_select
from tests.random_plans.generate_sql_parts import (
    AGGREGATES,
    LITERALS,
    Columns,
    Field,
    Select,
    random_table,
    window_text,
)
from tests.random_plans.generate_sql_relations import (
    joined_relation,
    pivoted_relation,
    star_items,
    struct_relation,
    values_relation,
)
from tests.random_plans.spell_sql import respell

SEEDS_PER_TABLES = 25
NAMES = ("id", "k", "v", "s", "x", "d", "w", "arr", "m", "st", "f", "c0", "c1", "c2")  # that may be spelled otherwise
MAX_ROWS = 60
MAX_DEPTH = 3
CORRELATED = ("int", "int", "int", "str", "date", "dbl")  # types of columns that subqueries compare with the outer row
MAX_LENGTH = 800  # Spark takes long to plan long queries
MOST_SCOPES = 3000  # of the oracle: keeps queries out that would take seconds


def generate_sql(seed: int, two_levels: bool = False) -> tuple[str, dict[str, SqlTable]]:
    """A query and its tables. `two_levels`: a subquery may also read the row two queries up, which Spark refuses."""
    text, tables, _ = generate_answered_sql(seed, two_levels)
    return text, tables


def generate_answered_sql(seed: int, two_levels: bool = False) -> tuple[str, dict[str, SqlTable], SqlAnswer]:
    """The query with the answer of the oracle, by which it was judged."""
    tables = tables_of(seed)
    random, spelling = Random(f"sql {seed}"), Random(f"spelling {seed}")
    while True:
        text = SqlGenerator(random, tables, two_levels).top()
        if spelling.random() < 0.3:
            text = respell(text, NAMES, spelling)
        if len(text) > MAX_LENGTH:
            continue
        try:
            answer = evaluate_sql(text, tables, MOST_SCOPES)
        except (Unsupported, Ambiguous, MoreThanOneRow, ParseError):
            continue
        is_telling = bool(answer.rows) or random.random() < 0.15
        if answer.deterministic and len(answer.rows) <= MAX_ROWS and is_telling:
            return text, tables, answer


def tables_of(seed: int) -> dict[str, SqlTable]:
    """The tables of a seed: the same for all seeds of one batch."""
    random = Random(f"tables {seed // SEEDS_PER_TABLES}")
    tables = {name: random_table(random, name) for name in ("ta", "tb", "tc")}
    empty = random_table(random, "td")
    return tables | {"td": replace(empty, rows=[]) if random.random() < 0.5 else empty}


@dataclass
class SqlGenerator:
    random: Random
    tables: dict[str, SqlTable]
    two_levels: bool = False
    names: itertools.count = field(default_factory=itertools.count)
    ctes: dict[str, list[Field]] = field(default_factory=dict)

    # --- chances ---

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices):
        return self.random.choice(choices)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.names)}"

    # --- whole queries ---

    def top(self) -> str:
        text = self.with_clause() if self.chance(0.3) else ""
        select = self.query(0, ())
        text += select.text
        return text + self.order_clause(select.fields) if self.chance(0.4) else text

    def with_clause(self) -> str:
        """One or two CTEs. One may hide a source, and the next one may read it."""
        entries = []
        for name in self.random.sample(["ta", "tb", "cx", "cy"], self.pick(1, 1, 2)):
            select = self.query(1, ())
            names = ""
            if self.chance(0.2):
                names = "(" + ", ".join(f"q{i}" for i in range(len(select.fields))) + ")"
                select = Select(select.text, [replace(f, name=f"q{i}") for i, f in enumerate(select.fields)])
            entries.append(f"{name}{names} AS ({select.text})")
            self.ctes = {**self.ctes, name: select.fields}
        return "WITH " + ", ".join(entries) + " "

    def order_clause(self, fields: list[Field]) -> str:
        """An order over all columns, so that ties are equal rows, perhaps cut."""
        keys = [self.pick(str(i + 1), each.name) for i, each in enumerate(fields)]
        self.random.shuffle(keys)
        numbers = [each.name for each in fields if each.kind == "int"]
        if numbers and self.chance(0.2):
            keys = [f"coalesce({self.pick(*numbers)}, 1) % 2", *keys]
        text = " ORDER BY " + ", ".join(f"{key}{self.pick('', ' DESC', ' NULLS LAST')}" for key in keys)
        if self.chance(0.5):
            text += f" LIMIT {self.pick(1, 2, 3, 5)}"
            text += self.pick("", "", f" OFFSET {self.pick(1, 2)}")
        return text

    def query(self, depth: int, outer: tuple[Columns, ...], types: list[str] | None = None) -> Select:
        """A SELECT or a set operation, with columns of these types where they are given."""
        if depth < MAX_DEPTH and self.chance(0.2 if types is None else 0.1):
            left = self.select(depth + 1, outer, types)
            kinds = [each.kind for each in left.fields]
            operators = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
            text = left.text
            for _ in range(self.pick(1, 1, 2)):
                right = self.select(depth + 1, outer, kinds)
                nested = f"({right.text})" if self.chance(0.3) else right.text
                text = f"{text} {self.pick(*operators)} {nested}"
            return Select(text, left.fields)
        return self.select(depth, outer, types)

    def select(self, depth: int, outer: tuple[Columns, ...], types: list[str] | None = None) -> Select:
        source, columns = self.source(depth, outer)
        where = self.where(columns, outer, depth)
        if self.chance(0.3):
            return grouped_select(self, source + where, columns, outer, depth, types)
        kinds = types or [self.pick("int", "int", "str", "dbl", "date", "bool") for _ in range(self.pick(1, 2, 3))]
        items = [self.item(kind, columns, outer, depth) for kind in kinds]
        qualify = ""
        if not types and depth < 2 and self.chance(0.25):
            windows = [window_text(self, columns) for _ in range(self.pick(1, 1, 2))]
            items += windows
            kinds = [*kinds, *(["int"] * len(windows))]
            if self.chance(0.3):
                alias = f"c{len(kinds) - 1}"
                function = alias if alias not in names_of(columns) else windows[-1]
                qualify = f" QUALIFY {self.pick(function, windows[0])} {self.pick('>', '<=', '=')} {self.pick(1, 2, 3)}"
        elif kinds[0] == "int" and not types and "c0" not in names_of(columns) and self.chance(0.1):
            items.append("c0 + 1")  # a lateral column alias
            kinds = [*kinds, "int"]
        fields = [Field(None, f"c{i}", kind) for i, kind in enumerate(kinds)]
        listed = ", ".join(f"{item} AS {each.name}" for item, each in zip(items, fields, strict=True))
        star = star_items(self, columns) if not types and not qualify and self.chance(0.15) else None
        if star is not None:
            return Select(f"SELECT {star[0]} FROM {source}{where}", star[1])
        bare = [item.rpartition(".")[2] for item in items]
        plain = all(any(each.text == item and "." not in each.name for each in columns.fields) for item in items)
        if plain and len(set(bare)) == len(bare) and self.chance(0.3):  # columns that keep their names
            fields = [replace(each, name=name) for each, name in zip(fields, bare, strict=True)]
            listed = ", ".join(items)
        distinct = "DISTINCT " if not qualify and self.chance(0.15) else ""
        aliases = [each.qualifier for each in columns.fields if each.qualifier]
        if aliases and self.chance(0.05):
            distinct = f"/*+ {self.pick('BROADCAST', 'MERGE', 'SHUFFLE_HASH')}({self.pick(*aliases)}) */ {distinct}"
        return Select(f"SELECT {distinct}{listed} FROM {source}{where}{qualify}", fields)

    # --- FROM ---

    def relation(self, depth: int, outer: tuple[Columns, ...], taken: set[str]) -> tuple[str, list[Field]]:
        alias = self.fresh("r")
        choice = self.random.random()
        if choice < 0.15 and depth < MAX_DEPTH:
            select = self.derived_table(depth)
            return f"({select.text}) AS {alias}", [replace(each, qualifier=alias) for each in select.fields]
        if choice < 0.2:
            return values_relation(self, alias)
        if choice < 0.23:
            return struct_relation(self, alias)
        if choice < 0.25:
            return pivoted_relation(self, alias)
        if choice < 0.28 and depth < MAX_DEPTH:
            return joined_relation(self, depth, outer, taken)
        name = self.pick(*self.tables, *self.ctes, *self.ctes)
        fields = self.ctes.get(name) or [Field(None, n, KINDS[kind]) for n, kind in self.tables[name].schema.items()]
        if self.chance(0.2):
            alias = name if not self.chance(0.2) else self.pick("tc", "cx")  # an alias may hide a source or a CTE
            if alias in outer_qualifiers(outer) or alias in taken:
                alias = self.fresh("r")
        taken.add(alias)
        return f"{name}{self.pick(' AS', ' AS', '')} {alias}", [replace(each, qualifier=alias) for each in fields]

    def derived_table(self, depth: int) -> Select:
        """A query in FROM, sometimes with CTEs of its own, or with the first rows of an order only."""
        around = self.ctes
        text = self.with_clause() if depth < 2 and self.chance(0.1) else ""
        select = self.query(depth + 1, ())
        self.ctes = around
        order = self.order_clause(select.fields) if self.chance(0.1) else ""
        return Select(text + select.text + order, select.fields)

    def source(self, depth: int, outer: tuple[Columns, ...]) -> tuple[str, Columns]:
        taken: set[str] = set()  # aliases of this FROM
        text, fields = self.relation(depth, outer, taken)
        count = self.pick(1, 1, 1, 2, 2, 3) if depth < 2 else self.pick(1, 1, 2)
        columns = Columns(fields)
        for _ in range(1, count):
            right, more = self.relation(depth, outer, taken)
            both = Columns(columns.fields + more)
            numbers = {each.name for each in more if each.kind == "int" and "." not in each.name}
            shared = [each.name for each in columns.fields if each.name in numbers and each.kind == "int"]
            style = self.random.random()
            if count == 2 and shared and style < 0.2:
                key = self.pick(*shared)
                how = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
                rest = [f for f in both.fields if f.name != key]
                return f"{text} {how} {right} USING ({key})", Columns([Field(None, key, "int"), *rest])
            if count == 2 and style < 0.25 and names_of(columns) & names_of(more):
                common = names_of(columns) & names_of(more)
                keys = [replace(f, qualifier=None) for f in columns.fields if f.name in common]
                same = all(kind_in(more, f.name) == f.kind and f.kind != "arr" and "." not in f.name for f in keys)
                if same:
                    rest = [f for f in both.fields if f.name not in common]
                    return f"{text} NATURAL {self.pick('', 'LEFT ')}JOIN {right}", Columns([*keys, *rest])
            if style < 0.35:
                how = self.pick("LEFT SEMI JOIN", "LEFT ANTI JOIN")
                text = f"{text} {how} {right} ON {self.join_condition(columns, Columns(more))}"
                continue
            if style < 0.45:
                text = f"{text}{self.pick(', ', ' CROSS JOIN ')}{right}"
            else:
                how = self.pick("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN")
                condition = self.join_condition(columns, Columns(more))
                if how == "JOIN" and depth < 2 and self.chance(0.1):
                    condition += f" AND {self.subquery_predicate(both, (), depth, plain=True)}"
                text = f"{text} {how} {right} ON {condition}"
            columns = both
        return self.lateral(text, columns, depth)

    def lateral(self, text: str, columns: Columns, depth: int) -> tuple[str, Columns]:
        arrays = columns.of("arr")
        if arrays and self.chance(0.15):
            view, name = self.fresh("v"), self.fresh("e")
            text = f"{text} LATERAL VIEW {self.pick('', 'OUTER ')}"
            array = self.pick(*arrays).text
            if self.chance(0.3):
                place = self.fresh("p")
                more = [Field(view, place, "int"), Field(view, name, "int")]
                return f"{text}posexplode({array}) {view} AS {place}, {name}", Columns([*columns.fields, *more])
            return f"{text}explode({array}) {view} AS {name}", Columns([*columns.fields, Field(view, name, "int")])
        if depth < 2 and self.chance(0.06):
            alias = self.fresh("l")
            kind = self.pick("int", "str")
            inner = self.scalar_query(kind, (columns,), depth + 1)
            how = self.pick(", LATERAL", " LEFT JOIN LATERAL")
            on = " ON true" if "JOIN" in how else ""
            text = f"{text}{how} ({inner}) AS {alias}(m){on}"
            return text, Columns([*columns.fields, Field(alias, "m", kind)])
        return text, columns

    def join_condition(self, left: Columns, right: Columns) -> str:
        kind = self.pick(*[k for k in ("int", "int", "str", "dbl", "date") if left.of(k) and right.of(k)] or [None])
        if kind is None:
            return "true"
        condition = f"{self.pick(*left.of(kind)).text} {self.pick('=', '=', '=', '<=>', '<')} "
        condition += self.pick(*right.of(kind)).text
        if self.chance(0.2):
            condition += f" AND {self.simple_predicate(right if self.chance(0.5) else left)}"
        return condition

    # --- predicates ---

    def where(self, columns: Columns, outer: tuple[Columns, ...], depth: int) -> str:
        parts = []
        if outer and self.chance(0.75):
            parts.append(self.correlation(columns, outer))
        if self.chance(0.45):
            parts.append(self.predicate(columns, outer, depth))
        return " WHERE " + " AND ".join(parts) if parts else ""

    def correlation(self, columns: Columns, outer: tuple[Columns, ...], kinds: tuple[str, ...] = CORRELATED) -> str:
        around = outer[-1] if len(outer) == 1 or not self.two_levels or self.chance(0.7) else self.pick(*outer[:-1])
        around = Columns(
            [each for each in around.fields if each.qualifier]
        )  # a bare name may mean another column inside
        possible = [k for k in kinds if columns.of(k) and around.of(k)]
        if not possible:
            return "true"
        kind = self.pick(*possible)
        operator = self.pick("=", "=", "=", "=", "<=>", "<", ">=", "<>")
        return f"{self.pick(*columns.of(kind)).text} {operator} {self.pick(*around.of(kind)).text}"

    def predicate(self, columns: Columns, outer: tuple[Columns, ...], depth: int) -> str:
        choice = self.random.random()
        inner = lambda: self.predicate(columns, outer, depth + 1)  # noqa: E731
        if depth < MAX_DEPTH and choice < 0.45:
            return self.subquery_predicate(columns, outer, depth)
        if depth < MAX_DEPTH and choice < 0.6:
            return f"({inner()} OR {inner()})"
        if depth < MAX_DEPTH and choice < 0.65:
            return f"NOT ({inner()} {self.pick('AND', 'OR')} {inner()})"
        if depth < MAX_DEPTH and choice < 0.7:
            return f"CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END"
        return self.simple_predicate(columns)

    def simple_predicate(self, columns: Columns) -> str:
        kinds = [k for k in ("int", "int", "str", "dbl", "date", "bool") if columns.of(k)]
        if not kinds:
            return "true"
        kind = self.pick(*kinds)
        column = self.pick(*columns.of(kind)).text
        if kind == "bool" and self.chance(0.5):
            return column
        literal = lambda: self.pick(*LITERALS[kind])  # noqa: E731
        forms = [
            f"{column} {self.pick('=', '<', '>=', '<>')} {literal()}",
            f"{column} = {self.pick(*columns.of(kind)).text}",
            f"{column} IS {self.pick('', 'NOT ')}NULL",
            f"{column} {self.pick('', 'NOT ')}IN ({literal()}, {literal()})",
            f"{column} BETWEEN {literal()} AND {literal()}",
        ]
        return self.pick(*forms)

    def subquery_predicate(self, columns: Columns, outer, depth: int, plain: bool = False) -> str:
        """A predicate with a subquery; `plain`: one that does not read the row."""
        inside = () if plain else (*outer, columns)
        choice = self.random.random()
        if choice < 0.4:
            negated = self.pick("", "NOT ")
            return f"{negated}EXISTS ({self.query(depth + 1, inside).text})"
        kinds = [k for k in ("int", "int", "str", "date") if columns.of(k)]
        if not kinds:
            return "true"
        kind = self.pick(*kinds)
        column = self.pick(*columns.of(kind)).text
        if choice < 0.75:
            negated = self.pick("", "NOT ")
            if self.chance(0.15):
                both = f"({column}, {self.pick(*columns.of(kind)).text})"
                return f"{both} {negated}IN ({self.query(depth + 1, inside, [kind, kind]).text})"
            return f"{column} {negated}IN ({self.query(depth + 1, inside, [kind]).text})"
        return f"{column} {self.pick('=', '<', '>=', '<>')} ({self.scalar_query(kind, inside, depth + 1)})"

    # --- expressions ---

    def item(self, kind: str, columns: Columns, outer: tuple[Columns, ...], depth: int) -> str:
        """An entry of the SELECT list."""
        if kind == "bool":
            return f"({self.predicate(columns, outer, depth + 1)})"
        if depth < 2 and self.chance(0.15):
            return f"({self.scalar_query(kind, (*outer, columns), depth + 1)})"
        return self.expression(kind, columns)

    def expression(self, kind: str, columns: Columns) -> str:
        found = columns.of(kind)
        if not found:
            return self.pick(*LITERALS[kind])
        chosen = self.pick(*found)
        is_only_one = [each.name for each in columns.fields].count(chosen.name) == 1
        column = chosen.name if is_only_one and self.chance(0.2) else chosen.text
        if self.chance(0.7):
            return column
        forms = [
            f"coalesce({column}, {self.pick(*LITERALS[kind])})",
            f"CASE WHEN {self.simple_predicate(columns)} THEN {column} ELSE {self.pick(*found).text} END",
            self.pick(*self.forms_of(kind, column, columns)),
        ]
        return self.pick(*forms)

    def forms_of(self, kind: str, column: str, columns: Columns) -> list[str]:
        if kind == "int":
            return integer_forms(self, column, columns)
        if kind == "str":
            return text_forms(self, column)
        return [{"dbl": f"{column} * 2", "date": f"CAST({column} AS DATE)", "bool": f"NOT {column}"}[kind]]

    def scalar_query(self, kind: str, outer: tuple[Columns, ...], depth: int) -> str:
        """A subquery of one column and at most one row."""
        source, columns = self.source(depth, outer)
        where = self.where(columns, outer, depth)
        unique = [f for f in columns.of("int") if f.name == "id"]
        around = [each for each in outer[-1].of("int") if each.qualifier] if outer else []
        if unique and around and self.chance(0.2):
            where = f" WHERE {unique[0].text} = {self.pick(*around).text}"
            return f"SELECT {self.expression(kind, columns)} FROM {source}{where}"
        if self.chance(0.1):
            # Spark gives wrong rows for LIMIT beneath an equality of INT and BIGINT with the outer row: it cuts once for
            # all outer rows. So no numbers here.
            parts = [self.correlation(columns, outer, ("str", "date", "dbl"))] if outer else []
            parts += [self.predicate(columns, outer, depth)] if not outer or self.chance(0.3) else []
            where = " WHERE " + " AND ".join(parts)
            expression = self.expression(kind, columns)
            return f"SELECT {expression} AS o FROM {source}{where} ORDER BY o {self.pick('', 'DESC')} LIMIT 1"
        return f"SELECT {self.aggregate(kind, columns)} FROM {source}{where}"

    def aggregate(self, kind: str, columns: Columns) -> str:
        functions = AGGREGATES[kind]
        if kind == "int" and (self.chance(0.25) or not columns.of("int")):
            anything = [f for f in columns.fields if f.kind != "arr"]
            counted = self.pick(*anything).text if anything else "1"
            other = self.pick(*anything).text if anything else "2"
            forms = [
                "count(*)",
                f"count({counted})",
                f"count(DISTINCT {counted})",
                f"count(DISTINCT {counted}, {other})",
            ]
            text = self.pick(*forms)
        else:
            text = f"{self.pick(*functions)}({self.expression(kind, columns)})"
            if self.chance(0.15):
                text = text.replace("(", "(DISTINCT ", 1)
        if self.chance(0.15):
            text += f" FILTER (WHERE {self.simple_predicate(columns)})"
        return text


KINDS = {"INT": "int", "BIGINT": "int", "STRING": "str", "DOUBLE": "dbl", "DATE": "date", "ARRAY<INT>": "arr"}


def outer_qualifiers(outer: tuple[Columns, ...]) -> set[str]:
    return {each.qualifier for columns in outer for each in columns.fields if each.qualifier}


def names_of(columns) -> set[str]:
    return {each.name for each in (columns.fields if isinstance(columns, Columns) else columns)}


def kind_in(fields: list[Field], name: str) -> str:
    return next(each.kind for each in fields if each.name == name)
