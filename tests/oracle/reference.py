"""The oracle: the relational operators in plain Python, with lineage, from section 4 of the contract alone.

Nested loops and sets, no cleverness: what is written here should be obviously right. Every row carries the
source rows that contributed to it; an operator only says which input rows an output row comes from.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tests.oracle.reference_expressions import Ambiguous, Context, JoinScope, Scope, evaluate_expression
from tests.oracle.reference_polynomials import ONE, Polynomial, plus, times, variable
from tests.oracle.reference_values import (
    Map,
    Ordering,
    Unsupported,
    canonical,
    compare_in_order,
    equal,
    normalised,
    sort_key,
)
from tests.oracle.reference_windows import Partition, Place, depends_on_ties, frame_of, needs_order, rows_read

__all__ = ["Ambiguous", "Evaluation", "Map", "RefRow", "Unsupported", "alike", "canonical", "evaluate"]

Ids = dict[str, frozenset[int]]


@dataclass
class RefRow:
    values: dict[str, object]  # column -> value, in column order; names both sides of a join carry are left out
    lineage: Ids = field(default_factory=dict)  # source -> contributing rids, own and peer together
    own: Ids = field(default_factory=dict)  # of these, reached by a path on which no window only read them
    absence: frozenset[str] = frozenset()  # sources whose rows influence this one by not matching
    steps: Ids = field(default_factory=dict)  # step -> positions of its rows on the way
    how: Polynomial = field(default_factory=lambda: ONE)  # products of what was joined, sums of what was grouped
    rank: int | None = field(default=None, repr=False, compare=False)  # place in the order, if any; ties share it
    before: "RefRow | None" = field(default=None, repr=False, compare=False)  # the row before windows of one SELECT

    @property
    def peers(self) -> Ids:
        """The rids of the lineage that are not own."""
        rest = {name: rids - self.own.get(name, frozenset()) for name, rids in self.lineage.items()}
        return {name: rids for name, rids in rest.items() if rids}


@dataclass
class Relation:
    columns: list[str]
    rows: list[RefRow]
    ambiguous: frozenset[str] = frozenset()  # lower-case names that both sides of a join below carry
    ordered: bool = False

    def scope(self, row: RefRow) -> Scope:
        return Scope(row.values, self.ambiguous)

    def value(self, row: RefRow, expression: str):
        return evaluate_expression(expression, Context(self.scope(row)))

    def whole(self) -> "Relation":
        """This relation, where all its columns are read."""
        if self.ambiguous:
            raise Ambiguous(", ".join(sorted(self.ambiguous)))
        return self


class Evaluation(dict[str, list[RefRow]]):
    """The rows of every step, and what a test has to know about them."""

    def __init__(self):
        super().__init__()
        self.columns: dict[str, list[str]] = {}
        self.ambiguous: dict[str, frozenset[str]] = {}  # not empty: this step can be no output
        self.ordered: set[str] = set()  # steps whose rows have an order
        self.nondeterministic: set[str] = set()  # steps whose rows Spark may choose otherwise, and those above
        self.absence: dict[str, frozenset[str]] = {}  # per step, rows or no rows: sources influencing by absence


def alike(a: RefRow, b: RefRow) -> bool:
    """Nobody can tell these rows apart."""
    same_values = canonical(list(a.values.values())) == canonical(list(b.values.values()))
    return same_values and (a.lineage, a.own, a.absence, a.how) == (b.lineage, b.own, b.absence, b.how)


def inputs_of(step: dict) -> list[str]:
    names = [step[key] for key in ("input", "left", "right") if key in step]
    return names + list(step.get("inputs", []))


def evaluate(
    tables: dict,
    schemas: dict,
    steps: list[dict],
    gone: frozenset[tuple[str, int]] = frozenset(),
    arranged: Callable[[list[RefRow]], list[RefRow]] = list,
) -> Evaluation:
    """The rows of every step. `tables`: name -> rows as dicts, a row's position is its rid; `schemas`:
    name -> {column: type}; `steps` as in the workflow file, in any order. `gone`: rows that are left out; all others
    keep their rids. `arranged`: the order in which a window finds its rows, which decides among ties."""
    relations: dict[str, Relation] = {}
    below: dict[str, frozenset[str]] = {}  # every source below a dataset
    result = Evaluation()
    for name, rows in tables.items():
        columns = list(schemas[name])
        there = [(rid, row) for rid, row in enumerate(rows) if (name, rid) not in gone]
        relations[name] = Relation(columns, [source_row(name, rid, row, columns) for rid, row in there])
        below[name] = frozenset([name])
    todo = list(steps)
    while todo:
        step = next(s for s in todo if all(name in relations for name in inputs_of(s)))
        todo.remove(step)
        name, names = step["name"], inputs_of(step)
        inputs = {key: as_input(key, relations[key], key in tables) for key in names}
        if step["op"] == "window":
            inputs = {key: replace(each, rows=arranged(each.rows)) for key, each in inputs.items()}
        absent = below[step["right"]] if is_absence(step) or step.get("absence") else frozenset()
        relation, chosen = OPERATORS[step["op"]](step | {"absent": absent}, *(inputs[key] for key in names))
        of_all = absent if is_absence(step) else frozenset()
        relation.rows = [replace(row, absence=row.absence | of_all) for row in relation.rows]
        relations[name] = relation
        below[name] = frozenset().union(*(below[key] for key in names if step["op"] != "outer_values"))
        result[name] = relation.rows
        result.columns[name] = relation.columns
        result.ambiguous[name] = relation.ambiguous
        contributing = [step["left"]] if is_absence(step) else names
        result.absence[name] = absent.union(*(result.absence.get(key, frozenset()) for key in contributing))
        if relation.ordered:
            result.ordered.add(name)
        if chosen or result.nondeterministic & set(names):
            result.nondeterministic.add(name)
    return result


def is_absence(step: dict) -> bool:
    return step["op"] == "difference" or (step["op"] == "join" and step.get("how") == "anti")


def source_row(name: str, rid: int, row: dict, columns: list[str]) -> RefRow:
    itself = {name: frozenset([rid])}
    return RefRow({column: row.get(column) for column in columns}, itself, itself, how=variable(name, rid))


def as_input(name: str, relation: Relation, is_source: bool) -> Relation:
    """The relation as the next step reads it: each row knows its place in this step."""
    if is_source:
        return relation
    rows = [replace(row, steps=union_of([row.steps, {name: frozenset([i])}])) for i, row in enumerate(relation.rows)]
    return replace(relation, rows=rows)


def union_of(parts: Iterable[Ids]) -> Ids:
    result: Ids = {}
    for part in parts:
        for name, ids in part.items():
            result[name] = result.get(name, frozenset()) | ids
    return result


def derived(values: dict, rows: list[RefRow], how: Polynomial, rank: int | None = None) -> RefRow:
    """A row to which all of `rows` contributed, and in what way."""
    return RefRow(
        values,
        union_of(row.lineage for row in rows),
        union_of(row.own for row in rows),
        frozenset().union(*(row.absence for row in rows)),
        union_of(row.steps for row in rows),
        how,
        rank,
    )


def any_of(rows: list[RefRow]) -> Polynomial:
    """Each of the rows is a way."""
    return plus(row.how for row in rows)


# --- one row in, rows out -----------------------------------------------------------------------------


def filter_(step, source):
    rows = [row for row in source.rows if source.value(row, step["where"]) is True]
    return replace(source, rows=rows), False


def project(step, source):
    columns = named_expressions(step["columns"])
    rows = [
        derived({name: computed(source, row, what) for name, what in columns.items()}, [row], row.how, row.rank)
        for row in source.rows
    ]
    relation = Relation(list(columns), rows, ordered=source.ordered)
    return distinct(step, relation) if step.get("distinct") else (relation, False)


def named_expressions(columns) -> dict[str, tuple[str, str]]:
    """A list holds column names, a mapping expressions."""
    if isinstance(columns, dict):
        return {name: ("expression", text) for name, text in columns.items()}
    return {name: ("column", name) for name in columns}


def computed(source: Relation, row: RefRow, what: tuple[str, str]):
    kind, text = what
    return source.scope(row).get(text) if kind == "column" else source.value(row, text)


def with_columns(step, source):
    new = step["columns"]
    replaced = {name.lower(): name for name in new}
    if set(replaced) & source.ambiguous:
        raise Ambiguous(", ".join(replaced))
    columns = [replaced.get(name.lower(), name) for name in source.columns]
    columns += [name for name in new if name not in columns]
    rows = []
    for row in source.rows:
        values = {name: source.value(row, text) for name, text in new.items()}
        values = {name: values[name] if name in values else row.values[name] for name in columns}
        rows.append(derived(values, [row], row.how, row.rank))
    return replace(source, columns=columns, rows=rows), False


def explode(step, source):
    column, name, outer = step["column"], step.get("as", step["column"]), step.get("outer", False)
    columns = list(source.columns)
    if name.lower() not in [c.lower() for c in columns]:
        columns.append(name)
    elif name.lower() != column.lower():
        raise Unsupported(f"explode as {name}: there is such a column")
    rows = []
    for row in source.rows:
        elements = source.scope(row).get(column)
        if isinstance(elements, Map):
            raise Unsupported("explode of a map")
        for element in elements or ([None] if outer else []):
            rows.append(derived({**row.values, name: element}, [row], row.how, row.rank))
    return replace(source, columns=columns, rows=rows), False


def sort(step, source):
    orderings, keys = order_of(step["by"], source)
    places = sorted(range(len(keys)), key=lambda i: sort_key(orderings)(keys[i]))
    rows: list[RefRow] = []
    for place, i in enumerate(places):
        tied = place > 0 and compare_in_order(orderings, keys[places[place - 1]], keys[i]) == 0
        rows.append(replace(source.rows[i], rank=rows[-1].rank if tied else place))
    return replace(source, rows=rows, ordered=True), False


def order_of(by, source: Relation) -> tuple[list[Ordering], list[list]]:
    orderings = [Ordering.parse(text) for text in ([by] if isinstance(by, str) else by)]
    return orderings, [[source.value(row, o.expression) for o in orderings] for row in source.rows]


def limit(step, source):
    """The first n; open to choice where the cut goes through ties that can be told apart."""
    if step.get("per"):  # only in plans of SQL: a limit of a correlated subquery
        alone = {key: each for key, each in step.items() if key != "per"}
        groups = grouped(source.rows, lambda row: [row.values[name] for name in step["per"]])
        parts = [limit(alone, replace(source, rows=members)) for _, members in groups]
        return replace(source, rows=[row for part, _ in parts for row in part.rows]), any(cut for _, cut in parts)
    if step.get("by"):
        source, _ = sort(step, source)
    offset, rows = step.get("offset", 0), source.rows
    end = len(rows) if step["n"] is None else offset + step["n"]
    chosen = False
    for cut in (offset, end):
        if 0 < cut < len(rows) and step["n"] != 0:
            last = rows[cut - 1].rank if source.ordered else None
            ties = [row for row in rows if not source.ordered or row.rank == last]
            is_cut = not source.ordered or rows[cut].rank == last
            chosen = chosen or (is_cut and not all(alike(ties[0], row) for row in ties))
    return replace(source, rows=rows[offset:end]), chosen


# --- groups -------------------------------------------------------------------------------------------


def grouped(rows: list[RefRow], key_of) -> list[tuple[list, list[RefRow]]]:
    """Rows with equal keys together, in the order of their first rows; the key as Spark shows it."""
    groups: dict = {}
    for row in rows:
        key = key_of(row)
        groups.setdefault(canonical(key), (normalised(key), []))[1].append(row)
    return list(groups.values())


def aggregate(step, source):
    keys = named_expressions(step.get("by", []))
    measures = step.get("measures", {})
    groups = grouped(source.rows, lambda row: [computed(source, row, what) for what in keys.values()])
    if not keys and not groups:
        groups = [([], [])]
    columns = [*keys, *measures]
    rows = []
    for key, members in groups:
        scopes = [source.scope(row) for row in members]
        context = Context(scopes[0] if scopes else None, scopes)
        values = dict(zip(keys, key, strict=True))
        values |= {name: evaluate_expression(text, context) for name, text in measures.items()}
        # Without keys there is one row also over nothing: no row is needed for it, which is the empty product.
        rows.append(derived(values, members, any_of(members) if members else ONE))
    relation = Relation(columns, rows)
    if step.get("having"):
        relation, _ = filter_({"where": step["having"]}, relation)
    return relation, False


def in_columns(columns: list[str]):
    return lambda row: [row.values[name] for name in columns]


def outer_values(step, source):
    """Only in plans of SQL: what a correlated subquery reads of the query around it. Nothing contributes to it."""
    relation, _ = distinct(step, source)
    return Relation(relation.columns, [RefRow(row.values) for row in relation.rows]), False


def distinct(step, source):
    groups = grouped(source.whole().rows, in_columns(source.columns))
    rows = [derived(dict(zip(source.columns, key, strict=True)), members, any_of(members)) for key, members in groups]
    return Relation(source.columns, rows), False


def window(step, source):
    """Each row has itself as own, and as peers the rows that a measure read for it. `beside`: the step below is a
    window of the same SELECT, and what that one read is none of what this one reads."""
    orderings = [Ordering.parse(text) for text in step.get("order_by", [])]
    measures = step["measures"]
    columns = source.columns + list(measures)
    if len({name.lower() for name in columns}) < len(columns) or source.ambiguous & set(measures):
        raise Unsupported("a window measure named like a column")
    if not orderings and any(needs_order(text) for text in measures.values()):
        raise Unsupported("a window function without an order")
    frame = frame_of(step.get("frame"), orderings)
    names = step.get("partition_by", [])
    partitions = grouped(source.rows, lambda row: [source.scope(row).get(name) for name in names])
    rows, chosen = [], False
    for _, members in partitions:
        keyed = [([source.value(row, o.expression) for o in orderings], row) for row in members]
        keyed.sort(key=lambda pair: sort_key(orderings)(pair[0]))
        ordered = [row for _, row in keyed]
        partition = Partition([source.scope(row) for row in ordered], [key for key, _ in keyed], orderings)
        for i, row in enumerate(ordered):
            place = Place(partition, i, frame.rows_of(partition, i))
            values = {name: evaluate_expression(text, place.context()) for name, text in measures.items()}
            read = frozenset().union(*(rows_read(text, place) for text in measures.values()))
            peers = [(ordered[j].before if step.get("beside") else None) or ordered[j] for j in read]
            behind = derived({**row.values, **values}, [row, *peers], row.how)
            # The row is there because it was there before: its peers only lend it values.
            rows.append(replace(behind, own=row.own, before=row.before if step.get("beside") else row))
            ties = [ordered[j] for j in partition.ties(i)]
            chosen = chosen or not all(alike(row, tie) for tie in ties)
    chosen = chosen and any(depends_on_ties(text, frame) for text in measures.values())
    return Relation(columns, rows, source.ambiguous), chosen


# --- joins --------------------------------------------------------------------------------------------


def join(step, left, right):
    how, using = step.get("how", "inner"), step.get("using", [])

    def is_match(a: RefRow, b: RefRow) -> bool:
        if how == "cross":
            return True
        one, other = left.scope(a), right.scope(b)
        if using:
            return all(equal(one.get(name), other.get(name)) for name in using)
        return evaluate_expression(step["on"], Context(JoinScope(one, other))) is True

    matches = [[j for j, b in enumerate(right.rows) if is_match(a, b)] for a in left.rows]
    if how in ("semi", "anti"):
        columns = using_first(left.columns, using)
        kept = [(a, m) for a, m in zip(left.rows, matches, strict=True) if bool(m) == (how == "semi")]
        rows = []
        for a, m in kept:
            matching = [right.rows[j] for j in m]
            how_made = times(a.how, any_of(matching)) if how == "semi" else a.how
            rows.append(derived(in_order(a, columns), [a, *matching], how_made))
        return Relation(columns, rows, left.ambiguous), False

    shared = {name.lower() for name in using}
    lefts = [name for name in left.columns if name.lower() not in shared]
    rights = [name for name in right.columns if name.lower() not in shared]
    both = {name.lower() for name in lefts} & {name.lower() for name in rights}
    ambiguous = left.ambiguous | right.ambiguous | both
    keys = using_first(left.columns, using)[: len(using)]

    def row_of(a: RefRow | None, b: RefRow | None) -> RefRow:
        values = {}
        for name in keys:
            of_left = left.scope(a).get(name) if a else None
            of_right = right.scope(b).get(name) if b else None
            swapped = how == "right" or (how == "full" and of_left is None)
            values[name] = of_right if swapped else of_left
        values |= {name: a.values[name] if a else None for name in lefts if name.lower() not in ambiguous}
        values |= {name: b.values[name] if b else None for name in rights if name.lower() not in ambiguous}
        return derived(values, [row for row in (a, b) if row], times(a.how if a else ONE, b.how if b else ONE))

    rows = [row_of(a, right.rows[j]) for a, m in zip(left.rows, matches, strict=True) for j in m]
    if how in ("left", "full"):
        alone = [row_of(a, None) for a, m in zip(left.rows, matches, strict=True) if not m]
        absent = step["absent"] if step.get("absence") else frozenset()  # only in plans of SQL: a mark join
        rows += [replace(row, absence=row.absence | absent) for row in alone]
    if how in ("right", "full"):
        matched = {j for m in matches for j in m}
        rows += [row_of(None, b) for j, b in enumerate(right.rows) if j not in matched]
    columns = [*keys, *(name for name in lefts + rights if name.lower() not in ambiguous)]
    return Relation(columns, rows, frozenset(ambiguous)), False


def using_first(columns: list[str], using: list[str]) -> list[str]:
    """The join's columns in Spark's order: those of `using` first, as the left side spells them."""
    keys = [column for name in using for column in columns if column.lower() == name.lower()]
    return keys + [column for column in columns if column not in keys]


def in_order(row: RefRow, columns: list[str]) -> dict:
    return {name: row.values[name] for name in columns if name in row.values}


# --- set operations -----------------------------------------------------------------------------------


def by_name(relations: list[Relation]) -> list[Relation]:
    """All relations with the columns of the first, matched by name."""
    columns = relations[0].whole().columns
    result = []
    for relation in relations:
        spelled = {name.lower(): name for name in relation.whole().columns}
        if set(spelled) != {name.lower() for name in columns}:
            raise Unsupported("a set operation over different columns")
        rows = [
            replace(row, values={name: row.values[spelled[name.lower()]] for name in columns}, rank=None)
            for row in relation.rows
        ]
        result.append(Relation(columns, rows))
    return result


def union(step, *inputs):
    relations = by_name(list(inputs))
    relation = Relation(relations[0].columns, [row for r in relations for row in r.rows])
    return distinct(step, relation) if step.get("distinct", False) else (relation, False)


def intersect(step, left, right):
    left, right = by_name([left, right])
    key_of = in_columns(left.columns)
    of_right = {canonical(key): members for key, members in grouped(right.rows, key_of)}
    rows = []
    for key, members in grouped(left.rows, key_of):
        equals = of_right.get(canonical(key), [])
        copies = min(len(members), len(equals))
        if step.get("distinct", True):
            copies = min(copies, 1)
        how = times(any_of(members), any_of(equals))
        row = derived(dict(zip(left.columns, key, strict=True)), members + equals, how)
        rows += [row] * copies
    return Relation(left.columns, rows), False


def difference(step, left, right):
    left, right = by_name([left, right])
    key_of = in_columns(left.columns)
    of_right = {canonical(key): members for key, members in grouped(right.rows, key_of)}
    rows = []
    for key, members in grouped(left.rows, key_of):
        gone = len(of_right.get(canonical(key), []))
        copies = int(not gone) if step.get("distinct", True) else max(len(members) - gone, 0)
        rows += [derived(dict(zip(left.columns, key, strict=True)), members, any_of(members))] * copies
    return Relation(left.columns, rows), False


OPERATORS = {
    "filter": filter_,
    "project": project,
    "with_columns": with_columns,
    "aggregate": aggregate,
    "distinct": distinct,
    "outer_values": outer_values,
    "join": join,
    "union": union,
    "intersect": intersect,
    "difference": difference,
    "window": window,
    "sort": sort,
    "limit": limit,
    "explode": explode,
}
