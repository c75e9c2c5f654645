"""Predicates that mean the same in Spark and DuckDB, translated into DuckDB's SQL.

Translates comparisons of columns with columns or literals of comparable types (comparable_types.py), IN lists, BETWEEN,
null tests, AND, OR, NOT, and constant days. No functions, no casts, no arithmetic except that of days. A column also
needs values that both engines read alike (stored_values.py).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Protocol

from lineage_service.equivalence.comparable_types import (
    DATE,
    WHOLE,
    ComparableType,
    comparable_type,
    is_comparison_portable,
)
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Source

if TYPE_CHECKING:
    from sqlglot import exp


LONGEST = 18  # digits of a number that both engines read alike


@dataclass(frozen=True, slots=True)
class PortableColumn:
    """A column of a source: the source's number, its name, its type."""

    source: int
    name: str
    kind: ComparableType

    @property
    def sql(self) -> str:
        quoted = self.name.replace('"', '""')
        return f't{self.source}."{quoted}"'


class TypedSql(Protocol):
    """A value in DuckDB's SQL, and its type."""

    @property
    def sql(self) -> str: ...
    @property
    def kind(self) -> ComparableType: ...


# Finds the column that a dotted name means; None for one that both engines may read differently.
Resolve = Callable[[tuple[str, ...]], TypedSql | None]


def source_column(node: Source, number: int, name: str) -> PortableColumn | None:
    """A column of the source with this number; None if the engines may read or compare its values differently."""
    column = node.columns.find(name)
    kind = comparable_type(column.type) if column is not None and column.type and column.alike else None
    return None if column is None or kind is None else PortableColumn(number, column.name, kind)


def translate_predicate(expression: Expression, resolve: Resolve) -> str | None:
    """A predicate in DuckDB's SQL; None if it might have another meaning there."""
    if "\\" in expression.text or expression.is_deep:
        return None  # escapes in texts are Spark's own
    try:
        return PredicateTranslator(resolve).predicate(expression.tree)
    except NotTranslatable:
        return None


def translate_source_predicate(source: Source, expression: Expression) -> str | None:
    """A predicate over a source's columns, as t0."""
    return translate_predicate(
        expression, lambda parts: source_column(source, 0, parts[0]) if len(parts) == 1 else None
    )


class NotTranslatable(Exception):
    """An expression that might have another meaning in DuckDB."""


@dataclass(frozen=True)
class PredicateTranslator:
    """Translates predicates over the columns that `resolve` finds. Raises NotTranslatable for all others."""

    resolve: Resolve

    def predicate(self, tree: exp.Expr) -> str:
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            return f"({self.predicate(tree.this)})"
        if isinstance(tree, exp.And | exp.Or):
            word = "AND" if isinstance(tree, exp.And) else "OR"
            return f"({self.predicate(tree.left)} {word} {self.predicate(tree.right)})"
        if isinstance(tree, exp.Not):
            return f"(NOT {self.predicate(tree.this)})"
        if isinstance(tree, exp.Column):
            text, kind = self.value(tree)
            if kind.family == "boolean":
                return text
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return f"({self.value(tree.this)[0]} IS NULL)"
        if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
            low, high = tree.args["low"], tree.args["high"]
            return f"({self.comparison(tree.this, '>=', low)} AND {self.comparison(tree.this, '<=', high)})"
        if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
            # Spark compares all of them in one type.
            if not is_comparison_portable(
                *(kind for each in tree.expressions for kind in self.operand_types(tree.this, each))
            ):
                raise NotTranslatable
            return f"({' OR '.join(self.comparison(tree.this, '=', each) for each in tree.expressions)})"
        for operator, word in (
            (exp.EQ, "="), (exp.NEQ, "<>"), (exp.LT, "<"), (exp.LTE, "<="), (exp.GT, ">"), (exp.GTE, ">="),
            (exp.NullSafeEQ, "IS NOT DISTINCT FROM"),
        ):  # fmt: skip
            if type(tree) is operator:
                return self.comparison(tree.this, word, tree.expression)
        raise NotTranslatable

    def comparison(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        (one, kind), (other, other_kind) = self.comparison_operands(left, right)
        if not is_comparison_portable(kind, other_kind):
            raise NotTranslatable
        return f"({one} {word} {other})"

    def operand_types(self, left: exp.Expr, right: exp.Expr) -> tuple[ComparableType, ComparableType]:
        (_, one), (_, other) = self.comparison_operands(left, right)
        return one, other

    def comparison_operands(
        self, left: exp.Expr, right: exp.Expr
    ) -> tuple[tuple[str, ComparableType], tuple[str, ComparableType]]:
        """Two compared values. Spark reads a text that is compared with a date as a date."""
        one, other = self.value(left), self.value(right)
        if one[1] == DATE and (day := _day_literal(right)):
            other = (day, DATE)
        if other[1] == DATE and (day := _day_literal(left)):
            one = (day, DATE)
        return one, other

    def value(self, tree: exp.Expr) -> tuple[str, ComparableType]:
        """A column or a literal, and its type."""
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            return self.value(tree.this)
        if isinstance(tree, exp.Column):
            found = self.resolve(tuple(part.name for part in tree.parts))
            if found is None:
                raise NotTranslatable
            return found.sql, found.kind
        if isinstance(tree, exp.Boolean):
            return ("true" if tree.this else "false"), ComparableType("boolean")
        if isinstance(tree, exp.Neg):
            text, kind = self.value(tree.this)
            if kind.family not in ("whole", "decimal") or not isinstance(tree.this, exp.Literal):
                raise NotTranslatable
            return f"-{text}", kind
        if isinstance(tree, exp.Literal):
            return _literal(tree)
        day = _constant_day(tree)
        if day is not None:
            return f"DATE '{day.isoformat()}'", DATE
        raise NotTranslatable


def _day_literal(tree: exp.Expr) -> str | None:
    """A text literal that both engines read as the same day."""
    found = _parse_day(tree)
    return None if found is None else f"DATE '{found.isoformat()}'"


def _parse_day(tree: exp.Expr) -> date | None:
    from sqlglot import exp

    if not isinstance(tree, exp.Literal) or not tree.is_string or not re.fullmatch(r"[12]\d{3}-\d\d-\d\d", tree.name):
        return None
    try:
        return date.fromisoformat(tree.name)
    except ValueError:
        return None


def _constant_day(tree: exp.Expr) -> date | None:
    """A constant day: `DATE '…'`, or such a day plus whole days, months or years."""
    from sqlglot import exp

    if type(tree) is exp.Cast and tree.to.this.name == "DATE":
        return _parse_day(tree.this)
    if type(tree) not in (exp.Add, exp.Sub) or not isinstance(tree.expression, exp.Interval):
        return None
    day, interval = _constant_day(tree.this), tree.expression
    count, unit = interval.this, interval.args.get("unit")
    if day is None or unit is None or not isinstance(count, exp.Literal) or not re.fullmatch(r"\d{1,5}", count.name):
        return None
    number = int(count.name) * (1 if type(tree) is exp.Add else -1)
    try:
        match unit.name.upper().removesuffix("S"):
            case "DAY":
                return day + timedelta(number)
            case "MONTH":
                return _months_later(day, number)
            case "YEAR":
                return _months_later(day, 12 * number)
    except (ValueError, OverflowError):
        return None  # a year that Python does not have
    return None


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or its last day if it is shorter, as in Spark."""
    month = day.year * 12 + day.month - 1 + months
    year, month = divmod(month, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _literal(tree: exp.Literal) -> tuple[str, ComparableType]:
    text = str(tree.this)
    if tree.is_string:
        return "'" + text.replace("'", "''") + "'", ComparableType("string")
    if re.fullmatch(r"\d+", text) and len(text) <= LONGEST:
        return text, ComparableType("whole", WHOLE["int"] if int(text) < 1 << 31 else WHOLE["bigint"])
    if re.fullmatch(r"\d*\.\d+", text) and len(text) <= LONGEST:
        whole, _, scale = text.partition(".")
        return text, ComparableType("decimal", len(whole), len(scale))
    raise NotTranslatable
