"""How Spark writes calls of functions in the names of columns, with FILTER, WITHIN GROUP and OVER.

The name of a function that is in none of the tables here is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.spec.sql_parsing import CALL, SPAN

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

Namer = Callable[["exp.Expr"], str]

# Written in lower case, with the arguments as given.
AS_CALLED = frozenset({
    "abs", "add_months", "aggregate", "any", "any_value", "approx_count_distinct", "approx_percentile", "array",
    "array_append", "array_compact", "array_contains", "array_distinct", "array_except", "array_insert",
    "array_intersect", "array_join", "array_max", "array_min", "array_position", "array_prepend",
    "array_remove", "array_repeat", "array_sort", "array_union", "arrays_overlap", "arrays_zip", "ascii", "avg",
    "base64", "bin", "bit_and", "bit_count", "bit_length", "bit_or", "bit_xor", "bool_and", "bool_or", "bround",
    "btrim", "cardinality", "ceiling", "char", "char_length", "character_length", "chr", "coalesce",
    "collect_list", "collect_set", "concat", "concat_ws", "contains", "conv", "corr", "count", "count_if",
    "covar_pop", "covar_samp", "crc32", "cume_dist", "current_date", "current_timestamp", "current_user",
    "date_add", "date_diff", "date_format", "date_part", "date_sub", "date_trunc", "datediff", "day",
    "dayofmonth", "dayofweek", "dayofyear", "element_at", "elt", "endswith", "every", "exists", "filter",
    "first", "first_value", "flatten", "forall", "format_number", "format_string", "from_unixtime", "get",
    "get_json_object", "greatest", "grouping", "grouping_id", "hash", "hex", "hour", "ifnull", "initcap",
    "instr", "isnan", "kurtosis", "lag", "last", "last_day", "last_value", "lcase", "lead", "least", "left",
    "len", "length", "levenshtein", "listagg", "ln", "locate", "lower", "lpad", "ltrim", "make_date", "map",
    "map_concat", "map_entries", "map_filter", "map_from_arrays", "map_from_entries", "map_keys", "map_values",
    "max", "max_by", "md5", "mean", "median", "min", "min_by", "minute", "mod", "mode", "month",
    "months_between", "named_struct", "nanvl", "negative", "next_day", "now", "nth_value", "ntile", "nullif",
    "nullifzero", "nvl", "nvl2", "overlay", "percentile", "percentile_approx", "pmod", "position", "pow",
    "printf", "quarter", "reduce", "regexp_extract", "regexp_replace", "repeat", "replace", "reverse", "right",
    "rint", "round", "row_number", "rpad", "rtrim", "second", "sequence", "sha", "sha1", "sha2", "shiftleft",
    "sign", "size", "skewness", "slice", "some", "sort_array", "soundex", "split", "split_part", "startswith",
    "std", "stddev", "stddev_pop", "stddev_samp", "string_agg", "struct", "substr", "substring", "sum",
    "to_date", "to_json", "to_timestamp", "transform", "transform_keys", "transform_values", "translate",
    "trim", "trunc", "try_add", "try_divide", "try_element_at", "try_multiply", "try_subtract", "typeof",
    "ucase", "unhex", "unix_timestamp", "upper", "var_pop", "var_samp", "variance", "weekday", "weekofyear",
    "width_bucket", "xxhash64", "year", "zeroifnull", "zip_with",
})  # fmt: skip

# Written in another way.
_UPPER = (
    "cbrt", "cos", "degrees", "e", "exp", "log10", "log2", "log1p", "atan2", "percent_rank", "pi",
    "power", "radians", "rank", "dense_rank", "regexp", "regexp_like", "rlike", "signum", "sin", "sqrt",
    "tan",
)  # fmt: skip
_RESPELLED = {name: name.upper() for name in _UPPER} | {"array_agg": "collect_list"}
_RESPELLED_WITH_ARGUMENTS = {("ceil", 1): "CEIL", ("floor", 1): "FLOOR", ("floor", 2): "floor", ("ceil", 2): "ceil"}

_IDENTITY = "lambdafunction(namedlambdavariable(), namedlambdavariable())"
# What Spark writes behind so many arguments; None: the name with that many is not known.
_DEFAULTS: dict[tuple[str, int], str | None] = {
    ("round", 1): "0", ("bround", 1): "0", ("locate", 2): "1", ("position", 2): "1", ("split", 2): "-1",
    ("months_between", 2): "true", ("sort_array", 1): "true", ("overlay", 3): "-1", ("regexp_replace", 3): "1",
    ("regexp_extract", 2): "1", ("lpad", 2): " ", ("rpad", 2): " ", ("replace", 2): "", ("unix_timestamp", 0): None,
    ("unix_timestamp", 1): "yyyy-MM-dd HH:mm:ss", ("from_unixtime", 1): "yyyy-MM-dd HH:mm:ss", ("percentile", 2): "1",
    ("percentile_approx", 2): "10000", ("approx_percentile", 2): "10000", ("listagg", 1): "NULL",
    ("string_agg", 1): "NULL", ("aggregate", 3): _IDENTITY, ("reduce", 3): _IDENTITY, ("lag", 1): "1, NULL",
    ("lag", 2): "NULL", ("lead", 1): "1, NULL", ("lead", 2): "NULL", ("substring", 2): "2147483647",
    ("substr", 2): "2147483647", ("ltrim", 2): None, ("rtrim", 2): None, ("array_sort", 1): None, ("ntile", 0): "1",
    ("first", 2): None, ("last", 2): None, ("any_value", 2): None, ("first_value", 2): None, ("last_value", 2): None,
    ("hash", 0): None, ("approx_count_distinct", 2): None, ("mode", 2): None, ("trim", 2): None, ("btrim", 2): None,
}  # fmt: skip
_RANKING = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_NO_FRAME = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


class UnknownNameError(Exception):
    """What Spark calls an expression is not surely known."""


def call_text(context: SqlContext, node: exp.Expr, namer: Namer) -> str:
    """A call as Spark writes it. `node` has the place of the call with all that belongs to it."""
    tokens = context.tokens_between(*node.meta[CALL])
    if tokens[0].token_type.name == "IDENTIFIER" or not (_is_extended(node) or _ends_with_call(tokens)):
        raise UnknownNameError
    return _text(tokens, node, namer)


def _is_extended(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup)


def _ends_with_call(tokens: Sequence[Token]) -> bool:
    """Whether nothing stands behind the arguments."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type.name == "L_PAREN") - (token.token_type.name == "R_PAREN")
        if index and not depth:
            return index == len(tokens) - 1
    return len(tokens) == 1


def _text(tokens: Sequence[Token], node: exp.Expr, namer: Namer) -> str:
    from sqlglot import exp

    name = tokens[0].text.lower()
    match node:
        case exp.Window():
            return f"{_text(tokens, node.this, namer)} OVER ({_window(name, tokens, node, namer)})"
        case exp.Filter():
            return f"{_text(tokens, node.this, namer)} FILTER (WHERE {namer(node.expression.this)})"
        case exp.IgnoreNulls() | exp.RespectNulls():
            if name in ("lag", "lead"):
                raise UnknownNameError
            text = _text(tokens, node.this, namer)
            if name == "nth_value" and isinstance(node, exp.IgnoreNulls):
                return f"{text} ignore nulls"
            return text.replace("_value", "", 1) if name in ("first_value", "last_value") else text
        case exp.WithinGroup():
            return _within_group(name, tokens, node, namer)
    if name == "if":
        return f"(IF({', '.join(_arguments(tokens, node, namer))}))"
    if name in ("isnull", "isnotnull"):
        (operand,) = _arguments(tokens, node, namer)
        return f"({operand} IS {'NOT ' if name == 'isnotnull' else ''}NULL)"
    return _plain_call(name, tokens, node, namer)


def _plain_call(name: str, tokens: Sequence[Token], node: exp.Expr, namer: Namer) -> str:
    if name == "count" and [token.text for token in tokens[1:4]] == ["(", "*", ")"]:
        return "count(1)"
    if name in ("current_date", "current_timestamp", "current_user") and len(tokens) == 1:
        return f"{name}()"
    distinct = "DISTINCT " if len(tokens) > 2 and tokens[2].text.upper() == "DISTINCT" else ""
    arguments = _arguments(tokens, node, namer)
    count = len(arguments)
    written = _RESPELLED_WITH_ARGUMENTS.get((name, count)) or _RESPELLED.get(name)
    if written is None and name in AS_CALLED:
        written = name
    default = _DEFAULTS.get((name, count), ())
    if written is None or default is None:
        raise UnknownNameError
    if default != ():
        arguments = [*arguments, str(default)]
    return f"{written}({distinct}{', '.join(arguments)})"


def _arguments(tokens: Sequence[Token], node: exp.Expr, namer: Namer) -> list[str]:
    """The texts of the arguments, which are found by their places: the parser changes their order, and adds some."""
    if len(tokens) < 2 or tokens[1].text != "(":
        raise UnknownNameError
    places: dict[tuple[int, int], exp.Expr] = {}
    for each in node.walk(bfs=False):
        if SPAN in each.meta:
            places.setdefault(each.meta[SPAN], each)
    found: list[str] = []
    for argument in _split(tokens[1:]):
        start, end = argument[0].start, argument[-1].end + 1
        if argument[0].text.upper() == "DISTINCT" and not found and len(argument) > 1:
            start = argument[1].start
        meant = places.get((start, end))
        if meant is not None:
            found.append(namer(meant))
        elif len(argument) == 1 and argument[0].token_type.name == "STRING":
            found.append(argument[0].text)
        else:
            raise UnknownNameError
    return found


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens between an opening parenthesis and its end, split at commas."""
    depth, found = 0, [[]]  # type: tuple[int, list[list[Token]]]
    for token in tokens:
        if token.text in ("(", "[") and token.token_type.name != "STRING":
            depth += 1
            if depth == 1:
                continue
        elif token.text in (")", "]") and token.token_type.name != "STRING":
            depth -= 1
            if not depth:
                break
        if depth == 1 and token.token_type.name == "COMMA":
            found.append([])
        else:
            found[-1].append(token)
    if found == [[]]:
        return []
    if not all(found):
        raise UnknownNameError
    return found


def _within_group(name: str, tokens: Sequence[Token], node: exp.Expr, namer: Namer) -> str:
    order = node.expression.expressions
    if name in ("percentile_cont", "percentile_disc") and len(order) == 1:
        direction = " DESC" if order[0].args.get("desc") else ""
        (share,) = _arguments(tokens, node.this, namer)
        return f"{name}({share}) WITHIN GROUP (ORDER BY {namer(order[0].this)}{direction})"
    if name in ("listagg", "string_agg"):
        keys = ", ".join(_key(each, namer) for each in order)
        return f"{_plain_call(name, tokens, node.this, namer)} WITHIN GROUP (ORDER BY {keys})"
    raise UnknownNameError


def _window(name: str, tokens: Sequence[Token], window: exp.Expr, namer: Namer) -> str:
    """What stands behind OVER, with the order and the frame that it has."""
    known = ("this", "partition_by", "order", "spec", "over")
    if any(value for key, value in window.args.items() if key not in known):
        raise UnknownNameError
    order = window.args.get("order")
    keys = [_key(each, namer) for each in (order.expressions if order is not None else ())]
    partition = [namer(each) for each in window.args.get("partition_by") or ()]
    if name in ("lag", "lead"):
        arguments = _arguments(tokens, window.this, namer)
        offset = arguments[1] if len(arguments) > 1 else "1"
        if not offset.isdecimal():
            raise UnknownNameError
        distance = f"-{offset}" if name == "lag" else offset
        frame = f"ROWS BETWEEN {distance} FOLLOWING AND {distance} FOLLOWING"
    elif name in _RANKING:
        kind = "RANGE" if name == "cume_dist" else "ROWS"
        frame = f"{kind} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    elif window.args.get("spec") is not None:
        frame = _frame(window.args["spec"])
    else:
        frame = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW" if keys else _NO_FRAME
    parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    parts += [f"ORDER BY {', '.join(keys)}"] if keys else []
    return " ".join([*parts, frame])


def _key(ordered: exp.Expr, namer: Namer) -> str:
    direction = "DESC" if ordered.args.get("desc") else "ASC"
    return f"{namer(ordered.this)} {direction} NULLS {'FIRST' if ordered.args.get('nulls_first') else 'LAST'}"


def _frame(spec: exp.Expr) -> str:
    bounds = []
    for which in ("start", "end"):
        bound, side = spec.args.get(which), spec.args.get(f"{which}_side")
        if bound is None:
            bound, side = "CURRENT ROW", None
        if spec.args["kind"] != "ROWS" and not isinstance(bound, str):
            raise UnknownNameError
        is_number = not isinstance(bound, str) and bound.name.isdecimal() and bound.is_int
        text = bound if isinstance(bound, str) else str(int(bound.name)) if is_number else None
        if text is None:
            raise UnknownNameError
        bounds.append(f"{text} {side}" if side else text)
    return f"{spec.args['kind']} BETWEEN {bounds[0]} AND {bounds[1]}"
