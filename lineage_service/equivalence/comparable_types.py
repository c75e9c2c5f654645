"""Types whose values both engines compare alike: integers, decimals, text, dates, booleans.

Floating-point numbers and timestamps are left out, because the engines differ in them; so are decimals without a common
type, which Spark rounds, and texts with a collation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # digits that Spark takes each to have
HARMLESS = (*WHOLE, "string", "date", "boolean", "decimal")
MOST_DIGITS = 38  # of a decimal


@dataclass(frozen=True, slots=True)
class ComparableType:
    """The family of a type and, for a number, its digits before and after the decimal point."""

    family: str
    whole: int = 0
    scale: int = 0


DATE = ComparableType("date")


def comparable_type(text: str) -> ComparableType | None:
    """The comparable type of a Spark type; None for all others."""
    base = text.partition("(")[0]
    if base not in HARMLESS or "collate" in text:
        return None
    if base in WHOLE:
        return ComparableType("whole", WHOLE[base])
    if base != "decimal":
        return ComparableType(base)
    digits = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text)
    return ComparableType(base, int(digits[1]) - int(digits[2]), int(digits[2])) if digits else None


def is_comparison_portable(*kinds: ComparableType) -> bool:
    """Whether both engines compare values of these types with each other alike."""
    families = {kind.family for kind in kinds}
    if len(families) > 1 and families != {"whole", "decimal"}:
        return False
    return max(kind.whole for kind in kinds) + max(kind.scale for kind in kinds) <= MOST_DIGITS
