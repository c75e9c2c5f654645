"""Which of the columns in an expression can be told from its value: what a mark of personal data is carried by.

An expression reads all its columns; most of them show in its value, be it as a hash, a length or a comparison. Only
what says no more than how many there are, or whether there is one, shows nothing of the column it looks at. Where
nobody can be sure, the column shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

# Anonymous to sqlglot, and no more than a test for null or a number of rows.
_TESTS = frozenset({"isnull", "isnotnull"})


def disclosed_columns(tree: exp.Expr) -> list[exp.Column]:
    """The columns whose values may be told from the value of the expression.

    count, count(DISTINCT …) and tests for null tell only whether there is a value; max_by and min_by give the value of
    their first argument; typeof tells nothing.
    """
    from sqlglot import exp

    counts = (exp.Count, exp.ApproxDistinct, exp.RegrCount, exp.IsNan)
    found: list[exp.Column] = []
    # Two questions are asked of a node: what its value shows, and what only its being null shows.
    open_: list[tuple[exp.Expr, bool]] = [(tree, False)]
    while open_:
        node, only_null = open_.pop()
        if isinstance(node, exp.Column):
            if not only_null:
                found.append(node)
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
    """Whether the expression is null because a part of it is, and never because of what the parts' values are."""
    from sqlglot import exp

    if isinstance(node, exp.Cast | exp.TryCast):
        return bool(node.to.is_type(*exp.DataType.TEXT_TYPES))
    return isinstance(
        node,
        exp.Paren | exp.Tuple | exp.Distinct | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Lower | exp.Upper
        | exp.Trim | exp.Initcap | exp.Concat | exp.DPipe | exp.Coalesce,
    )  # fmt: skip
