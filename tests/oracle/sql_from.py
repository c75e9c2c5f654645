"""FROM of the oracle for SQL: tables, aliases, joins, LATERAL and VALUES, by nested loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tests.oracle.reference_expressions import Ambiguous, Context, value_of
from tests.oracle.reference_values import Map, Unsupported, equal
from tests.oracle.sql_pivots import pivoted
from tests.oracle.sql_rows import (
    NOTHING,
    Column,
    Relation,
    RowScope,
    SqlRow,
    Touched,
    Trace,
    merge_traces,
    positions_of,
)


@dataclass
class Cte:
    """A named query with the names that it can read itself."""

    query: exp.Expression
    names: Sequence[str]
    ctes: dict[str, Cte]
    scope: RowScope | None
    relation: Relation | None = None
    touched: int = field(default=Touched.NONE)


def extend_ctes(query: exp.Expression, ctes: dict[str, Cte], scope: RowScope | None) -> dict[str, Cte]:
    """The names that a query can read: those around it, and those of its WITH, which hide them one after another."""
    clause = query.args.get("with_")
    if clause is None:
        return ctes
    if clause.args.get("recursive"):
        raise Unsupported("a recursive CTE")
    for cte in clause.expressions:
        names = [column.name for column in cte.args["alias"].args.get("columns") or []]
        ctes = {**ctes, cte.alias.lower(): Cte(cte.this, names, ctes, scope)}
    return ctes


def sources_below(node: exp.Expression, ctes: dict[str, Cte]) -> frozenset[str]:
    """Every source that a query reads, through CTEs and subqueries."""
    found: frozenset[str] = frozenset()
    if isinstance(node, exp.Table):
        cte = ctes.get(node.name.lower())
        found = sources_below(cte.query, cte.ctes) if cte else frozenset([node.name.lower()])
    ctes = extend_ctes(node, ctes, None)
    for child in node.iter_expressions():
        if not isinstance(child, exp.With | exp.Hint):
            found |= sources_below(child, ctes)
    return found


class FromClause:
    """The relations of one FROM clause. `interpreter` evaluates what is nested in it."""

    def __init__(self, interpreter, ctes: dict[str, Cte], outer: RowScope | None):
        self.interpreter = interpreter
        self.ctes = ctes
        self.outer = outer

    def relation(self, select: exp.Select) -> Relation:
        clause = select.args.get("from_")
        result = Relation([], [SqlRow(())]) if clause is None else self.source(clause.this, self.outer)
        result = self.joined(result, select.args.get("joins") or [])
        for lateral in select.args.get("laterals") or []:
            result = self.exploded(result, lateral)
        return result

    def joined(self, left: Relation, joins: Sequence[exp.Join]) -> Relation:
        for join in joins:  # from left to right: in Spark a comma binds like CROSS JOIN
            left = self.join(left, join)
        return left

    # --- sources ---

    def source(self, node: exp.Expression, outer: RowScope | None) -> Relation:
        alias = node.args.get("alias")
        name = alias.name if alias is not None and alias.this is not None else None
        names = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
        match node:
            case exp.Table():
                result = self.pivoted(self.table(node).renamed(name or node.name, names), node)
                return self.joined(result, node.args.get("joins") or [])
            case exp.Subquery() if isinstance(node.this, exp.Table) or is_joined(node.this):
                inside = self.source(node.this, outer)
                result = inside.renamed(name, names) if name else inside
                return self.joined(result, node.args.get("joins") or [])
            case exp.Subquery():
                result = self.pivoted(self.interpreter.query(node.this, self.ctes, outer).renamed(name, names), node)
                return self.joined(result, node.args.get("joins") or [])
            case exp.Values():
                return self.values(node).renamed(name, names)
        raise Unsupported(f"{type(node).__name__} in FROM")

    def pivoted(self, relation: Relation, node: exp.Expression) -> Relation:
        for pivot in node.args.get("pivots") or []:
            relation = pivoted(relation, pivot, self.interpreter.touched)
        return relation

    def table(self, node: exp.Table) -> Relation:
        unknown = [key for key in ("sample", "db", "when", "laterals") if node.args.get(key)]
        if unknown:
            raise Unsupported(f"{unknown} of a table")
        cte = self.ctes.get(node.name.lower())
        if cte is None:
            return self.interpreter.source_relation(node.name)
        touched = self.interpreter.touched
        if cte.relation is None:
            around, touched.level = touched.level, Touched.NONE
            cte.relation = self.interpreter.query(cte.query, cte.ctes, cte.scope).renamed(None, cte.names)
            cte.touched = touched.level
            touched.touch(around)
        touched.touch(cte.touched)
        return cte.relation

    def values(self, node: exp.Values) -> Relation:
        rows = []
        for entry in node.expressions:
            parts = entry.expressions if isinstance(entry, exp.Tuple) else [entry]
            rows.append(SqlRow(tuple(value_of(part, Context(None)) for part in parts)))
        return Relation([Column(f"col{i + 1}") for i in range(len(rows[0].values))], rows)

    # --- joins ---

    def join(self, left: Relation, join: exp.Join) -> Relation:
        how = (join.kind if join.kind in ("SEMI", "ANTI") else join.side or "INNER").upper()
        if isinstance(join.this, exp.Lateral):
            return self.lateral_join(left, join, how)
        right = self.source(join.this, self.outer)
        keys = self.keys_of(join, left, right)
        columns = [*left.columns, *right.columns]
        pairs: list[tuple[int, int, Trace]] = []
        for i, a in enumerate(left.rows):
            for j, b in enumerate(right.rows):
                trace = self.match(join, columns, a, b, keys, len(left.columns))
                if trace is not None:
                    pairs.append((i, j, trace))
        if how in ("SEMI", "ANTI"):
            return self.filtering_join(left, right, join, how, pairs, keys)
        rows = [self.pair(left.rows[i], right.rows[j], trace) for i, j, trace in pairs]
        if how in ("LEFT", "FULL"):
            matched = {i for i, _, _ in pairs}
            nothing = SqlRow((None,) * len(right.columns))
            rows += [self.pair(a, nothing) for i, a in enumerate(left.rows) if i not in matched]
        if how in ("RIGHT", "FULL"):
            matched = {j for _, j, _ in pairs}
            nothing = SqlRow((None,) * len(left.columns))
            rows += [self.pair(nothing, b) for j, b in enumerate(right.rows) if j not in matched]
        relation = Relation(columns, rows)
        return merge_keys(relation, keys, len(left.columns), how) if keys else relation

    def pair(self, a: SqlRow, b: SqlRow, trace: Trace = NOTHING) -> SqlRow:
        return SqlRow(a.values + b.values, merge_traces([a.trace, b.trace, trace]))

    def match(self, join, columns, a: SqlRow, b: SqlRow, keys, width: int) -> Trace | None:
        """What contributed to the match beside the two rows; None where they do not match."""
        if keys is not None:
            return NOTHING if all(equal(a.values[i], b.values[j]) for i, j in keys) else None
        condition = join.args.get("on")
        if condition is None:
            return NOTHING
        scope = RowScope(columns, SqlRow(a.values + b.values), self.outer, self.interpreter.touched)
        self.interpreter.fill(condition, scope, self.ctes)
        return scope.trace if value_of(condition, Context(scope)) is True else None

    def keys_of(self, join: exp.Join, left: Relation, right: Relation) -> list[tuple[int, int]] | None:
        """The columns that USING or NATURAL compare; None where there is neither."""
        if join.args.get("using"):
            names = [name.name for name in join.args["using"]]
        elif join.method == "NATURAL":
            there = {column.name.lower() for column in right.columns if not column.hidden}
            names = [c.name for c in left.columns if not c.hidden and c.name.lower() in there]
        else:
            return None
        return [(only_position(left.columns, name), only_position(right.columns, name)) for name in names]

    def filtering_join(self, left, right, join, how, pairs, keys) -> Relation:
        absent = Trace(absence=sources_below(join.this, self.ctes))
        rows = []
        for i, a in enumerate(left.rows):
            matches = [(j, trace) for k, j, trace in pairs if k == i]
            if bool(matches) != (how == "SEMI"):
                continue
            behind = [part for j, trace in matches for part in (right.rows[j].trace, trace)]
            rows.append(SqlRow(a.values, merge_traces([a.trace, *(behind or [absent])])))
        relation = Relation(left.columns, rows)
        return reordered(relation, [i for i, _ in keys]) if keys else relation

    # --- LATERAL ---

    def lateral_join(self, left: Relation, join: exp.Join, how: str) -> Relation:
        """The rows of the subquery for each left row, whose columns it can read."""
        if how not in ("INNER", "LEFT"):
            raise Unsupported(f"a lateral join {how}")
        rows: list[SqlRow] = []
        columns: list[Column] | None = None
        probe = SqlRow((None,) * len(left.columns))  # gives the columns where there is no left row
        for a in [*left.rows, probe]:
            scope = RowScope(left.columns, a, self.outer, self.interpreter.touched)
            right = self.source(lateral_source(join.this), scope)
            columns = [*left.columns, *right.columns]
            if a is probe:
                break
            traces = [self.match(join, columns, a, b, None, 0) for b in right.rows]
            found = [self.pair(a, b, t) for b, t in zip(right.rows, traces, strict=True) if t is not None]
            if not found and how == "LEFT":
                found = [self.pair(a, SqlRow((None,) * len(right.columns)))]
            rows += found
        return Relation(columns, rows)

    def exploded(self, left: Relation, lateral: exp.Lateral) -> Relation:
        """LATERAL VIEW: one row per element, from the row that holds them."""
        function, alias = lateral.this, lateral.args["alias"]
        if type(function) not in GENERATED or function.expressions:
            raise Unsupported(f"LATERAL VIEW {function.sql('spark')}")
        defaults, generate = GENERATED[type(function)]
        names = [column.name for column in alias.args.get("columns") or []] or defaults
        rows = []
        for a in left.rows:
            scope = RowScope(left.columns, a, self.outer, self.interpreter.touched)
            elements = generate(value_of(function.this, Context(scope)))
            if not elements and lateral.args.get("outer"):
                elements = [(None,) * len(names)]
            rows += [SqlRow(a.values + element, a.trace) for element in elements]
        return Relation([*left.columns, *(Column(name, alias.name) for name in names)], rows)


def is_joined(node: exp.Expression) -> bool:
    """Whether parentheses hold a join, and not a query: its first entry may be a query with an alias."""
    return isinstance(node, exp.Subquery) and bool(node.args.get("joins") or node.args.get("alias"))


def lateral_source(node: exp.Lateral) -> exp.Subquery:
    """The subquery of LATERAL under its alias."""
    inside = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    result = exp.Subquery()
    # Not by the constructor: it would move the query, and results are remembered by node.
    result.args.update(this=inside, alias=node.args.get("alias"))
    return result


def elements_of(value) -> list[tuple]:
    if isinstance(value, Map):
        raise Unsupported("explode of a map")
    return [(element,) for element in value or []]


def numbered_elements(value) -> list[tuple]:
    return [(i, *element) for i, element in enumerate(elements_of(value))]


GENERATED: dict[type, tuple[list[str], Callable]] = {
    exp.Explode: (["col"], elements_of),
    exp.Posexplode: (["pos", "col"], numbered_elements),
}


def only_position(columns: Sequence[Column], name: str) -> int:
    positions, _ = positions_of(columns, [name])
    if len(positions) != 1:
        raise Ambiguous(name) if positions else Unsupported(f"unknown column {name}")
    return positions[0]


def merge_keys(relation: Relation, keys: list[tuple[int, int]], width: int, how: str) -> Relation:
    """Each key of USING once, in front; the sides' own keys can be read with their qualifiers."""
    columns, chosen = list(relation.columns), []
    for i, j in ((i, width + j) for i, j in keys):
        name = columns[i].name
        if how == "FULL":
            chosen.append((Column(name), i, j))
            columns[i] = Column(name, columns[i].qualifier, hidden=True)
            columns[j] = Column(columns[j].name, columns[j].qualifier, hidden=True)
        else:
            visible, other = (j, i) if how == "RIGHT" else (i, j)
            columns[other] = Column(columns[other].name, columns[other].qualifier, hidden=True)
            chosen.append((columns[visible], visible, visible))
    taken = {i for column, i, j in chosen if i == j}
    hidden = [i for pair in keys for i in (pair[0], width + pair[1]) if i not in taken]
    rest = [*hidden, *(i for i in range(len(columns)) if i not in taken and i not in hidden)]

    def key_value(row: SqlRow, i: int, j: int):
        return row.values[j] if row.values[i] is None else row.values[i]

    rows = [
        SqlRow((*(key_value(row, i, j) for _, i, j in chosen), *(row.values[i] for i in rest)), row.trace)
        for row in relation.rows
    ]
    return Relation([*(column for column, _, _ in chosen), *(columns[i] for i in rest)], rows)


def reordered(relation: Relation, first: list[int]) -> Relation:
    places = first + [i for i in range(len(relation.columns)) if i not in first]
    rows = [SqlRow(tuple(row.values[i] for i in places), row.trace) for row in relation.rows]
    return Relation([relation.columns[i] for i in places], rows)
