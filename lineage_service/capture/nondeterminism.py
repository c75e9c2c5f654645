"""The nondeterminism of a plan: rows and values that may differ when the plan is evaluated again.

This is for explanations, unlike stability.py, which is for pairs. The last bits of floating-point sums are ignored,
because the result is compared with what the run wrote. Random values, clocks, and rows that an order leaves open are
not ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from lineage_service.plan import functions
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

# Over rows in an order without ties these have one value.
BY_ORDER = frozenset(
    "array_agg collect_list first first_value lag last last_value lead nth_value ntile row_number".split()  # noqa: SIM905
)
Ordered = Callable[[Limit | Window], bool]


@dataclass(frozen=True, slots=True)
class Nondeterminism:
    """What may differ in the rows of a node when it is evaluated again.

    reason: why the rows may differ; None if they are the same
    columns: columns whose values may differ
    step: the nondeterministic step
    """

    reason: str | None = None
    columns: frozenset[str] = frozenset()
    step: str | None = None


NONE = Nondeterminism()


def nondeterminism_of(node: Node, below: Sequence[Nondeterminism], is_ordered: Ordered) -> Nondeterminism:
    """The nondeterminism of a node. `is_ordered` returns whether the order of a limit or window has no ties among these
    rows.
    """
    open_ = frozenset(name for each in below for name in each.columns)
    for each in below:
        if each.reason:
            return Nondeterminism(each.reason, open_, each.step)
    found = _own_nondeterminism(node, open_, is_ordered)
    return replace(found, step=node.step) if found.reason else found


def _own_nondeterminism(node: Node, open_: frozenset[str], is_ordered: Ordered) -> Nondeterminism:
    match node:
        case Source():
            return NONE
        case Filter():
            return Nondeterminism(_expression_reason(node, (node.where,), open_, "its predicate"), open_)
        case Project() | WithColumns():
            generators = [named.expression for named in node.columns if named.expression.is_generator]
            kept = open_ - {named.name.lower() for named in node.columns} if isinstance(node, WithColumns) else set()
            return Nondeterminism(
                _expression_reason(node, generators, open_, "a generator"),
                frozenset(kept) | _nondeterministic_columns(node, open_),
            )
        case Aggregate():
            keys = [named.expression for named in node.keys]
            return Nondeterminism(
                _expression_reason(node, keys, open_, "a key"), _nondeterministic_columns(node, open_)
            )
        case Distinct() | Intersect() | Difference():
            return Nondeterminism(_column_reason(node, open_, "what it compares"))
        case Join():
            on = (node.on,) if node.on is not None else ()
            used = {name.lower() for name in node.using} & open_
            return Nondeterminism(
                _expression_reason(node, on, open_, "its condition") or _column_reason(node, used, "its condition"),
                open_,
            )
        case Union() | Sort():
            return Nondeterminism(None, open_)
        case Window():
            return Nondeterminism(
                None, open_ - _names(node.measures) | _nondeterministic_measures(node, open_, is_ordered)
            )
        case Limit():
            by_chance = _expression_reason(node, [key.expression for key in node.by], open_, "its order")
            if by_chance is None and is_ordered(node):
                return Nondeterminism(None, open_)
            return Nondeterminism(by_chance or f"step '{node.step}' selects rows without a total order", open_)
        case Explode():
            return Nondeterminism(_column_reason(node, {node.column.lower()} & open_, "what it explodes"), open_)
        case _:
            assert_never(node)


def is_nondeterministic(expression: str, node: Node, open_: frozenset[str]) -> bool:
    """Whether an expression over the input rows of a node may have another value when it is evaluated again."""
    parsed = Expression(expression)
    return not parsed.repeatable or bool(_columns_read(parsed, node) & open_)


def _nondeterministic_measures(node: Window, open_: frozenset[str], is_ordered: Ordered) -> frozenset[str]:
    framed = {name.lower() for name in node.partition_by} & open_
    order = [key.expression for key in node.order_by]
    if framed or _expression_reason(node, order, open_, ""):
        return _names(node.measures)
    found = set()
    for named in node.measures:
        unsure = {name for name in named.expression.function_names if name in functions.NOT_REPEATABLE}
        tied = bool(unsure) or node.by_position(named)
        if _columns_read(named.expression, node) & open_ or unsure - BY_ORDER or (tied and not is_ordered(node)):
            found.add(named.name.lower())
    return frozenset(found)


def _nondeterministic_columns(node: Project | WithColumns | Aggregate, open_: frozenset[str]) -> frozenset[str]:
    named = node.measures if isinstance(node, Aggregate) else node.columns
    return frozenset(
        each.name.lower()
        for each in named
        if not each.expression.repeatable or _columns_read(each.expression, node) & open_
    )


def _names(named: Iterable[NamedExpression]) -> frozenset[str]:
    return frozenset(each.name.lower() for each in named)


def _expression_reason(node: Node, expressions: Iterable[Expression], open_: frozenset[str], what: str) -> str | None:
    for expression in expressions:
        if not expression.repeatable:
            return f"step '{node.step}': {what} uses a function that may differ when it is evaluated again"
        found = _column_reason(node, _columns_read(expression, node) & open_, what)
        if found:
            return found
    return None


def _column_reason(node: Node, found: Iterable[str], what: str) -> str | None:
    names = sorted(found)
    return (
        f"step '{node.step}': {what} reads '{names[0]}', which may differ when it is evaluated again" if names else None
    )


def _columns_read(expression: Expression, node: Node) -> frozenset[str]:
    names = tuple(dict.fromkeys(name for below in node.inputs for name in below.schema.names))
    if with_stars_expanded(expression, names) != expression.text:
        return frozenset(name.lower() for name in names)
    return expression.words
