"""One value as text for people, in trees, tables and pages."""

from __future__ import annotations

from typing import Any

from lineage_service.render.json_values import dump_json, to_json_value

NULL = "null"
MASK = "•••"  # shown for every value of a masked column, whatever its type, and for its nulls too
LONGEST_VALUE = 60


def value_text(value: Any) -> str:
    """Returns the value as text, cut to 60 characters."""
    plain = to_json_value(value)
    text = NULL if plain is None else plain if isinstance(plain, str) else dump_json(plain)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
