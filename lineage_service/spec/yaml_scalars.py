"""Plain scalars of a workflow file, interpreted by the core schema of YAML 1.2.

`on`, `off` and dates are texts, and a float keeps its text.
"""

from __future__ import annotations

import re

_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")


_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")


_INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")


_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
# Python refuses to print integers beyond 4300 digits; a "number" this long is nobody's number.
_MAX_NUMBER = 100


class SourceFloat(float):
    """A float that keeps its text, because 1.50 and 1e3 must stay 1.50 and 1e3 in expressions."""

    text: str

    def __new__(cls, text: str) -> SourceFloat:
        self = super().__new__(cls, text.replace(".inf", "inf").replace(".nan", "nan"))
        self.text = text
        return self


def core_value(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar by the core schema of YAML 1.2."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text[0] in "tT"
    if len(text) > _MAX_NUMBER:
        return text
    if _INT.match(text):
        # Base 0 would refuse 007, which YAML reads as 7.
        return int(text, 16 if text[:2] == "0x" else 8 if text[:2] == "0o" else 10)
    return SourceFloat(text.lower()) if _FLOAT.match(text) else text
