"""Names of fields that functions take from their arguments: struct(a, b), (a, b) and arrays_zip(a, b).

In the text over the plan, a column has another name than in the query. These functions must still give their fields
the names that the query's columns have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp

Replacement = tuple[int, int, str]  # offset of the first character, of the one behind the last, and the new text
TextWith = Callable[[int, int, Sequence[Replacement]], str]

_ELEMENT = "zipped__element"


def is_row(node: exp.Expr) -> bool:
    """Whether a node is a struct `(a, b)`. Comparisons ignore the names of its fields."""
    from sqlglot import exp

    return isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.Predicate | exp.In)


def field_name(value: exp.Expr) -> str | None:
    """The name of the field that struct() makes of an argument; None where Spark numbers it."""
    from sqlglot import exp

    value = value.unnest()
    match value:
        case exp.Column() | exp.Identifier():
            return str(value.name)
        case exp.Dot() if isinstance(value.expression, exp.Identifier):
            return str(value.expression.name)
        case exp.Bracket() if len(value.expressions) == 1 and value.expressions[0].is_string:
            return str(value.expressions[0].name)
    return None


def is_replaced_whole(value: exp.Expr, replaced: Sequence[Replacement]) -> bool:
    """Whether one text takes the place of a whole argument, with or without the parentheses around it."""
    from sqlglot import exp

    if len(replaced) != 1 or SPAN not in value.meta:
        return False
    while replaced[0][:2] != tuple(value.meta.get(SPAN, ())):
        if not isinstance(value, exp.Paren | exp.Subquery):
            return False
        value = value.this
    return True


def zipped_arrays(
    call: exp.Expr, replaced: Sequence[Replacement], text_of: Callable[[exp.Expr], str], text_with: TextWith
) -> Iterator[Replacement]:
    """arrays_zip(). It takes no names for its fields: where columns are replaced, the fields are numbered, as Spark
    numbers arrays that are no columns, and the elements are made anew.
    """
    parts: list[Replacement] = []
    is_renamed = False
    for argument in call.expressions:
        own = [each for each in replaced if _is_inside(each, argument)]
        is_renamed = is_renamed or is_replaced_whole(argument, own)
        if SPAN in argument.meta:
            parts.append((*argument.meta[SPAN], f"coalesce({text_of(argument)})"))
    if not is_renamed or len(parts) < len(call.expressions):
        yield from replaced
        return
    names = [field_name(argument) or str(index) for index, argument in enumerate(call.expressions)]
    fields = ", ".join(f"{_text_literal(name)}, {_ELEMENT}.`{index}`" for index, name in enumerate(names))
    start, end = call.meta[SPAN]
    yield start, end, f"transform({text_with(start, end, parts)}, {_ELEMENT} -> named_struct({fields}))"


def _is_inside(replaced: Replacement, node: exp.Expr) -> bool:
    start, end = node.meta.get(SPAN, (0, 0))
    return bool(start <= replaced[0] < end)


def _text_literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
