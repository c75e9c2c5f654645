"""Errors that a compiled query raises while it runs, as Spark does: their texts, and how they are recognised."""

from __future__ import annotations

import re

from lineage_service.errors import Position

_MORE_THAN_ONE = "more than one row returned by a subquery used as an expression"


def more_than_one_row(position: Position) -> str:
    """Spark SQL that ends the run."""
    return f"raise_error('{_MORE_THAN_ONE}: line {position.line}, column {position.column}')"


def recognised_error(text: str) -> str | None:
    """What an error of Spark says, where a compiled query has raised it; None for any other."""
    found = re.search(re.escape(_MORE_THAN_ONE) + r": line \d+, column \d+", text)
    return None if found is None else found[0]
