"""Whether reading again gives the same rows. Capture strategies that read later rely on this.

Rows may differ if they depend on random values, a clock, an unordered limit, or values whose last bits depend on the
plan (sums of floating-point numbers). Columns that only contain such values are *shaky*: they are harmless as long as
no predicate, key or set operation reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from lineage_service.plan.expressions import Expression, with_stars_expanded
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

# Aggregates that give the same value in whatever order the rows come.
EXACT = frozenset("any bit_and bit_or bit_xor bool_and bool_or count count_if every max min some".split())  # noqa: SIM905
EXACT_OVER_ORDER = frozenset({*EXACT, "rank", "dense_rank"})
EXACT_SUMS = ("tinyint", "smallint", "int", "bigint", "decimal")


@dataclass(frozen=True, slots=True)
class Stability:
    """The stability of a node's rows: why they may differ when read again (None if they do not), and the shaky
    columns.
    """

    reason: str | None = None
    shaky: frozenset[str] = frozenset()


WRITTEN = Stability()  # rows that lie on disk


def stability(node: Node, below: Sequence[Stability]) -> Stability:
    reason = next((each.reason for each in below if each.reason), None)
    shaky = frozenset(name for each in below for name in each.shaky)
    if reason:
        return Stability(reason, shaky)
    match node:
        case Source():
            return Stability(_collation_reason(node.step, (column.type for column in node.columns.columns)))
        case Filter():
            return Stability(_expression_reason(node, (node.where,), shaky, "its predicate"), shaky)
        case Project():
            return Stability(_generator_reason(node, node.columns, shaky), _shaky_columns(node, node.columns, shaky))
        case WithColumns():
            kept = shaky - {named.name.lower() for named in node.columns}
            return Stability(
                _generator_reason(node, node.columns, shaky), kept | _shaky_columns(node, node.columns, shaky)
            )
        case Aggregate():
            keys = tuple(named.expression for named in node.keys)
            inexact = {named.name.lower() for named in node.measures if not _exact_measure(node, named, shaky)}
            return Stability(_expression_reason(node, keys, shaky, "a key"), frozenset(inexact))
        case Distinct() | Intersect() | Difference():
            return Stability(_comparison_reason(node, shaky))
        case Join():
            on = (node.on,) if node.on is not None else ()
            used = {name.lower() for name in node.using} & shaky
            return Stability(
                _expression_reason(node, on, shaky, "its condition") or _column_reason(node, used, "its condition"),
                shaky,
            )
        case Union():
            return Stability(None, shaky)
        case Window():
            framed = {name.lower() for name in node.partition_by} & shaky
            order = tuple(key.expression for key in node.order_by)
            steady = not framed and not _expression_reason(node, order, shaky, "")
            inexact = {
                named.name.lower()
                for named in node.measures
                if not steady
                or not _calls_only(named.expression, EXACT_OVER_ORDER)
                or node.by_position(named)
                or _reads_shaky_column(named, node, shaky)
            }
            return Stability(None, (shaky - {named.name.lower() for named in node.measures}) | inexact)
        case Sort():
            return Stability(None, shaky)
        case Limit():
            return Stability(f"step '{node.step}' selects rows without a total order", shaky)
        case Explode():
            return Stability(_column_reason(node, {node.column.lower()} & shaky, "what it explodes"), shaky)
        case _:
            assert_never(node)


def unstable_members_reason(node: Node, below: Sequence[Stability]) -> str | None:
    """Why the members of a breaker may not be found again: its input or its grouping values may differ. None if they
    are stable.
    """
    reason = next((each.reason for each in below if each.reason), None)
    shaky = frozenset(name for each in below for name in each.shaky)
    if reason:
        return reason
    match node:
        case Window():
            return _column_reason(node, {name.lower() for name in node.partition_by} & shaky, "a key")
        case _:
            return stability(node, below).reason


def _expression_reason(node: Node, expressions: Iterable[Expression], shaky: frozenset[str], what: str) -> str | None:
    for expression in expressions:
        if not expression.repeatable:
            return f"step '{node.step}': {what} uses a function that may differ when it is evaluated again"
        if "collate" in expression.function_names:
            return f"step '{node.step}': {what} is collated text, which has no hash of its own"
        found = columns_read(expression, node) & shaky
        if found:
            return _column_reason(node, found, what)
    return None


def _column_reason(node: Node, found: Iterable[str], what: str) -> str | None:
    names = sorted(found)
    if not names:
        return None
    return f"step '{node.step}': {what} reads '{names[0]}', whose last bits may differ when it is computed again"


def _comparison_reason(node: Node, shaky: frozenset[str]) -> str | None:
    return _column_reason(
        node, {name.lower() for below in node.inputs for name in below.schema.names} & shaky, "what it compares"
    )


def _collation_reason(step: str, types: Iterable[str | None]) -> str | None:
    if any(kind and "collate" in kind.lower() for kind in types):
        return f"source '{step}' has collated text, which has no hash of its own"
    return None


def _shaky_columns(node: Node, columns: Iterable[NamedExpression], shaky: frozenset[str]) -> frozenset[str]:
    return frozenset(
        named.name.lower()
        for named in columns
        if not named.expression.repeatable or _reads_shaky_column(named, node, shaky)
    )


def _generator_reason(node: Node, columns: Iterable[NamedExpression], shaky: frozenset[str]) -> str | None:
    """Why a generator may give other rows: its value may differ."""
    return _expression_reason(
        node, [each.expression for each in columns if each.expression.is_generator], shaky, "a generator"
    )


def _reads_shaky_column(named: NamedExpression, node: Node, shaky: frozenset[str]) -> bool:
    return bool(columns_read(named.expression, node) & shaky)


def columns_read(expression: Expression, node: Node) -> frozenset[str]:
    """The columns that an expression may read, in lower case: every word that is a column's name, and all columns for a
    star.
    """
    names = tuple(dict.fromkeys(name for below in node.inputs for name in below.schema.names))
    if with_stars_expanded(expression, names) != expression.text:
        return frozenset(name.lower() for name in names)
    return expression.words


def _calls_only(expression: Expression, known: frozenset[str]) -> bool:
    from lineage_service.plan import functions

    return all(
        name in known for name in expression.function_names if name in functions.AGGREGATES | functions.WINDOW_ONLY
    )


def _exact_measure(node: Aggregate, named: NamedExpression, shaky: frozenset[str]) -> bool:
    expression = named.expression
    if not expression.repeatable or _reads_shaky_column(named, node, shaky):
        return False
    return _calls_only(expression, EXACT) or _is_exact_sum(expression, node)


def _is_exact_sum(expression: Expression, node: Aggregate) -> bool:
    """Whether it is `sum(column)` over whole or decimal numbers."""
    words = [token.text for token in expression.tokens]
    if len(words) != 4 or words[0].lower() != "sum":
        return False
    column = node.input.schema.find(words[2])
    return bool(column and column.type and column.type.startswith(EXACT_SUMS))
