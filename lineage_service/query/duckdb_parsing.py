"""SQL that a user wrote in DuckDB's dialect, as a tree; within a number of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.bounded_parsing import parse_statements

if TYPE_CHECKING:
    from sqlglot import exp


def parse_all(text: str) -> list[exp.Expr | None]:
    """The statements of a text; RecursionError for one that is nested too deeply."""
    from sqlglot.dialects.duckdb import DuckDB

    return parse_statements(text, DuckDB())


def parse_one(text: str) -> exp.Expr:
    """The one statement of a text that was read before."""
    (tree,) = (each for each in parse_all(text) if each is not None)
    return tree
