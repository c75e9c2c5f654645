"""Answers an ordinary GROUP BY question from prepared groups: rewrites it to a SELECT over partial measures. Pure.

Only questions with provably the same answer are rewritten: one lineage function, keys that are columns or date parts,
measures that can be combined exactly, predicates over keys. Columns keep the names and types of the original question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_service.capture.workload import DeclaredQuestion
from lineage_service.plan.expressions import Expression
from lineage_service.plan.mergeable_measures import MergeableMeasure

if TYPE_CHECKING:
    from sqlglot import exp

_PARTS = ("year", "quarter", "month", "day")
_UNSURE = ("FLOAT", "DOUBLE")


class _NotGroupable(Exception):
    """Raised for a question that cannot be rewritten."""


def is_grouped(tree: exp.Expr) -> bool:
    """Whether a question is one SELECT with groups over one table."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return False
    parts = {name for name, value in tree.args.items() if value}
    allowed = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "kind"}
    source = tree.args.get("from_")
    return (
        parts <= allowed
        and source is not None
        and isinstance(source.this, exp.Table)
        and not any(source.this.args.get(name) for name in ("joins", "sample", "pivots", "laterals"))
        and any(isinstance(node, exp.AggFunc) for node in tree.walk())
    )


def grouped_select(
    tree: exp.Expr,
    relation: str,
    label: str,
    question: DeclaredQuestion,
    types: Mapping[str, str],
    shown: Sequence[str],
    columns: Mapping[str, str],
) -> str | None:
    """The SELECT over `relation`, with columns _k0, _k1, … and _m0, _m1, …; None if the question asks for anything
    else.

    called: the alias of the rows in the question
    types: the types of keys and of the arguments of measures
    shown: the names of the result columns
    columns: the columns of the rows, with Spark's types
    """
    lower = {name.lower(): kind for name, kind in columns.items()}
    try:
        return _Rewriter(relation, label.lower(), question, types, lower).select(tree.copy(), shown)
    except _NotGroupable:
        return None


def declared_key(text: str) -> tuple[str, str] | None:
    """The key that a declared expression denotes: a column, or a date part of a column."""
    from sqlglot import exp

    return _key(Expression(text).tree, lambda column: column.name.lower() if len(column.parts) == 1 else None, exp)


def _key(tree: Any, named: Callable[[Any], str | None], exp: Any) -> tuple[str, str] | None:
    part = "column"
    if isinstance(tree, exp.Extract) and isinstance(tree.this, exp.Var):
        part, tree = tree.this.name.lower(), tree.expression
    elif isinstance(tree, exp.Year | exp.Quarter | exp.Month | exp.Day | exp.DayOfMonth):
        part = {"dayofmonth": "day"}.get(type(tree).__name__.lower(), type(tree).__name__.lower())
        tree = tree.this
    while isinstance(tree, exp.Paren) or (part != "column" and isinstance(tree, exp.TsOrDsToDate)):
        tree = tree.this
    if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star) or part not in ("column", *_PARTS):
        return None
    name = named(tree)
    return None if name is None else (part, name)


@dataclass(frozen=True)
class _Rewriter:
    relation: str
    called: str
    question: DeclaredQuestion
    types: Mapping[str, str]
    columns: Mapping[str, str]

    def select(self, tree: Any, shown: Sequence[str]) -> str:
        from sqlglot import exp

        stars = [each for each in tree.find_all(exp.Star) if not isinstance(each.parent, exp.Count)]
        if len(shown) != len(tree.expressions) or stars:
            raise _NotGroupable
        aliases = {each.alias.lower() for each in tree.expressions if each.alias}
        tree.set(
            "expressions",
            [
                exp.alias_(self.node(each.unalias(), frozenset()), name, quoted=True)
                for each, name in zip(tree.expressions, shown, strict=True)
            ],
        )
        if where := tree.args.get("where"):
            where.set("this", self.node(where.this, frozenset()))
        # A name that is both an alias and a column is ambiguous: its meaning depends on the clause.
        if group := tree.args.get("group"):
            if any(value for name, value in group.args.items() if name not in ("expressions", "all") and value):
                raise _NotGroupable
            group.set("expressions", [self._entry(each, aliases) for each in group.expressions])
        if having := tree.args.get("having"):
            having.set("this", self.node(having.this, frozenset(aliases)))
        if order := tree.args.get("order"):
            for ordered in order.expressions:
                ordered.set("this", self._entry(ordered.this, aliases))
        table = exp.to_table(self.relation)
        tree.args["from_"].set("this", table)
        return str(tree.sql(dialect="duckdb"))

    def _entry(self, tree: exp.Expr, aliases: set[str]) -> exp.Expr:
        """An item of GROUP BY or ORDER BY: a position, the name of a result column, or an expression."""
        from sqlglot import exp

        if isinstance(tree, exp.Literal) and tree.is_int:
            return tree
        return self.node(tree, frozenset(aliases))

    def node(self, tree: exp.Expr, aliases: frozenset[str]) -> exp.Expr:
        """An expression over groups instead of rows."""
        from sqlglot import exp

        if isinstance(tree, exp.Column) and len(tree.parts) == 1 and tree.name.lower() in aliases:
            if tree.name.lower() in self.columns:
                raise _NotGroupable
            return tree
        key = _key(tree, self._column, exp)
        place = None if key is None else self._place(key)
        if place is not None:
            return exp.column(f"{self.relation}_k{place}")
        if isinstance(tree, exp.AggFunc):
            return self._measure(tree)
        if isinstance(tree, exp.Column) or not isinstance(tree, _plain_nodes()):
            raise _NotGroupable
        for name, value in list(tree.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType | exp.Var | exp.Identifier):
                tree.set(name, self.node(value, aliases))
            elif isinstance(value, list):
                tree.set(name, [self.node(each, aliases) if isinstance(each, exp.Expr) else each for each in value])
        return tree

    def _column(self, column: Any) -> str | None:
        """The name of a column of the rows; None for a struct field or a column of another table."""
        parts: list[str] = [part.name.lower() for part in column.parts]
        if len(parts) == 1 and parts[0] != self.called:
            return parts[0]
        return parts[1] if len(parts) == 2 and parts[0] == self.called and parts[0] not in self.columns else None

    def _place(self, key: tuple[str, str]) -> int | None:
        """The number of a key; None for floating-point keys (two zeros) and date parts that depend on the time zone."""
        kind = self.columns.get(key[1])
        if kind in ("double", "float") or (key[0] != "column" and kind != "date"):
            return None
        known = [declared_key(text) for _, text in self.question.keys]
        return known.index(key) if key in known else None

    def _measure(self, tree: exp.Expr) -> exp.Expr:
        """An aggregate computed from its partial results."""
        import sqlglot
        from sqlglot import exp

        names: dict[type[Any], str] = {exp.Sum: "sum", exp.Count: "count", exp.Min: "min", exp.Max: "max"}
        function = names.get(type(tree))
        inner = tree.this
        distinct = isinstance(inner, exp.Distinct)
        if distinct:
            if len(inner.expressions) != 1:
                raise _NotGroupable
            (inner,) = inner.expressions
        rows = function == "count" and not distinct and (isinstance(inner, exp.Star) or inner is None)
        argument = None if rows else _key(inner, self._column, exp)
        extra = [value for name, value in tree.args.items() if name not in ("this", "big_int") and value]
        if function is None or extra or (argument is None and not rows) or (argument and argument[0] != "column"):
            raise _NotGroupable
        for number, measure in enumerate(self.question.measures):
            if measure.function == function and measure.distinct == distinct and self._is_of(measure, argument):
                kind = self.types.get(str(measure.argument))
                if kind in _UNSURE and function == "sum":
                    raise _NotGroupable
                part = f"{self.relation}_m{number}"
                combined: exp.Expr = sqlglot.parse_one(_combine_parts(measure, part, kind), dialect="duckdb")
                return combined
        raise _NotGroupable

    def _is_of(self, measure: MergeableMeasure, argument: tuple[str, str] | None) -> bool:
        if measure.argument is None or argument is None:
            return measure.argument is None and argument is None
        return declared_key(measure.argument) == argument


def _combine_parts(measure: MergeableMeasure, part: str, kind: str | None) -> str:
    if measure.distinct:
        return f"COALESCE(LEN(LIST_DISTINCT(FLATTEN(LIST({part})))), 0)"
    if measure.function == "count":
        return f"CAST(COALESCE(SUM({part}), 0) AS BIGINT)"
    if measure.function == "sum":
        whole = kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
        return f"CAST(SUM({part}) AS HUGEINT)" if whole else f"SUM({part})"
    return f"{measure.function.upper()}({part})"


def _plain_nodes() -> tuple[type[exp.Expr], ...]:
    from sqlglot import exp

    return (
        exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between,
        exp.Literal, exp.Boolean, exp.Null, exp.Is, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.Tuple,
    )  # fmt: skip
