"""Values as Spark compares, orders, casts and shows them: the lowest layer of the oracle.

Values: int, float, Decimal, str, bool, date, datetime, bytes, None; an array is a list, a struct a dict,
a map a `Map`.
"""

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cmp_to_key

from sqlglot import exp

TINYINT = (-(2**7), 2**7 - 1)
INT = (-(2**31), 2**31 - 1)
BIGINT = (-(2**63), 2**63 - 1)


class Unsupported(Exception):
    """The oracle does not know this expression, or Spark would raise an error here (ANSI mode)."""


class Map(dict):
    """A map value; a plain dict is a struct."""


# --- equality and order -------------------------------------------------------------------------------


def canonical(value):
    """A hashable form, equal for what Spark groups together: nulls, NaNs, -0.0 and 0.0, nested ones too."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float | Decimal):
        return ("nan",) if is_nan(value) else ("number", normalised(value))
    if isinstance(value, Map):
        return ("map", frozenset((canonical(k), canonical(v)) for k, v in value.items()))
    if isinstance(value, dict):
        return ("struct", tuple(canonical(v) for v in value.values()))
    if isinstance(value, list | tuple):
        return ("array", tuple(canonical(v) for v in value))
    return (type(value).__name__, value)


def normalised(value):
    """The value with every -0.0 made 0.0, as Spark shows group keys."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Map):
        return Map((normalised(k), normalised(v)) for k, v in value.items())
    if isinstance(value, dict):
        return {k: normalised(v) for k, v in value.items()}
    if isinstance(value, list):
        return [normalised(v) for v in value]
    return value


def is_nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def is_number(value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def to_common(a, b):
    """Both values in one type, where Spark would cast one of them for arithmetic or a comparison."""
    if isinstance(a, float) and isinstance(b, Decimal):
        return a, float(b)
    if isinstance(a, Decimal) and isinstance(b, float):
        return float(a), b
    if type(a) is datetime.date and isinstance(b, str):
        return a, datetime.date.fromisoformat(b)
    if isinstance(a, str) and type(b) is datetime.date:
        return datetime.date.fromisoformat(a), b
    return a, b


def compare(a, b) -> int:
    """Spark's order inside one type: null first, NaN last, -0.0 = 0.0, arrays and structs by element."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, dict) and isinstance(b, dict) and not isinstance(a, Map):
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list) and isinstance(b, list):
        for x, y in zip(a, b, strict=False):
            if order := compare(x, y):
                return order
        return (len(a) > len(b)) - (len(a) < len(b))
    a, b = to_common(a, b)
    if is_number(a) and is_number(b):
        if is_nan(a) or is_nan(b):
            return is_nan(a) - is_nan(b)
    elif type(a) is not type(b) or isinstance(a, Map):
        raise Unsupported(f"comparing {a!r} with {b!r}")
    return (a > b) - (a < b)


def equal(a, b) -> bool | None:
    """SQL's `=`: null where either side is null (nulls nested inside compare as equal, as in Spark)."""
    return None if a is None or b is None else compare(a, b) == 0


@dataclass(frozen=True)
class Ordering:
    """One entry of an order: `expression [asc|desc] [nulls first|last]`."""

    expression: str
    descending: bool
    nulls_first: bool

    @classmethod
    def parse(cls, text: str) -> "Ordering":
        pattern = r"(?is)\s*(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*"
        expression, direction, nulls = re.fullmatch(pattern, text).groups()
        descending = (direction or "").lower() == "desc"
        return cls(expression, descending, nulls.lower() == "first" if nulls else not descending)


def compare_in_order(orderings: Sequence[Ordering], a: Sequence, b: Sequence) -> int:
    for ordering, x, y in zip(orderings, a, b, strict=True):
        if x is None or y is None:
            order = ((y is None) - (x is None)) * (1 if ordering.nulls_first else -1)
        else:
            order = compare(x, y) * (-1 if ordering.descending else 1)
        if order:
            return order
    return 0


def sort_key(orderings: Sequence[Ordering]) -> Callable:
    return cmp_to_key(lambda a, b: compare_in_order(orderings, a, b))


# --- casts ---


def checked(value):
    if isinstance(value, int) and not isinstance(value, bool) and not BIGINT[0] <= value <= BIGINT[1]:
        raise Unsupported("overflow")
    return value


def cast_value(value, kind: str, type_node: exp.DataType):
    try:
        match kind:
            case "TINYINT" | "INT" | "BIGINT":
                if is_nan(value):
                    raise Unsupported("NaN as an integer")
                number = int(value)
                low, high = {"TINYINT": TINYINT, "INT": INT}.get(kind, BIGINT)
                if not low <= number <= high:
                    raise Unsupported("overflow")
                return number
            case "DOUBLE":
                return float(value)
            case "TEXT" | "VARCHAR":
                return text_of(value)
            case "BOOLEAN" if isinstance(value, bool):
                return value
            case "DECIMAL":
                scale = int(type_node.expressions[1].name) if len(type_node.expressions) > 1 else 0
                return Decimal(text_of(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            case "DATE":
                return date_of(value)
            case "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMPNTZ" if isinstance(value, str):
                return datetime.datetime.fromisoformat(value)
    except (ValueError, ArithmeticError) as error:
        raise Unsupported(f"cast of {value!r} to {kind}") from error
    raise Unsupported(f"cast of {value!r} to {kind}")


def date_of(value) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def text_of(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if is_nan(value):
            return "NaN"
        if value and not 1e-3 <= abs(value) < 1e7:
            raise Unsupported("a double in scientific notation as text")
        return repr(value)
    if isinstance(value, str | int | Decimal) or type(value) is datetime.date:
        return str(value)
    raise Unsupported(f"{value!r} as text")
