"""Values that both engines compute alike, translated into DuckDB's SQL.

These are columns and literals, parts of a day, sums, differences and products of numbers whose digits all fit, and CASE
with branches of one type; also comparisons of floating-point numbers with each other, or with a literal that they can
represent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.equivalence.comparable_types import DATE, MOST_DIGITS, ComparableType, is_comparison_portable
from lineage_service.equivalence.portable_predicates import NotTranslatable, PredicateTranslator, source_column
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Source

if TYPE_CHECKING:
    from sqlglot import exp


# Parts of a day that both engines count alike.
_DAY_PARTS = {"year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day"}


def translate_source_value(source: Source, expression: Expression) -> str | None:
    """A value of a source's row in DuckDB's SQL: a column of a comparable type, or a part of a day."""
    from sqlglot import exp

    tree = expression.tree
    part = None
    if isinstance(tree, exp.Func):
        part = _DAY_PARTS.get(expression.text.partition("(")[0].strip().lower())
    inner = tree if part is None else tree.this
    while isinstance(inner, exp.Paren) or (part is not None and isinstance(inner, exp.TsOrDsToDate)):
        inner = inner.this
    if not isinstance(inner, exp.Column) or len(inner.parts) != 1:
        return None
    found = source_column(source, 0, inner.parts[0].name)
    if found is None:
        return None
    if part is None:
        return found.sql
    return f"CAST({part}({found.sql}) AS INTEGER)" if found.kind == DATE else None


@dataclass(frozen=True)
class _ResolvedColumn:
    sql: str
    kind: ComparableType


class ValueTranslator(PredicateTranslator):
    """Translates predicates, and also sums, differences and products that both engines compute alike."""

    def __init__(self, resolve: Callable[[tuple[str, ...]], tuple[str, ComparableType]]) -> None:
        super().__init__(lambda parts: _ResolvedColumn(*resolve(parts)))

    def translate_predicate(self, expression: Expression) -> str:
        if "\\" in expression.text or expression.is_deep:
            raise NotTranslatable
        return self.predicate(expression.tree)

    def translate_value(self, expression: Expression) -> tuple[str, ComparableType]:
        if "\\" in expression.text or expression.is_deep:
            raise NotTranslatable
        return self.value(expression.tree)

    def comparison(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        """Also compares floating-point numbers with each other, and with a literal that they can represent."""
        from sqlglot import exp

        for one, other in ((left, right), (right, left)):
            if isinstance(other, exp.Literal) and not other.is_string and len(other.name) <= 15:
                text, kind = self.value(one)
                if kind.family == "double":
                    number = f"CAST({other.name} AS DOUBLE)"
                    return f"({text} {word} {number})" if one is left else f"({number} {word} {text})"
        return super().comparison(left, word, right)

    def column_comparison(self, one: tuple[str, ComparableType], word: str, other: tuple[str, ComparableType]) -> str:
        if not is_comparison_portable(one[1], other[1]) or "double" in (one[1].family, other[1].family):
            raise NotTranslatable
        return f"({one[0]} {word} {other[0]})"

    def value(self, tree: exp.Expr) -> tuple[str, ComparableType]:
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            text, kind = self.value(tree.this)
            return f"({text})", kind
        if isinstance(tree, exp.Case):
            return self._case(tree)
        words: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
        if type(tree) in words and not isinstance(tree.expression, exp.Interval):
            one, other = self.value(tree.this), self.value(tree.expression)
            kind = _arithmetic_type(type(tree), one, other, tree)
            return f"({one[0]} {words[type(tree)]} {other[0]})", kind
        return super().value(tree)

    def _case(self, tree: exp.Case) -> tuple[str, ComparableType]:
        """A CASE with branches of one type, each selected by a predicate."""
        if tree.this is not None:
            raise NotTranslatable
        parts, kinds = [], set()
        for branch in tree.args["ifs"]:
            text, kind = self.value(branch.args["true"])
            parts.append(f"WHEN {self.predicate(branch.this)} THEN {text}")
            kinds.add(kind)
        if tree.args.get("default") is not None:
            text, kind = self.value(tree.args["default"])
            parts.append(f"ELSE {text}")
            kinds.add(kind)
        if len(kinds) != 1:
            raise NotTranslatable
        return f"(CASE {' '.join(parts)} END)", kinds.pop()


def _arithmetic_type(
    operator: type, one: tuple[str, ComparableType], other: tuple[str, ComparableType], tree: exp.Expr
) -> ComparableType:
    """Spark's type of a sum, a difference or a product. Integers stay integers; an overflow is an error in both
    engines. All digits of decimals must fit, because Spark rounds otherwise.
    """
    from sqlglot import exp

    kinds = [one[1], other[1]]
    families = {kind.family for kind in kinds}
    if families == {"whole"}:
        return max(kinds, key=lambda kind: kind.whole)
    if families - {"whole", "decimal"}:
        raise NotTranslatable
    digits = [_exact_digits(kind, side) for kind, side in zip(kinds, (tree.this, tree.expression), strict=True)]
    (whole, scale), (whole2, scale2) = digits
    if operator is exp.Mul:
        found = whole + whole2 + 1, scale + scale2
    else:
        found = max(whole, whole2) + 1, max(scale, scale2)
    if sum(found) > MOST_DIGITS:
        raise NotTranslatable
    return ComparableType("decimal", *found)


def _exact_digits(kind: ComparableType, tree: exp.Expr) -> tuple[int, int]:
    """The digits before and after the decimal point; those of the literal for an integer literal."""
    from sqlglot import exp

    while isinstance(tree, exp.Paren | exp.Neg):
        tree = tree.this
    if kind.family == "whole" and isinstance(tree, exp.Literal):
        return len(str(int(tree.name))), 0
    return kind.whole, kind.scale
