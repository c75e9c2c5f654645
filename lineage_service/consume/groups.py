"""An ordinary question that asks for groups which were prepared: the same SELECT over partial measures. Pure.

Only what is surely the same is taken: one lineage function, keys that are columns or parts of days, measures that can
be put together exactly, predicates over keys. Columns have the names and types that the question would have given them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_service.capture.workload import Declared
from lineage_service.plan.expressions import Expression
from lineage_service.plan.measures import Measure

if TYPE_CHECKING:
    from sqlglot import exp

_PARTS = ("year", "quarter", "month", "day")
_UNSURE = ("FLOAT", "DOUBLE")


class _Other(Exception):
    """Not a question of this kind."""


def is_grouped(tree: exp.Expr) -> bool:
    """Whether a question is one SELECT of groups over one table."""
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
    question: Declared,
    types: Mapping[str, str],
    shown: Sequence[tuple[str, str]],
    columns: Sequence[str],
) -> str | None:
    """The SELECT over `relation`, which has k0, k1, … and m0, m1, …; None where it asks for something else.

    types: of the arguments of measures · shown: names and types of the columns that the question gives
    columns: of the rows that it asks about
    """
    try:
        return _Rewriter(question, types, {name.lower() for name in columns}).select(tree.copy(), relation, shown)
    except _Other:
        return None


def key_of(tree: exp.Expr | None) -> tuple[str, str] | None:
    """A column, or a part of a day in a column: what it is, and of which column."""
    from sqlglot import exp

    part = "column"
    if isinstance(tree, exp.Extract) and isinstance(tree.this, exp.Var):
        part, tree = tree.this.name.lower(), tree.expression
    elif isinstance(tree, exp.Year | exp.Quarter | exp.Month | exp.Day | exp.DayOfMonth):
        part = {"dayofmonth": "day"}.get(type(tree).__name__.lower(), type(tree).__name__.lower())
        tree = tree.this
    while isinstance(tree, exp.TsOrDsToDate | exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star) or part not in ("column", *_PARTS):
        return None
    return part, tree.name.lower()


@dataclass(frozen=True)
class _Rewriter:
    question: Declared
    types: Mapping[str, str]
    columns: set[str]

    def select(self, tree: Any, relation: str, shown: Sequence[tuple[str, str]]) -> str:
        from sqlglot import exp

        aliases = {each.alias.lower() for each in tree.expressions if each.alias}
        if len(shown) != len(tree.expressions) or any(
            each.find(exp.Star) for each in tree.expressions if not each.find(exp.Count)
        ):
            raise _Other
        items = []
        for each, (name, kind) in zip(tree.expressions, shown, strict=True):
            value = self.node(each.unalias(), set())
            cast = exp.Cast(this=value, to=exp.DataType.build(kind, dialect="duckdb", udt=True))
            items.append(exp.alias_(cast, name, quoted=True))
        tree.set("expressions", items)
        if where := tree.args.get("where"):
            where.set("this", self.node(where.this, set()))
        if group := tree.args.get("group"):
            if any(value for name, value in group.args.items() if name not in ("expressions", "all") and value):
                raise _Other
            group.set("expressions", [self.grouping(each, aliases) for each in group.expressions])
        for name in ("having", "order"):
            if clause := tree.args.get(name):
                if name == "order":
                    for ordered in clause.expressions:
                        ordered.set("this", self.grouping(ordered.this, aliases))
                else:
                    clause.set("this", self.node(clause.this, aliases))
        table = exp.to_table(relation)
        alias = tree.args["from_"].this.args.get("alias")
        if alias is not None:
            table.set("alias", alias)
        tree.args["from_"].set("this", table)
        return str(tree.sql(dialect="duckdb"))

    def grouping(self, tree: exp.Expr, aliases: set[str]) -> exp.Expr:
        """An entry of GROUP BY or ORDER BY: a place, a name of a column that is shown, or an expression."""
        from sqlglot import exp

        if isinstance(tree, exp.Literal) and tree.is_int:
            return tree
        return self.node(tree, aliases)

    def node(self, tree: exp.Expr, aliases: set[str]) -> exp.Expr:
        """An expression over groups instead of rows."""
        from sqlglot import exp

        key = key_of(tree)
        place = None if key is None else self._key(key)
        if place is not None:
            return exp.column(f"k{place}")
        if isinstance(tree, exp.AggFunc):
            return self._measure(tree)
        if isinstance(tree, exp.Column):
            name = tree.name.lower()
            if name in aliases and name not in self.columns and not tree.table:
                return tree
            raise _Other
        if not isinstance(tree, _plain_nodes()):
            raise _Other
        for name, value in list(tree.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType | exp.Var | exp.Identifier):
                tree.set(name, self.node(value, aliases))
            elif isinstance(value, list):
                tree.set(name, [self.node(each, aliases) if isinstance(each, exp.Expr) else each for each in value])
        return tree

    def _key(self, key: tuple[str, str]) -> int | None:
        known = [key_of(Expression(text).tree) for _, text in self.question.keys]
        return known.index(key) if key in known else None

    def _measure(self, tree: exp.Expr) -> exp.Expr:
        """An aggregate from the parts that were kept of it."""
        import sqlglot
        from sqlglot import exp

        names: dict[type[Any], str] = {exp.Sum: "sum", exp.Count: "count", exp.Min: "min", exp.Max: "max"}
        function = names.get(type(tree))
        inner = tree.this
        distinct = isinstance(inner, exp.Distinct)
        if distinct:
            if len(inner.expressions) != 1:
                raise _Other
            (inner,) = inner.expressions
        rows = function == "count" and not distinct and (isinstance(inner, exp.Star) or inner is None)
        argument = None if rows else key_of(inner)
        extra = [value for name, value in tree.args.items() if name not in ("this", "big_int") and value]
        if function is None or extra or (argument is None and not rows) or (argument and argument[0] != "column"):
            raise _Other
        for number, measure in enumerate(self.question.measures):
            if measure.function == function and measure.distinct == distinct and self._is_of(measure, argument):
                kind = self.types.get(str(measure.argument))
                if kind in _UNSURE and function == "sum":
                    raise _Other
                combined: exp.Expr = sqlglot.parse_one(_combined(measure, f"m{number}", kind), dialect="duckdb")
                return combined
        raise _Other

    def _is_of(self, measure: Measure, argument: tuple[str, str] | None) -> bool:
        if measure.argument is None or argument is None:
            return measure.argument is None and argument is None
        return key_of(Expression(measure.argument).tree) == argument


def _combined(measure: Measure, part: str, kind: str | None) -> str:
    if measure.distinct:
        return f"COALESCE(LEN(LIST_DISTINCT(FLATTEN(LIST({part})))), 0)"
    if measure.function == "count":
        return f"COALESCE(SUM({part}), 0)"
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
