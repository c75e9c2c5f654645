"""The kind of values that partition folder names contain, as Spark infers it from all of them. A column's type may
therefore change with a folder more or less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"\s*[+-]?((([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+)[fFdD]?|NaN|Infinity)\s*"
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"\s*[+-]?[0-9]{4,}-[0-9]{1,2}(-[0-9]{1,2}([ T].*)?)?\s*|T?[0-9]{1,2}:[0-9]{1,2}.*")
_KINDS = {
    "whole": ("tinyint", "smallint", "int", "bigint"),
    "number": ("float", "double"),
    "moment": ("date", "timestamp", "timestamp_ntz"),
    "text": ("string",),
}


def kind_of_type(spark_type: str) -> str | None:
    """The kind of values of a type; None for types that Spark infers rarely."""
    return next((kind for kind, types in _KINDS.items() if spark_type in types), None)


def kind_of_folders(values: Iterable[str | None]) -> str:
    """The kind of type that Spark infers for a column with these values."""
    kinds = {_kind(value) for value in values if value is not None}
    if kinds and kinds <= {"whole", "number"}:
        return "number" if "number" in kinds else "whole"
    return "moment" if kinds == {"moment"} else "text"


def is_spelled_as(value: str, spark_type: str) -> bool:
    """Whether a folder name is certainly a value of a type: for Spark, `1.5` is no integer and `1_000` is no number."""
    match kind_of_type(spark_type):
        case "whole":
            return _WHOLE.fullmatch(value) is not None
        case "number":
            return _kind(value) in ("whole", "number")
        case "moment":
            return spark_type != "date" or _DAY.fullmatch(value) is not None
        case _:
            return True


def _kind(value: str) -> str:
    if _WHOLE.fullmatch(value):
        return "whole"
    if _NUMBER.fullmatch(value):
        return "number"
    return "moment" if _MOMENT.fullmatch(value) else "text"
