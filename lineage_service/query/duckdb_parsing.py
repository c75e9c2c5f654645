"""Parses user-written SQL in DuckDB's dialect into a sqlglot tree, within a limit of parser steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.bounded_parsing import parse_statements

if TYPE_CHECKING:
    from sqlglot import exp


def parse_all(text: str) -> list[exp.Expr | None]:
    """The statements of a text. Raises RecursionError if a statement is nested too deeply."""
    from sqlglot.dialects.duckdb import DuckDB

    return parse_statements(text, DuckDB())


def parse_one(text: str) -> exp.Expr:
    """The single statement of a text that was parsed before."""
    (tree,) = (each for each in parse_all(text) if each is not None)
    return tree
