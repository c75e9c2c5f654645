"""The name that Spark gives a column of a data frame that has none: the resolved expression as Spark prints it.

Only what is surely printed so is named. Anything else has no name here; the program, or Spark, may know it.
"""

from __future__ import annotations

from lineage_service.plan.from_connect.bound_expressions import COLUMN
from lineage_service.plan.from_connect.data_types import type_text
from lineage_service.plan.from_connect.expression_rendering import OPERATORS
from lineage_service.plan.from_connect.literals import literal_name
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_sql.spark_call_names import AS_CALLED
from lineage_service.plan.nodes import Node

# As AS_CALLED: each was looked up in Spark. It adds arguments that are left away, which is why some need all.
_AS_CALLED_TOO = frozenset(
    [
        "add_months",
        "approx_count_distinct",
        "array",
        "array_append",
        "array_contains",
        "array_distinct",
        "array_except",
        "array_intersect",
        "array_max",
        "array_min",
        "array_position",
        "array_remove",
        "array_repeat",
        "array_size",
        "array_union",
        "ascii",
        "bin",
        "bool_and",
        "bool_or",
        "bround",
        "cardinality",
        "char_length",
        "concat_ws",
        "contains",
        "corr",
        "count_if",
        "covar_pop",
        "covar_samp",
        "crc32",
        "date_diff",
        "date_format",
        "date_sub",
        "day",
        "dayofmonth",
        "dayofweek",
        "dayofyear",
        "element_at",
        "endswith",
        "equal_null",
        "first_value",
        "get",
        "get_json_object",
        "greatest",
        "hash",
        "hex",
        "initcap",
        "instr",
        "isnan",
        "kurtosis",
        "last",
        "last_day",
        "last_value",
        "least",
        "levenshtein",
        "ln",
        "ltrim",
        "map",
        "map_from_arrays",
        "max_by",
        "md5",
        "median",
        "min_by",
        "mod",
        "mode",
        "nanvl",
        "next_day",
        "pmod",
        "pow",
        "quarter",
        "repeat",
        "reverse",
        "right",
        "rtrim",
        "sequence",
        "sha1",
        "shiftleft",
        "size",
        "skewness",
        "soundex",
        "startswith",
        "std",
        "to_date",
        "to_timestamp",
        "trunc",
        "try_add",
        "try_divide",
        "typeof",
        "unix_date",
        "weekofyear",
        "xxhash64",
    ]
)
_ARGUMENTS = {
    **dict.fromkeys(("substr", "substring"), 3),
    **dict.fromkeys(("round", "bround", "sequence", "try_add", "try_divide", "left", "right", "instr"), 2),
    **dict.fromkeys(("first", "last", "first_value", "last_value", "any_value", "approx_count_distinct", "to_date",
                     "to_timestamp", "trim", "ltrim", "rtrim", "mode", "median"), 1),
}  # fmt: skip
_IN_CAPITALS = {
    **dict.fromkeys(("sqrt", "floor", "ceil", "exp", "log10", "log2", "signum", "sin", "cos", "tan", "cbrt",
                     "degrees"), 1),
    **dict.fromkeys(("power", "atan2", "hypot", "rlike"), 2),
}  # fmt: skip


def result_name(node: Node, bound: Message) -> str | None:
    """The name of an expression over a node's columns; None where it is not surely known."""
    kind, inner = kind_of(bound)
    if kind == COLUMN:
        return None if "name" not in inner else inner.text("name")
    if kind == "cast":
        inside = inner.message("expr")
        if inside is not None and kind_of(inside)[0] == COLUMN:
            return result_name(node, inside)
    if kind == "unresolved_extract_value":
        return _field(inner)
    return _name(node, bound)


def _field(inner: Message) -> str | None:
    """A field of a struct is called like the field; an element of a map or an array is not known from here."""
    extraction = inner.message("extraction")
    kind, literal = kind_of(extraction) if extraction is not None else ("", inner)
    value = literal.get("string") if kind == "literal" else None
    child = inner.message("child")
    is_attribute = child is not None and kind_of(child)[0] == COLUMN and inner.get("dotted") is not None
    return value if isinstance(value, str) and is_attribute else None


def _name(node: Node, bound: Message) -> str | None:
    kind, inner = kind_of(bound)
    match kind:
        case "bound_column":
            return None if "name" not in inner else inner.text("name")
        case "bound_text":
            return None if "name" not in inner else inner.text("name")
        case "literal":
            return literal_name(inner)
        case "cast":
            return _cast(node, inner)
        case "unresolved_function":
            return _function(node, inner)
    return None


def _cast(node: Node, inner: Message) -> str | None:
    inside, type_ = inner.message("expr"), inner.message("type")
    name = _name(node, inside) if inside is not None else None
    named = type_text(type_) if type_ is not None else inner.text("type_str").upper()
    if name is None or named is None or "(" in named or "<" in named or "eval_mode" in inner:
        return None
    named = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT"}.get(named, named)
    return f"CAST({name} AS {named})"


def _function(node: Node, inner: Message) -> str | None:
    called, arguments = inner.text("function_name"), inner.messages("arguments")
    lower = called.lower()
    names = [_name(node, each) for each in arguments]
    if any(name is None for name in names):
        return None
    parts = [str(name) for name in names]
    if lower in OPERATORS and len(parts) == 2:
        if lower in ("!=", "<>"):
            return f"(NOT ({parts[0]} = {parts[1]}))"
        return f"({parts[0]} {OPERATORS[lower]} {parts[1]})"
    if lower in ("not", "!") and len(parts) == 1:
        return f"(NOT {parts[0]})"
    if lower in ("isnull", "isnotnull") and len(parts) == 1:
        return f"({parts[0]} IS {'NOT ' if lower == 'isnotnull' else ''}NULL)"
    if lower == "in" and len(parts) > 1:
        return f"({parts[0]} IN ({', '.join(parts[1:])}))"
    if lower == "when":
        return _case(parts)
    if lower in _IN_CAPITALS and len(parts) == _IN_CAPITALS[lower]:
        return f"{lower.upper()}({', '.join(parts)})"
    if (lower in AS_CALLED or lower in _AS_CALLED_TOO) and len(parts) == _ARGUMENTS.get(lower, len(parts)):
        distinct = "DISTINCT " if inner.flag("is_distinct") else ""
        return f"{lower}({distinct}{', '.join(parts)})"
    return None


def _case(parts: list[str]) -> str:
    pairs = zip(parts[::2], parts[1::2], strict=False)
    otherwise = f" ELSE {parts[-1]}" if len(parts) % 2 else ""
    return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in pairs)}{otherwise} END"
