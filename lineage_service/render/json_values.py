"""Python values as JSON, by the rules that hold for every answer.

Integers beyond 2^53 and decimals are strings, because many readers of JSON know only doubles. So are floats that JSON
has no number for: NaN, Infinity and -Infinity. Bytes are Base64, and dates and times are ISO 8601.
"""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

EXACT_INTEGER = 2**53  # a double holds every integer up to here


def to_json_value(value: Any) -> Any:
    """Converts a Python value to one that `json.dumps` can write."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if abs(value) <= EXACT_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else _float_name(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dict():
            return {str(key): to_json_value(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_value(item) for item in value]
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """Returns the JSON text of a Python value."""
    return json.dumps(to_json_value(value), ensure_ascii=False, indent=indent)


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
