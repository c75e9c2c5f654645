"""Types of expressions, as far as they are surely known without Spark: fillna() and the like depend on them."""

from __future__ import annotations

from collections.abc import Callable

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_connect.data_types import type_text
from lineage_service.plan.from_connect.literals import literal_kind
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.nested_types import constructor

TypeOfColumn = Callable[[str], "str | None"]

_LITERALS = {"boolean": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint",
             "float": "float", "double": "double", "string": "string", "date": "date", "timestamp": "timestamp",
             "timestamp_ntz": "timestamp_ntz", "binary": "binary"}  # fmt: skip
_ALWAYS = {
    **dict.fromkeys(("count", "count_if", "monotonically_increasing_id", "approx_count_distinct",
                     "xxhash64", "unix_timestamp"), "bigint"),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile", "year", "month", "dayofmonth", "quarter", "hour",
                     "minute", "second", "length", "size", "datediff", "hash"), "int"),
    **dict.fromkeys(("concat_ws", "upper", "lower", "trim", "ltrim", "rtrim", "substring", "regexp_replace",
                     "regexp_extract", "date_format", "initcap", "to_json", "lpad", "rpad"), "string"),
    **dict.fromkeys(("to_date", "date_add", "date_sub", "last_day", "add_months", "current_date"), "date"),
    **dict.fromkeys(("and", "or", "not", "==", "<", "<=", ">", ">=", "<=>", "isnull", "isnotnull", "in", "like",
                     "rlike", "contains", "startswith", "endswith", "array_contains"), "boolean"),
    **dict.fromkeys(("rand", "randn", "sqrt", "exp", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp",
                     "var_pop", "percent_rank", "cume_dist"), "double"),
}  # fmt: skip
_AS_ARGUMENT = frozenset({"min", "max", "first", "last", "first_value", "last_value", "any_value", "lag", "lead",
                          "max_by", "min_by", "nullif"})  # fmt: skip
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


def value_type(bound: Message, column_type: TypeOfColumn) -> str | None:
    """The type of a bound expression; None where it is not surely known."""
    kind, inner = kind_of(bound)
    match kind:
        case "bound_column":
            return column_type(inner.text("internal"))
        case "literal":
            return _LITERALS.get(literal_kind(inner)[0])
        case "alias":
            inside = inner.message("expr")
            return None if inside is None else value_type(inside, column_type)
        case "cast":
            return _cast(inner)
        case "window":
            function = inner.message("window_function")
            return None if function is None else value_type(function, column_type)
        case "unresolved_function":
            return _function(inner, column_type)
        case "common_inline_user_defined_function":
            udf = inner.message("python_udf")
            type_ = udf.message("output_type") if udf is not None else None
            return None if type_ is None else _plain(type_text(type_))
    return None


def _cast(inner: Message) -> str | None:
    type_ = inner.message("type")
    return _plain(type_text(type_) if type_ is not None else inner.text("type_str"))


_SYNONYMS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}


def _plain(type_: str | None) -> str | None:
    """A type as Spark tells it, where it has no parts whose spelling may differ."""
    if type_ is None or "<" in type_ or " " in type_ or constructor(type_) in ("char", "varchar", "void", "null"):
        return None
    lower = type_.lower()
    return _SYNONYMS.get(lower, lower)


def _function(inner: Message, column_type: TypeOfColumn) -> str | None:
    name, arguments = inner.text("function_name").lower(), inner.messages("arguments")
    if name in _ALWAYS:
        return _ALWAYS[name]
    types = [value_type(each, column_type) for each in arguments]
    if not types or types[0] is None:
        return None
    first = types[0]
    if name in _AS_ARGUMENT:
        return first
    if name == "sum":
        return "bigint" if first in _WHOLE else "double" if first in ("float", "double") else None
    if name in ("avg", "mean"):
        return "double" if family(first) == "number" and constructor(first) != "decimal" else None
    if name == "coalesce" and len(set(types)) == 1:
        return first
    if name == "when":
        values = [*types[1::2], *(types[-1:] if len(types) % 2 else ())]
        return values[0] if len(set(values)) == 1 else None
    if name in ("+", "-", "*") and len(types) == 2 and types[0] == types[1] and first in (*_WHOLE, "float", "double"):
        return first
    return None
