"""Which columns of an expression its value discloses. Marks of personal data are passed on to such values.

Most columns of an expression show in its value, possibly as a hash, a length or a comparison. A value that only states
how many values there are, or whether there is one, discloses nothing of the column itself, but it does disclose a value
that was compared before: `CASE WHEN x = 'Bob' THEN 1 END` is null or not, and so tells who is called Bob. In case of
doubt the column counts as disclosed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

# Anonymous to sqlglot, and no more than a test for null or a number of rows.
_TESTS = frozenset({"isnull", "isnotnull"})


@dataclass(frozen=True)
class DisclosedColumns:
    """The columns of an expression whose values it may disclose, and those of which it only tells whether they are
    null.
    """

    by_value: list[exp.Column] = field(default_factory=list)
    by_null: list[exp.Column] = field(default_factory=list)


def disclosed_columns(tree: exp.Expr, *, only_null: bool = False) -> DisclosedColumns:
    """The columns that the expression's value may disclose; with `only_null`, those that its being null may disclose.

    count, count(DISTINCT …) and tests for null only show whether there is a value; max_by and min_by return the value
    of their first argument; typeof discloses nothing.
    """
    from sqlglot import exp

    counts = (exp.Count, exp.ApproxDistinct, exp.RegrCount, exp.IsNan)
    found = DisclosedColumns()
    # Two questions are asked of a node: what its value shows, and what only its being null shows.
    open_: list[tuple[exp.Expr, bool]] = [(tree, only_null)]
    while open_:
        node, only_null = open_.pop()
        if isinstance(node, exp.Column):
            (found.by_null if only_null else found.by_value).append(node)
        elif _is_null_test(node):
            open_.append((_null_test_operand(node), True))
        elif isinstance(node, counts):
            open_ += [(each, True) for each in node.iter_expressions()]
        elif isinstance(node, exp.ArgMax | exp.ArgMin):
            open_.append((node.this, only_null))
        elif isinstance(node, exp.Nvl2):
            open_.append((node.this, True))
            open_ += [(node.args[name], only_null) for name in ("true", "false") if node.args.get(name)]
        elif isinstance(node, exp.If) and only_null:
            open_.append((node.this, False))
            open_ += [(node.args[name], True) for name in ("true", "false") if node.args.get(name)]
        elif isinstance(node, exp.Case) and only_null:
            open_ += [(each, each is not node.this) for each in node.iter_expressions()]
        elif not isinstance(node, exp.Typeof):
            same = only_null and _propagates_null(node)
            open_ += [(each, same) for each in node.iter_expressions()]
    return found


def _is_null_test(node: exp.Expr) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null)
    return isinstance(node, exp.Anonymous) and node.name.lower() in _TESTS and len(node.expressions) == 1


def _null_test_operand(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    tested: exp.Expr = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    return tested


def _propagates_null(node: exp.Expr) -> bool:
    """Whether the expression is null only if a part of it is null, and never because of the values of its parts."""
    from sqlglot import exp

    if isinstance(node, exp.Cast | exp.TryCast):
        return bool(node.to.is_type(*exp.DataType.TEXT_TYPES))
    return isinstance(
        node,
        exp.Paren | exp.Tuple | exp.Distinct | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Lower | exp.Upper
        | exp.Trim | exp.Initcap | exp.Concat | exp.DPipe | exp.Coalesce,
    )  # fmt: skip
