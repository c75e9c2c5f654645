"""The oracle for SQL: the tree of a query interpreted over small tables, with lineage.

Written from sections 4 and 8 of the contract alone, and independent of the compiler: nested loops, and one scope per
row of the query around a subquery. `evaluate_sql(text, tables)` is the way in. What is not known raises `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from tests.oracle.reference_expressions import Context, value_of
from tests.oracle.reference_values import Unsupported, canonical, compare_in_order, normalised, sort_key
from tests.oracle.sql_from import Cte, FromClause, extend_ctes, sources_below
from tests.oracle.sql_groups import Grouping, analyse_groups, group_rows
from tests.oracle.sql_rows import (
    BY_POSITION,
    Column,
    MoreThanOneRow,
    Relation,
    RowScope,
    SqlRow,
    Touched,
    Trace,
    is_alike,
    merge_traces,
)
from tests.oracle.sql_subqueries import fill_subqueries, has_subquery
from tests.oracle.sql_windows import WindowSpecification, compute_window, ordering_of, windows_in

__all__ = ["MoreThanOneRow", "SqlAnswer", "SqlRow", "SqlTable", "Unsupported", "evaluate_sql"]


@dataclass(frozen=True)
class SqlTable:
    """A source: column -> type of Spark, and rows as dicts. A row's position is its rid."""

    schema: dict[str, str]
    rows: list[dict]


@dataclass(frozen=True)
class SqlAnswer:
    columns: list[str]
    rows: list[SqlRow]
    ordered: bool  # the rows have the order of an ORDER BY; equal ranks are ties
    deterministic: bool  # False: Spark may choose other rows, or other lineage, among ties


def evaluate_sql(text: str, tables: dict[str, SqlTable], most_scopes: int | None = None) -> SqlAnswer:
    """The rows of a query with the source rows behind each. `most_scopes` ends a query that takes too long."""
    tree = sqlglot.parse_one(text, dialect="spark")
    interpreter = Interpreter(tables, most_scopes)
    relation = interpreter.query(tree, {}, None)
    ordered = tree.args.get("order") is not None
    names = [column.name for column in relation.columns]
    return SqlAnswer(names, list(relation.rows), ordered, interpreter.deterministic)


@dataclass(frozen=True)
class Level:
    """The interpreter together with the CTEs that a query level can read."""

    interpreter: Interpreter
    ctes: dict[str, Cte]

    def subquery(self, query: exp.Expression, scope: RowScope) -> Relation:
        return self.interpreter.subquery(query, self.ctes, scope)

    def sources_of(self, query: exp.Expression) -> frozenset[str]:
        return sources_below(query, self.ctes)


class Interpreter:
    def __init__(self, tables: dict[str, SqlTable], most_scopes: int | None = None):
        self.tables = {name.lower(): table for name, table in tables.items()}
        self.touched = Touched(most_scopes)
        self.deterministic = True
        self.uncorrelated: dict[int, Relation] = {}  # by the id of the subquery's node
        self.analysed: dict[int, tuple] = {}  # by the id of the SELECT: what is the same for every outer row
        self.with_subquery: dict[int, bool] = {}

    # --- queries ---

    def source_relation(self, name: str) -> Relation:
        table = self.tables.get(name.lower())
        if table is None:
            raise Unsupported(f"unknown table {name}")
        rows = []
        for rid, row in enumerate(table.rows):
            itself = {name.lower(): frozenset([rid])}
            rows.append(SqlRow(tuple(row.get(column) for column in table.schema), Trace(itself, itself)))
        return Relation([Column(column) for column in table.schema], rows)

    def subquery(self, query: exp.Expression, ctes: dict[str, Cte], scope: RowScope) -> Relation:
        """The rows of a subquery for one row of the query around it; computed once where it does not read that row."""
        if id(query) in self.uncorrelated:
            return self.uncorrelated[id(query)]
        around, self.touched.level = self.touched.level, Touched.NONE
        relation = self.query(query, ctes, scope)
        if self.touched.level > scope.level:
            self.uncorrelated[id(query)] = relation
        self.touched.touch(around)
        return relation

    def query(self, node: exp.Expression, ctes: dict[str, Cte], outer: RowScope | None) -> Relation:
        ctes = extend_ctes(node, ctes, outer)
        match node:
            case exp.Select():
                return self.select(node, ctes, outer)
            case exp.SetOperation():
                return self.arranged(node, self.set_operation(node, ctes, outer), outer)
            case exp.Subquery():
                return self.arranged(node, self.query(node.this, ctes, outer), outer)
            case exp.Values():
                return FromClause(self, ctes, outer).values(node)
            case exp.Table():
                return FromClause(self, ctes, outer).source(node, outer)
        raise Unsupported(type(node).__name__)

    def arranged(self, node: exp.Expression, relation: Relation, outer: RowScope | None) -> Relation:
        """ORDER BY, OFFSET and LIMIT of a set operation or of parentheses: over the output columns."""
        rows = list(relation.rows)
        order = node.args.get("order")
        if order is not None:
            scopes = [RowScope(relation.columns, row, outer, self.touched) for row in rows]
            rows = sorted_rows(rows, scopes, order, relation.columns)
        rows = self.limited(node, rows, order is not None)
        return Relation([Column(column.name) for column in relation.columns], rows)

    def limited(self, node: exp.Expression, rows: list[SqlRow], is_ordered: bool) -> list[SqlRow]:
        """OFFSET and LIMIT; open to choice where a cut goes through ties that can be told apart."""
        start = int(node.args["offset"].expression.name) if node.args.get("offset") else 0
        end = start + int(node.args["limit"].expression.name) if node.args.get("limit") else len(rows)
        for cut in (start, end):
            if 0 < cut < len(rows) and (not is_ordered or rows[cut - 1].rank == rows[cut].rank):
                ties = [row for row in rows if not is_ordered or row.rank == rows[cut].rank]
                self.deterministic = self.deterministic and all(is_alike(ties[0], row) for row in ties)
        return rows[start:end]

    # --- set operations ---

    def set_operation(self, node: exp.SetOperation, ctes: dict[str, Cte], outer: RowScope | None) -> Relation:
        if node.args.get("by_name"):
            raise Unsupported("UNION BY NAME")
        left, right = self.query(node.this, ctes, outer), self.query(node.expression, ctes, outer)
        if len(left.columns) != len(right.columns):
            raise Unsupported("a set operation over different columns")
        columns = [Column(column.name) for column in left.columns]
        keep_all = node.args.get("distinct") is False
        if isinstance(node, exp.Union):
            rows = [replace(row, rank=None) for row in (*left.rows, *right.rows)]
            return Relation(columns, rows if keep_all else distinct_rows(rows))
        absent = Trace(absence=sources_below(node.expression, ctes))
        of_right = {canonical(list(key)): members for key, members in equal_rows(right.rows)}
        rows = []
        for key, members in equal_rows(left.rows):
            equals = of_right.get(canonical(list(key)), [])
            if isinstance(node, exp.Intersect):
                copies = min(len(members), len(equals))
                behind = [row.trace for row in (*members, *equals)]
            else:
                copies = max(len(members) - len(equals), 0) if keep_all else int(not equals)
                behind = [*(row.trace for row in members), absent]
            rows += [SqlRow(key, merge_traces(behind))] * (copies if keep_all else min(copies, 1))
        return Relation(columns, rows)

    # --- SELECT ---

    def fill(self, node: exp.Expression | None, scope: RowScope, ctes: dict[str, Cte]) -> None:
        """Compute the subqueries of an expression for this row."""
        if node is None:
            return
        if id(node) not in self.with_subquery:
            self.with_subquery[id(node)] = has_subquery(node)
        if self.with_subquery[id(node)]:
            fill_subqueries(node, scope, Level(self, ctes))

    def select(self, node: exp.Select, ctes: dict[str, Cte], outer: RowScope | None) -> Relation:
        """FROM, WHERE, GROUP BY, HAVING, windows, the SELECT list, QUALIFY, DISTINCT, ORDER BY, LIMIT: in this order."""
        unknown = [key for key in UNKNOWN_CLAUSES if node.args.get(key)]
        if unknown:
            raise Unsupported(f"{unknown} of SELECT")
        source = FromClause(self, ctes, outer).relation(node)
        columns = source.columns
        scopes = [RowScope(columns, row, outer, self.touched) for row in source.rows]
        scopes = self.kept(node.args.get("where"), scopes, ctes)
        if id(node) not in self.analysed:
            items = expand_items(node.expressions, columns)
            self.analysed[id(node)] = items, analyse_groups(node, items, columns)
        items, grouping = self.analysed[id(node)]
        if grouping is not None:
            scopes = self.groups(grouping, scopes, columns, ctes, outer)
        for scope in scopes:
            add_aliases(scope, items, self, ctes)
        scopes = self.kept(node.args.get("having"), scopes, ctes)
        self.windows(node, items, scopes, ctes)
        for scope in scopes:
            for _, item in items:
                self.fill(item, scope, ctes)
        if node.args.get("qualify") and any(list(windows_in(item)) for _, item in items):
            check_qualify_names(node, items)
            for scope in scopes:
                scope.list_first = {name: scope.aliases[name] for name in alias_names(items)}
        scopes = self.kept(node.args.get("qualify"), scopes, ctes)
        for scope in scopes:
            scope.list_first = {}
        rows = [SqlRow(tuple(value_of(item, Context(s)) for _, item in items), s.trace) for s in scopes]
        return self.finished(node, items, rows, scopes)

    def kept(self, clause: exp.Expression | None, scopes: list[RowScope], ctes: dict[str, Cte]) -> list[RowScope]:
        if clause is None:
            return scopes
        for scope in scopes:
            self.fill(clause.this, scope, ctes)
        return [scope for scope in scopes if value_of(clause.this, Context(scope)) is True]

    def groups(self, grouping: Grouping, scopes, columns, ctes, outer) -> list[RowScope]:
        for scope in scopes:
            for node in (*grouping.keys, *grouping.aggregates):
                self.fill(node, scope, ctes)
        return group_rows(grouping, scopes, columns, outer, self.touched)

    def windows(self, select: exp.Select, items, scopes: list[RowScope], ctes: dict[str, Cte]) -> None:
        """All windows of a SELECT read the same rows: those behind HAVING."""
        clauses = [item for _, item in items]
        clauses += [select.args[name] for name in ("qualify", "order") if select.args.get(name)]
        windows = [window for clause in clauses for window in windows_in(clause)]
        if not windows:
            return
        specifications = [WindowSpecification(window, select.args.get("windows") or []) for window in windows]
        for scope in scopes:
            for specification in specifications:
                for node in specification.inputs:
                    self.fill(node, scope, ctes)
        before = [scope.trace for scope in scopes]
        peers: list[list[Trace]] = [[] for _ in scopes]
        for specification in specifications:
            read, chosen = compute_window(specification, scopes, before)
            self.deterministic = self.deterministic and not chosen
            for i, traces in read.items():
                peers[i] += traces
        for scope, traces in zip(scopes, peers, strict=True):
            scope.trace = scope.trace.with_peers(traces)

    def finished(self, node: exp.Select, items, rows: list[SqlRow], scopes: list[RowScope]) -> Relation:
        columns = [Column(name) for name, _ in items]
        if node.args.get("distinct"):
            if node.args["distinct"].args.get("on"):
                raise Unsupported("DISTINCT ON")
            first = {
                canonical(list(row.values)): scope for row, scope in reversed(list(zip(rows, scopes, strict=True)))
            }
            rows = distinct_rows(rows)
            scopes = [first[canonical(list(row.values))] for row in rows]
        order = node.args.get("order")
        if order is not None:
            rows = sorted_rows(rows, scopes, order, columns)
        return Relation(columns, self.limited(node, rows, order is not None))


UNKNOWN_CLAUSES = ("cluster", "distribute", "sort", "connect", "match", "sample", "kind", "into", "pivots")


def expand_items(expressions: Sequence[exp.Expression], columns: Sequence[Column]) -> list[tuple[str, exp.Expression]]:
    """The SELECT list as names and expressions, stars written out."""
    items: list[tuple[str, exp.Expression]] = []
    for node in expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            items += expand_star(node, columns)
        elif isinstance(node, exp.Alias):
            items.append((node.alias, node.this))
        else:
            items.append((node.output_name or node.sql("spark"), node))
    return items


def expand_star(node: exp.Expression, columns: Sequence[Column]) -> list[tuple[str, exp.Expression]]:
    star = node if isinstance(node, exp.Star) else node.this
    if star.args.get("replace") or star.args.get("rename"):
        raise Unsupported("a star with REPLACE")
    left_out = {each.name.lower() for each in star.args.get("except_") or []}
    qualifier = node.table.lower() if isinstance(node, exp.Column) else None
    items: list[tuple[str, exp.Expression]] = []
    # A qualified star gives the hidden keys of USING first, as Spark does.
    for position, column in sorted(enumerate(columns), key=lambda each: not each[1].hidden):
        is_meant = not column.hidden if qualifier is None else (column.qualifier or "").lower() == qualifier
        if is_meant and column.name.lower() not in left_out:
            items.append((column.name, exp.column(f"{BY_POSITION}{position}")))
    return items


def add_aliases(scope: RowScope, items, interpreter: Interpreter, ctes: dict[str, Cte]) -> None:
    """Aliases of the SELECT list, for entries behind them, HAVING and QUALIFY; a column of FROM wins over them, but for
    a QUALIFY behind a list that has window functions."""

    def reader(item: exp.Expression):
        def read():
            interpreter.fill(item, scope, ctes)
            return value_of(item, Context(scope))

        return read

    for name, item in items:
        if is_alias(name, item):
            scope.aliases.setdefault(name.lower(), reader(item))


def is_alias(name: str, item: exp.Expression) -> bool:
    """Whether an entry of the SELECT list has another name than the column that it is."""
    return not isinstance(item, exp.Column) or item.name.lower() != name.lower()


def alias_names(items) -> list[str]:
    return [name.lower() for name, item in items if is_alias(name, item) and not item.name.startswith(BY_POSITION)]


def check_qualify_names(node: exp.Select, items) -> None:
    """A list with window functions comes before FROM in QUALIFY: what may be ambiguous there is not known."""
    aliases, qualify = alias_names(items), node.args["qualify"].this
    read = {column.name.lower() for column in qualify.find_all(exp.Column)} & set(aliases)
    inside = {column.name.lower() for window in windows_in(qualify) for column in window.find_all(exp.Column)}
    below = [item for _, item in items if list(windows_in(item))] + (node.args.get("windows") or [])
    exposed = {column.name.lower() for item in below for column in item.find_all(exp.Column)}
    names = [name.lower() for name, _ in items]
    if read & (inside | exposed) or any(names.count(name) > 1 for name in read):
        raise Unsupported(f"the names {sorted(read)} in QUALIFY")


def sorted_rows(
    rows: list[SqlRow], scopes: Sequence[RowScope], order: exp.Order, columns: Sequence[Column]
) -> list[SqlRow]:
    """The rows in their order, ties with one rank. Names mean output columns first."""
    if has_subquery(order):
        raise Unsupported("a subquery in ORDER BY")
    orderings = [ordering_of(node) for node in order.expressions]
    keyed = []
    for row, scope in zip(rows, scopes, strict=True):
        scope.output_first = {column.name.lower(): v for column, v in zip(columns, row.values, strict=True)}
        key = []
        for node in order.expressions:
            is_ordinal = isinstance(node.this, exp.Literal) and node.this.is_int
            key.append(row.values[int(node.this.this) - 1] if is_ordinal else value_of(node.this, Context(scope)))
        keyed.append((key, row))
    keyed.sort(key=lambda pair: sort_key(orderings)(pair[0]))
    result: list[SqlRow] = []
    for place, (key, row) in enumerate(keyed):
        is_tie = place > 0 and compare_in_order(orderings, keyed[place - 1][0], key) == 0
        result.append(replace(row, rank=result[-1].rank if is_tie else place))
    return result


def equal_rows(rows: Sequence[SqlRow]) -> list[tuple[tuple, list[SqlRow]]]:
    groups: dict = {}
    for row in rows:
        groups.setdefault(canonical(list(row.values)), (tuple(normalised(list(row.values))), []))[1].append(row)
    return list(groups.values())


def distinct_rows(rows: Sequence[SqlRow]) -> list[SqlRow]:
    return [SqlRow(key, merge_traces([row.trace for row in members])) for key, members in equal_rows(rows)]
