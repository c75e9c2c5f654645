"""Function calls in an expression, found in its tokens: the number of arguments, and their types if known.

Refuses only what Spark refuses in every mode of its type coercion; everything else is left to its analyser.
tests/plan/test_hints.py compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan.arities import ARITIES, accepts_argument_count, arity_text
from lineage_service.plan.nested_types import constructor

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

# Words inside the parentheses that make a syntax of its own: trim(BOTH FROM x), substring(x FROM 2), cast(x AS t).
_KEYWORDS = frozenset({"from", "for", "in", "as", "placing", "where", "order", "using", "with"})


@dataclass(frozen=True)
class FunctionCall:
    """A function's name in lower case, and the tokens of each argument."""

    name: str
    arguments: tuple[tuple[Token, ...], ...]

    @property
    def column(self) -> str | None:
        """The column that the first argument consists of; None for any other expression."""
        first = self.arguments[0] if self.arguments else ()
        first = first[1:] if first and first[0].text.lower() in ("distinct", "all") else first
        return first[0].text if len(first) == 1 and first[0].token_type.name in ("VAR", "IDENTIFIER") else None


def calls(tokens: Sequence[Token]) -> Iterator[FunctionCall]:
    """The calls whose arguments can be separated."""
    for index, token in enumerate(tokens[:-1]):
        name, before = token.text.lower(), tokens[index - 1].text.lower() if index else ""
        is_name = token.token_type.name not in ("IDENTIFIER", "STRING") and before not in (
            ".",
            "like",
            "ilike",
            "rlike",
        )
        if not is_name or tokens[index + 1].token_type.name != "L_PAREN":
            continue
        if before in ("as", "::", ":", "<"):
            continue  # a type
        arguments = _arguments(tokens, index + 1)
        if arguments is not None:
            yield FunctionCall(name, arguments)


def _arguments(tokens: Sequence[Token], opening: int) -> tuple[tuple[Token, ...], ...] | None:
    """The arguments after an opening parenthesis; None if they are no plain list."""
    depth = 0
    found: list[tuple[Token, ...]] = []
    current: list[Token] = []
    for token in tokens[opening:]:
        kind = token.token_type.name
        if kind in ("L_PAREN", "L_BRACKET", "L_BRACE"):
            depth += 1
            if depth == 1:
                continue
        elif kind in ("R_PAREN", "R_BRACKET", "R_BRACE"):
            depth -= 1
            if depth == 0:
                return (*found, tuple(current)) if current or found else ()
        if depth == 1 and kind == "COMMA":
            found.append(tuple(current))
            current = []
            continue
        if depth == 1 and (token.text.lower() in _KEYWORDS or (kind == "STAR" and not current)):
            return None
        current.append(token)
    return None


def wrong_arity(tokens: Sequence[Token]) -> tuple[str, str | None] | None:
    """The problem of the first call with too few or too many arguments, and a hint."""
    for call in calls(tokens):
        count = len(call.arguments)
        if call.name in ARITIES and not accepts_argument_count(call.name, count):
            given = "none" if count == 0 else str(count)
            return f"{call.name}() takes {arity_text(call.name)}, not {given}", _arity_hint(call)
    return None


def _arity_hint(call: FunctionCall) -> str | None:
    texts = [" ".join(token.text for token in argument) for argument in call.arguments]
    if call.name in ("sum", "avg", "mean") and len(texts) > 1 and all(len(text) < 30 for text in texts):
        return f"one expression per measure: {call.name}({texts[0]}), or {call.name}({' + '.join(texts)})"
    if call.name in ("max", "min") and len(texts) > 1:
        return f"for the {'largest' if call.name == 'max' else 'smallest'} of several columns of one row use " + (
            "greatest()" if call.name == "max" else "least()"
        )
    return None


def bare_dates(tokens: Sequence[Token]) -> Iterator[str]:
    """Dates without quotes. For Spark, 2024-01-31 is a subtraction."""
    for index, token in enumerate(tokens[:-4]):
        if token.token_type.name != "NUMBER" or tokens[index + 1].token_type.name != "DASH":
            continue
        parts = tokens[index : index + 5]
        text = "".join(part.text for part in parts)
        if all(part.token_type.name in ("NUMBER", "DASH") for part in parts) and _DATE.fullmatch(text):
            yield text


def week_based_patterns(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Datetime patterns with letters of week-based years, each with a hint. Spark refuses them only when it formats the
    first row, unless its legacy parser is enabled.
    """
    for call in calls(tokens):
        pattern = call.arguments[1] if call.name in _TAKES_PATTERN and len(call.arguments) > 1 else ()
        if len(pattern) != 1 or pattern[0].token_type.name != "STRING":
            continue
        plain = "".join(pattern[0].text.split("'")[::2])  # text between quotes stands for itself
        letter = next((each for each in "YWwuec" if each in plain), None)
        if letter is not None:
            hint = "write 'yyyy' for the year" if letter == "Y" else "weekofyear() and dayofweek() give such parts"
            yield f"the pattern of {call.name}() has the letter '{letter}', which Spark refuses: it counts weeks", hint


_TAKES_PATTERN = frozenset(
    {"date_format", "to_date", "try_to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz",
     "try_to_timestamp", "unix_timestamp", "to_unix_timestamp", "from_unixtime"}
)  # fmt: skip
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

# --- types ----------------------------------------------------------------------------------------------------------

_NUMBERS = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double",
            "decimal", "dec", "numeric")  # fmt: skip


def family(kind: str | None) -> str | None:
    """The family of a Spark type; None if it is unknown or not distinguished here."""
    word = constructor(kind)
    if word in _NUMBERS:
        return "number"
    if word in ("string", "varchar", "char"):
        return "text"
    return word if word in ("boolean", "date", "array", "map", "struct") else None


_OF_NUMBERS = frozenset(
    ["sum", "avg", "mean", "try_sum", "try_avg", "stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp",
     "var_pop", "skewness", "kurtosis", "abs", "round", "floor", "ceil", "sqrt", "exp", "ln", "negative", "sign"]
)  # fmt: skip
_FOLDS = frozenset(
    ["sum", "avg", "mean", "stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop"]
)
_OF_COLLECTIONS = frozenset(["size", "cardinality", "explode", "explode_outer", "posexplode", "posexplode_outer"])
_OF_ARRAYS = frozenset(
    ["array_distinct", "array_max", "array_min", "sort_array", "array_size", "array_contains", "array_join", "flatten"]
)
_OF_MAPS = frozenset(["map_keys", "map_values", "map_entries"])
_OF_TEXTS = frozenset(["upper", "lower", "length", "trim", "initcap", "ltrim", "rtrim", "ucase", "lcase", "substring"])
_OF_BOOLEANS = frozenset(["count_if", "bool_and", "bool_or", "every"])
_SINGLE = {"number": "a number", "text": "text", "boolean": "a boolean", "date": "a date", "array": "an array",
           "map": "a map", "struct": "a struct"}  # fmt: skip

TypeOf = Callable[[str], str | None]


def wrong_types(tokens: Sequence[Token], type_of: TypeOf) -> Iterator[tuple[str, str | None]]:
    """Calls with a column of a type that the function never accepts, each with a hint. `type_of` returns the Spark type
    of a column, or None.
    """
    for call, column, kind in _typed_calls(tokens, type_of):
        needed, hint = _accepted_types(call.name, kind, column)
        if needed:
            yield f"{call.name}() takes {needed}, and column '{column}' is {_SINGLE[kind]}", hint


def sums_of_text(tokens: Sequence[Token], type_of: TypeOf) -> Iterator[tuple[str, str]]:
    """Sums and averages of text columns. Spark casts each value to a double and fails if one is no number."""
    for call, column, kind in _typed_calls(tokens, type_of):
        if kind == "text" and call.name in _FOLDS:
            yield (
                f"{call.name}({column}) is over text: Spark casts every value to a double, and the run fails "
                "at one that is no number",
                f"say which number it is: {call.name}(cast({column} as decimal(18, 2))), "
                "or try_cast for null instead of a failure",
            )


def _typed_calls(tokens: Sequence[Token], type_of: TypeOf) -> Iterator[tuple[FunctionCall, str, str]]:
    if any(token.token_type.name in ("ARROW", "LAMBDA", "FARROW") or token.text == "->" for token in tokens):
        return  # a name may be the lambda's own
    for call in calls(tokens):
        column = call.column
        kind = family(type_of(column)) if column is not None else None
        if column is not None and kind is not None:
            yield call, column, kind


def _accepted_types(name: str, kind: str, column: str) -> tuple[str, str | None]:
    """What a function accepts instead of a column of this family, and a hint; empty if it may accept it."""
    if name in _OF_NUMBERS and kind not in ("number", "text"):
        counted = kind == "boolean" and name in ("sum", "try_sum")
        return "numbers", f"to count the rows where it is true: count_if({column})" if counted else None
    if name in _OF_COLLECTIONS and kind not in ("array", "map"):
        return "an array or a map", split_hint(column) if kind == "text" else None
    if name in _OF_ARRAYS and kind != "array":
        return "an array", split_hint(column) if kind == "text" else None
    if name in _OF_MAPS and kind != "map":
        return "a map", None
    if name in _OF_TEXTS and kind in ("array", "map", "struct"):
        return "text", f"for the number of elements: size({column})" if name == "length" and kind != "struct" else None
    if name in _OF_BOOLEANS and kind not in ("boolean", "text"):
        return "a condition", f"write one, such as {name}({column} > 0)" if kind == "number" else None
    return "", None


def split_hint(column: str) -> str:
    return f"make an array of the text first: split({column}, ','), or from_json for JSON"
