"""Estimates the number of rows of each node before a run: the count of an earlier run, otherwise a guess from the
footers.

Guesses are the textbook ones: a fixed selectivity per kind of predicate, and joins along foreign keys. They only choose
between strategies that are all correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, assert_never

from lineage_service.plan.expressions import ColumnRef, Expression
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    GroupLimit,
    Intersect,
    Join,
    Limit,
    Node,
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

if TYPE_CHECKING:
    from sqlglot import exp

PER_ARRAY = 3.0  # elements that an array is taken to have
OF_GROUPS = 0.3  # groups per row
SHARE_OF_EQUAL = 0.1  # of rows, where a column is compared with a value


@dataclass(frozen=True)
class Sizes:
    """What is known before a run: the rows of each source (None if unknown), and the rows that each node returned and
    read in the last run.
    """

    sources: Mapping[str, int | None] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated rows of a node: `base` rows without predicates, of which `share` are kept. `scanned`: rows read
    from sources.
    """

    base: float
    share: float
    scanned: float
    remembered: bool = False

    @property
    def rows(self) -> float:
        return self.base * self.share


def estimate_rows(node: Node, below: Sequence[Estimate | None], sizes: Sizes) -> Estimate | None:
    """The estimated rows of a node; None if the size of one of its sources is unknown."""
    scanned = sum(each.scanned for each in below if each is not None)
    if node.id in sizes.rows and not isinstance(node, Source):
        return Estimate(sizes.rows[node.id], 1.0, scanned, remembered=True)
    known = [each for each in below if each is not None]
    if len(known) < len(below):
        return None
    return _guess_rows(node, known, scanned, sizes)


def _guess_rows(node: Node, below: list[Estimate], scanned: float, sizes: Sizes) -> Estimate | None:
    match node:
        case Source():
            rows = sizes.sources.get(node.step)
            return None if rows is None else Estimate(rows, 1.0, rows)
        case Filter():
            return Estimate(below[0].base, below[0].share * selectivity(node.where), scanned)
        case Project() | WithColumns() | Sort() | Window():
            many = (
                PER_ARRAY if any(expression.is_generator for expression, _ in node.expressions_with_schemas()) else 1.0
            )
            return Estimate(below[0].base * many, below[0].share, scanned)
        case GroupLimit():
            return below[0]
        case Limit():
            behind = max(below[0].rows - node.offset, 0)
            return Estimate(behind if node.n is None else min(node.n, behind), 1.0, scanned)
        case Explode():
            return Estimate(below[0].base * PER_ARRAY, below[0].share, scanned)
        case Aggregate():
            return (
                Estimate(below[0].base, below[0].share * OF_GROUPS, scanned) if node.keys else Estimate(1, 1.0, scanned)
            )
        case OuterValues() if node.repeats:
            return below[0]
        case Distinct():
            return Estimate(below[0].base, below[0].share * OF_GROUPS, scanned)
        case Union():
            return Estimate(sum(each.rows for each in below), 1.0, scanned)
        case Intersect() | Difference():
            return Estimate(below[0].base, below[0].share * 0.5, scanned)
        case Join():
            return _guess_join_rows(node, below[0], below[1], scanned)
        case _:
            assert_never(node)


def _guess_join_rows(node: Join, left: Estimate, right: Estimate, scanned: float) -> Estimate:
    if node.how == "semi" and isinstance(node.right, OuterValues):  # as large a share as of the values is there
        return Estimate(left.base, left.share * min(0.5, right.share), scanned)
    if node.how in ("semi", "anti"):
        return Estimate(left.base, left.share * 0.5, scanned)
    # Along a foreign key: each row of the larger side finds its one partner, unless that was filtered away.
    along_key = Estimate(max(left.base, right.base), left.share * right.share, scanned)
    share = selectivity(node.on) if node.on is not None else 1.0
    if node.equi_condition is not None and node.equi_condition.keys:
        matched = along_key
    elif node.on is not None and _compares_keys(node):
        matched = replace(along_key, share=along_key.share * min(1.0, share / SHARE_OF_EQUAL))
    else:
        matched = Estimate(left.rows * right.rows, share, scanned)
    least = {"left": left.rows, "right": right.rows, "full": left.rows + right.rows}.get(node.how, 0.0)
    return matched if matched.rows >= least else Estimate(least, 1.0, scanned)


def _compares_keys(node: Join) -> bool:
    """Whether `on` compares a column of each side wherever it is true: in one conjunct, or in every branch of an OR."""
    assert node.on is not None
    return _holds_everywhere(node.on.tree, lambda each: _is_key(each, node))


def _holds_everywhere(tree: exp.Expr, is_wanted: Callable[[exp.Expr], bool]) -> bool:
    from sqlglot import exp

    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return any(_holds_everywhere(each, is_wanted) for each in tree.flatten(unnest=False))
    if isinstance(tree, exp.Or):
        return all(_holds_everywhere(each, is_wanted) for each in tree.flatten(unnest=False))
    return is_wanted(tree)


def _is_key(tree: exp.Expr, node: Join) -> bool:
    from sqlglot import exp

    if not isinstance(tree, exp.EQ):
        return False
    columns = [each for each in (tree.this, tree.expression) if isinstance(each, exp.Column)]
    sides = {node.side_of(ColumnRef(tuple(part.name for part in each.parts))) for each in columns}
    return sides == {"left", "right"}


def selectivity(expression: Expression) -> float:
    """The estimated share of rows for which a predicate is true."""
    return _share(expression.tree)


def _share(tree: exp.Expr) -> float:
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        return _share(tree.this)
    if isinstance(tree, exp.And):  # a chain of thousands is as deep a tree
        return prod(_share(each) for each in tree.flatten(unnest=False))
    if isinstance(tree, exp.Or):
        return 1 - prod(1 - _share(each) for each in tree.flatten(unnest=False))
    if isinstance(tree, exp.Not):
        return 1 - _share(tree.this)
    if isinstance(tree, exp.In):
        return min(0.5, 0.1 * max(1, len(tree.expressions)))
    for kinds, share in (
        ((exp.EQ, exp.NullSafeEQ, exp.Is, exp.Like, exp.ILike, exp.RegexpLike), SHARE_OF_EQUAL),
        ((exp.NEQ,), 0.9),
        ((exp.Between,), 0.25),
        ((exp.LT, exp.LTE, exp.GT, exp.GTE), 0.33),
    ):
        if isinstance(tree, kinds):
            return share
    return 0.33
