"""String literals of Spark SQL."""

from __future__ import annotations


def spark_literal(text: str) -> str:
    """The literal, in single quotes, that Spark reads as this text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
