"""Spark SQL expressions over plain Python values: the scalar half of the oracle.

What is not known here raises `Unsupported`: the oracle never guesses.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, cmp_to_key
from typing import Any

import sqlglot
from sqlglot import exp

from tests.oracle.reference_values import (
    Map,
    Unsupported,
    canonical,
    cast_value,
    checked,
    compare,
    date_of,
    equal,
    is_number,
    text_of,
    to_common,
)

# --- scopes -------------------------------------------------------------------------------------------


class Raised(Exception):
    """The expression itself ends the query with an error."""


class Ambiguous(Exception):
    """A name is read that both sides of a join carry."""


class Scope:
    """The columns of one row, by name, whatever the case."""

    def __init__(self, values: dict, ambiguous=frozenset()):
        self.values = {name.lower(): value for name, value in values.items()}
        self.ambiguous = frozenset(name.lower() for name in ambiguous)
        self.known: dict[int, object] = {}  # values of nodes computed beforehand, by id: subqueries, see sql_rows.py

    def get(self, name: str):
        if name.lower() in self.ambiguous:
            raise Ambiguous(name)
        if name.lower() not in self.values:
            raise Unsupported(f"unknown column {name}")
        return self.values[name.lower()]

    def path(self, parts: list[str]):
        return fields_of(self.get(parts[0]), parts[1:])


class JoinScope(Scope):
    """The columns of a pair of rows; `left.` and `right.` say which, needed where both have the name."""

    def __init__(self, left: Scope, right: Scope):
        both = set(left.values) & set(right.values)
        super().__init__({**left.values, **right.values}, both | left.ambiguous | right.ambiguous)
        self.sides = {"left": left, "right": right}

    def path(self, parts: list[str]):
        if len(parts) > 1 and parts[0].lower() in self.sides:
            return self.sides[parts[0].lower()].path(parts[1:])
        return super().path(parts)


def fields_of(value, names: list[str]):
    for name in names:
        if value is None:
            return None
        if not isinstance(value, dict) or isinstance(value, Map):
            raise Unsupported(f"field {name} of {value!r}")
        value = Scope(value).get(name)
    return value


@dataclass(frozen=True)
class Context:
    row: Scope | None
    group: list[Scope] | None = None  # what an aggregate function runs over
    window: Any = None  # the row's place in its partition, with the functions that need one: reference_windows.py
    variables: tuple[tuple[str, Any], ...] = ()  # of the lambdas around, the innermost last


# --- evaluation ---------------------------------------------------------------------------------------


@cache
def parsed(text: str) -> exp.Expression:
    return sqlglot.parse_one(text, dialect="spark")


def evaluate_expression(expression: str, context: Context):
    return value_of(parsed(str(expression)), context)


def value_of(node: exp.Expression, context: Context):
    if context.row is not None and id(node) in context.row.known:
        return context.row.known[id(node)]
    for table in (NULL_AWARE, AGGREGATES, context.window.functions if context.window else {}):
        if type(node) in table:
            return table[type(node)](node, context)
    if type(node) in STRICT and not node.args.get("offset"):
        arguments, function = STRICT[type(node)]
        nodes = [n for name in arguments for n in listed(node.args.get(name))]
        values = [value_of(n, context) for n in nodes]
        return None if any(v is None for v in values) else checked(function(*values))
    raise Unsupported(f"{type(node).__name__}: {node.sql('spark')}")


def listed(value) -> list:
    return value if isinstance(value, list) else [] if value is None else [value]


def column(node: exp.Column, context: Context):
    bound = [value for name, value in context.variables if name == node.parts[0].name.lower()]
    if bound:  # of a lambda, in other letters
        return fields_of(bound[-1], [part.name for part in node.parts[1:]])
    if context.row is None:
        raise Unsupported("a plain column in an aggregate without rows")
    return context.row.path([part.name for part in node.parts])


def literal(node: exp.Literal, context: Context):
    if node.is_string:
        return node.this
    if re.fullmatch(r"\d+", node.this):
        return checked(int(node.this))
    return float(node.this) if "e" in node.this.lower() else Decimal(node.this)


def conjunction(node, context):
    sides = truth(node.this, context), truth(node.expression, context)
    return False if False in sides else None if None in sides else True


def disjunction(node, context):
    sides = truth(node.this, context), truth(node.expression, context)
    return True if True in sides else None if None in sides else False


def truth(node, context) -> bool | None:
    value = value_of(node, context)
    if value is not None and not isinstance(value, bool):
        raise Unsupported(f"{value!r} is no boolean")
    return value


def is_(node, context):
    if not isinstance(node.expression, exp.Null | exp.Boolean):
        raise Unsupported(node.sql("spark"))
    return canonical(value_of(node.this, context)) == canonical(value_of(node.expression, context))


def in_(node, context):
    value = value_of(node.this, context)
    if node.args.get("query") or node.args.get("unnest"):
        raise Unsupported("IN with a subquery")
    answers = [equal(value, value_of(n, context)) for n in node.expressions]
    return True if True in answers else None if None in answers else False


def between(node, context):
    value, low, high = (value_of(node.args[name], context) for name in ("this", "low", "high"))
    above = None if value is None or low is None else compare(value, low) >= 0
    below = None if value is None or high is None else compare(value, high) <= 0
    return False if False in (above, below) else None if None in (above, below) else True


def case(node, context):
    for branch in node.args["ifs"]:
        if node.this is not None:
            chosen = equal(value_of(node.this, context), value_of(branch.this, context))
        else:
            chosen = truth(branch.this, context)
        if chosen:
            return value_of(branch.args["true"], context)
    return value_of(node.args["default"], context) if node.args.get("default") else None


def if_(node, context):
    chosen = node.args["true"] if truth(node.this, context) else node.args.get("false")
    return None if chosen is None else value_of(chosen, context)


def coalesce(node, context):
    values = (value_of(n, context) for n in [node.this, *node.expressions])
    return next((v for v in values if v is not None), None)


def nullif(node, context):
    value = value_of(node.this, context)
    return None if equal(value, value_of(node.expression, context)) else value


def null_safe_equal(node, context):
    return canonical(value_of(node.this, context)) == canonical(value_of(node.expression, context))


def typeof(node, context):
    """Told only as far as PIVOT asks: whether a value is a text."""
    return "string" if isinstance(value_of(node.this, context), str) else "another"


def struct(node, context):
    if not all(isinstance(n, exp.PropertyEQ) for n in node.expressions):
        raise Unsupported("a struct with unnamed fields")
    return {n.name: value_of(n.expression, context) for n in node.expressions}


def cast(node, context):
    value, kind = value_of(node.this, context), node.args["to"]
    return None if value is None else cast_value(value, kind.this.name, kind)


def arithmetic(function: Callable) -> Callable:
    def apply(a, b):
        if not (is_number(a) and is_number(b)):
            raise Unsupported(f"arithmetic on {a!r} and {b!r}")
        return function(*to_common(a, b))

    return apply


def divided(a, b):
    if b == 0:
        raise Unsupported("division by zero")
    return a / b if isinstance(a, Decimal) or isinstance(b, Decimal) else float(a) / float(b)


def remainder(a, b):
    if b == 0:
        raise Unsupported("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        return int(math.copysign(abs(a) % abs(b), a))
    return a % b if isinstance(a, Decimal) or isinstance(b, Decimal) else math.fmod(a, b)


def like(text: str, pattern: str) -> bool:
    if "\\" in pattern:
        raise Unsupported("LIKE with an escape")
    regex = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def variable(node: exp.Identifier, context: Context):
    found = [value for name, value in context.variables if name == node.name.lower()]
    if not found:
        raise Unsupported(f"no variable {node.name}")
    return found[-1]


def anonymous(node: exp.Anonymous, context: Context):
    if node.name.lower() == "raise_error":
        raise Raised(node.sql("spark"))
    if node.name.lower() == "map_entries" and len(node.expressions) == 1:
        entries = value_of(node.expressions[0], context)
        return None if entries is None else [{"key": key, "value": value} for key, value in entries.items()]
    raise Unsupported(f"{type(node).__name__}: {node.sql('spark')}")


def map_of(node: exp.VarMap, context: Context):
    keys, values = value_of(node.args["keys"], context), value_of(node.args["values"], context)
    if None in keys or len({repr(canonical(key)) for key in keys}) != len(keys):
        raise Unsupported("a map with a null or a repeated key is an error in Spark")
    return Map(zip(keys, values, strict=True))


def called(function: exp.Lambda, context: Context, *values):
    """The value of a lambda for its arguments."""
    names = [each.name.lower() for each in function.expressions]
    bound = tuple(zip(names, values, strict=False))
    return value_of(function.this, replace(context, variables=(*context.variables, *bound)))


def transform(node: exp.Transform, context: Context):
    values = value_of(node.this, context)
    return None if values is None else [called(node.expression, context, v, i) for i, v in enumerate(values)]


def array_filter(node: exp.ArrayFilter, context: Context):
    values = value_of(node.this, context)
    return None if values is None else [v for v in values if called(node.expression, context, v) is True]


def reduce(node: exp.Reduce, context: Context):
    values, result = value_of(node.this, context), value_of(node.args["initial"], context)
    for value in values or []:
        result = called(node.args["merge"], context, result, value)
    return None if values is None else result


def item(value, index):
    if not isinstance(value, list) or not 0 <= index < len(value):
        raise Unsupported("an index out of bounds, or of no array")
    return value[index]


def one_field(node, context):
    return fields_of(value_of(node.this, context), [node.expression.name])


# --- aggregate functions ------------------------------------------------------------------------------


def group_values(node: exp.Expression, context: Context) -> list:
    if context.group is None:
        raise Unsupported("an aggregate function outside of an aggregate")
    return [value_of(node, Context(row)) for row in context.group]


def count(node, context):
    if isinstance(node.this, exp.Star):
        return len(context.group)
    if isinstance(node.this, exp.Distinct):
        columns = [group_values(n, context) for n in node.this.expressions]
        rows = [row for row in zip(*columns, strict=True) if None not in row]
        return len({canonical(row) for row in rows})
    columns = [group_values(n, context) for n in [node.this, *node.expressions]]
    return sum(None not in row for row in zip(*columns, strict=True))


def measured(node, context) -> list:
    """The non-null arguments of an aggregate function, once each under DISTINCT."""
    if isinstance(node.this, exp.Distinct):
        values = group_values(node.this.expressions[0], context)
        values = list({canonical(v): v for v in values}.values())
    else:
        values = group_values(node.this, context)
    return [v for v in values if v is not None]


def total(node, context):
    values = measured(node, context)
    if any(not is_number(v) for v in values):
        raise Unsupported("sum of what is no number")
    return checked(sum(values)) if values else None


def average(node, context):
    values = measured(node, context)
    if not values:
        return None
    if isinstance(values[0], Decimal):
        scale = max(-v.as_tuple().exponent for v in values) + 4
        return (sum(values) / len(values)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return float(sum(values)) / len(values)


def extreme(sign: int) -> Callable:
    def apply(node, context):
        values = measured(node, context)
        return max(values, key=cmp_to_key(lambda a, b: sign * compare(a, b))) if values else None

    return apply


def filtered(node, context):
    condition = node.expression.this
    kept = [row for row in context.group or [] if truth(condition, Context(row)) is True]
    return value_of(node.this, Context(context.row, kept))


def split(text, pattern, limit=-1):
    if limit > 0:
        raise Unsupported("split with a limit")
    if not pattern:
        raise Unsupported("split into letters")
    return re.split(pattern, text)


def sequence(start, end, step=None):
    if not all(isinstance(each, int) for each in (start, end, *([] if step is None else [step]))) or step == 0:
        raise Unsupported("a sequence of other than whole numbers")
    step = step or (1 if start <= end else -1)
    if start != end and (end > start) != (step > 0):
        raise Unsupported("a sequence that goes away from its end is an error in Spark")
    return list(range(start, end + (1 if step > 0 else -1), step))


NULL_AWARE = {
    exp.Column: column,
    exp.Literal: literal,
    exp.Null: lambda node, context: None,
    exp.Boolean: lambda node, context: bool(node.this),
    exp.Paren: lambda node, context: value_of(node.this, context),
    exp.And: conjunction,
    exp.Or: disjunction,
    exp.Is: is_,
    exp.In: in_,
    exp.Between: between,
    exp.Case: case,
    exp.If: if_,
    exp.Coalesce: coalesce,
    exp.Nullif: nullif,
    exp.Typeof: typeof,
    exp.NullSafeEQ: null_safe_equal,
    exp.Array: lambda node, context: [value_of(n, context) for n in node.expressions],
    exp.Struct: struct,
    exp.VarMap: map_of,
    exp.Cast: cast,
    exp.TryCast: cast,  # sqlglot reads Spark's CAST as this
    exp.Dot: one_field,
    exp.Identifier: variable,
    exp.Anonymous: anonymous,
    exp.Transform: transform,
    exp.ArrayFilter: array_filter,
    exp.Reduce: reduce,
}
STRICT: dict[type, tuple[tuple[str, ...], Callable]] = {
    exp.Not: (("this",), lambda a: not a),
    exp.EQ: (("this", "expression"), equal),
    exp.NEQ: (("this", "expression"), lambda a, b: compare(a, b) != 0),
    exp.LT: (("this", "expression"), lambda a, b: compare(a, b) < 0),
    exp.LTE: (("this", "expression"), lambda a, b: compare(a, b) <= 0),
    exp.GT: (("this", "expression"), lambda a, b: compare(a, b) > 0),
    exp.GTE: (("this", "expression"), lambda a, b: compare(a, b) >= 0),
    exp.Add: (("this", "expression"), arithmetic(lambda a, b: a + b)),
    exp.Sub: (("this", "expression"), arithmetic(lambda a, b: a - b)),
    exp.Mul: (("this", "expression"), arithmetic(lambda a, b: a * b)),
    exp.Div: (("this", "expression"), arithmetic(divided)),
    exp.Mod: (("this", "expression"), arithmetic(remainder)),
    exp.Neg: (("this",), lambda a: -a),
    exp.Abs: (("this",), abs),
    exp.Sqrt: (("this",), lambda a: math.nan if a < 0 else math.sqrt(a)),
    exp.Like: (("this", "expression"), like),
    exp.Length: (("this",), len),
    exp.Upper: (("this",), str.upper),
    exp.Lower: (("this",), str.lower),
    exp.Concat: (("expressions",), lambda *parts: "".join(map(text_of, parts))),
    exp.DPipe: (("this", "expression"), lambda *parts: "".join(map(text_of, parts))),
    exp.ArraySize: (("this",), len),
    exp.TsOrDsToDate: (("this",), date_of),
    exp.Year: (("this",), lambda day: day.year),
    exp.Month: (("this",), lambda day: day.month),
    exp.Bracket: (("this", "expressions"), item),  # without `offset`: element_at counts from 1
    exp.RegexpSplit: (("this", "expression", "limit"), split),
    exp.GenerateSeries: (("start", "end", "step"), sequence),
}
AGGREGATES = {
    exp.Count: count,
    exp.Sum: total,
    exp.Avg: average,
    exp.Min: extreme(-1),
    exp.Max: extreme(1),
    exp.Filter: filtered,
}
