"""Decides whether two floating-point numbers count as equal in a diff. Pure SQL text.

The last digits of a sum or average of doubles depend on the order of addition, which may differ from run to run. Two
finite numbers are therefore equal if they differ by no more than `tolerance` times the larger absolute value.
Infinities and NaN are equal only to themselves, null to null, -0.0 to 0.0. No number except zero equals zero. Numbers
inside lists, structs and map values are compared the same way. All other types are compared exactly, including
decimals, whose sums are exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lineage_service.errors import QuestionError
from lineage_service.store.duckdb_engine import column

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

TOLERANCE = 1e-9
_FLOATING = ("DOUBLE", "FLOAT")


def checked_tolerance(value: object) -> float:
    """The tolerance as a number. Raises QuestionError if it is not a number or is so large that different numbers
    become equal.
    """
    wanted = "a tolerance is a number from 0 (exact) to below 1"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuestionError(f"{wanted}, not {type(value).__name__}", hint="0.01 is one per cent; the default is 1e-9")
    if not (math.isfinite(value) and 0 <= value < 1):
        raise QuestionError(f"{wanted}, not {value}", hint="0.01 is one per cent; the default is 1e-9")
    return float(value)


def has_floating(type_text: str) -> bool:
    """Whether a type is or holds a floating-point number that a tolerance may apply to."""
    return any(name in type_text for name in _FLOATING)


def differs(a: str, b: str, type_text: str, tolerance: float) -> str:
    """SQL that is true if two values differ by more than the tolerance, and never null. Maps must be sorted lists of
    entries.
    """
    exact = f"{a} IS DISTINCT FROM {b}"
    if not tolerance or not has_floating(type_text):
        return exact
    import duckdb

    # The plain comparison comes first: most values are equal, and nothing else is evaluated then.
    return f"({exact} AND NOT {_close(a, b, duckdb.sqltype(type_text), tolerance, 0)})"


def _close(a: str, b: str, kind: DuckDBPyType, tolerance: float, depth: int) -> str:
    if not has_floating(str(kind)):
        return f"({a} IS NOT DISTINCT FROM {b})"
    if kind.id in ("double", "float"):
        bound = f"{tolerance!r}::DOUBLE * greatest(abs({a}::DOUBLE), abs({b}::DOUBLE))"
        within = f"isfinite({a}) AND isfinite({b}) AND abs({a}::DOUBLE - {b}::DOUBLE) <= {bound}"
        return f"({a} IS NOT DISTINCT FROM {b} OR coalesce({within}, false))"
    parts = dict(kind.children)
    if kind.id == "struct":
        fields = [
            _close(f"{a}.{column(name)}", f"{b}.{column(name)}", field, tolerance, depth)
            for name, field in parts.items()
            if not isinstance(field, int | list)
        ]
        return f"(({a} IS NULL) = ({b} IS NULL) AND ({a} IS NULL OR ({' AND '.join(fields)})))"
    pair = f"p{depth}"
    one, other = f"{pair}[1]", f"{pair}[2]"
    if kind.id == "map":
        key = f"({one}.key IS NOT DISTINCT FROM {other}.key)"
        value = _close(f"{one}.value", f"{other}.value", _type(parts["value"]), tolerance, depth + 1)
        element = f"{key} AND {value}"
    elif kind.id in ("list", "array"):
        element = _close(one, other, _type(parts["child"]), tolerance, depth + 1)
    else:
        return f"({a} IS NOT DISTINCT FROM {b})"
    pairs = f"list_transform(list_zip({a}, {b}), lambda {pair}: {element})"
    alike = f"len({a}) = len({b}) AND coalesce(list_bool_and({pairs}), true)"
    return f"(({a} IS NULL) = ({b} IS NULL) AND ({a} IS NULL OR ({alike})))"


def _type(kind: DuckDBPyType | int | list[str]) -> DuckDBPyType:
    assert not isinstance(kind, int | list)  # other children are sizes and names; elements and values are types
    return kind
