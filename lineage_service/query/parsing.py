"""SQL that a user wrote, as a tree; within a number of steps.

sqlglot goes back and tries again where a text can mean several things, for some texts without end: `row(row(row(…)))`
takes twice as long with every two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.parser import Parser

STEPS, STEPS_PER_TOKEN = 20_000, 5  # twice what is usual for a text of that length, and so many for any


class TooManySteps(RecursionError):
    """A text that cannot be read in a reasonable time: it is nested, as what is too deep for Python is."""


def parse_all(text: str) -> list[exp.Expr | None]:
    """The statements of a text, in DuckDB's dialect; RecursionError for one that is nested too deeply."""
    from sqlglot.dialects.duckdb import DuckDB

    dialect = DuckDB()
    tokens: Sequence[Any] = dialect.tokenize(text)
    parser = _parser()(dialect=dialect)
    parser.left = STEPS + STEPS_PER_TOKEN * len(tokens)  # type: ignore[attr-defined]
    found: list[exp.Expr | None] = parser.parse(list(tokens), text)
    return found


def parse_one(text: str) -> exp.Expr:
    """The one statement of a text that was read before."""
    (tree,) = (each for each in parse_all(text) if each is not None)
    return tree


@cache
def _parser() -> type[Parser]:
    from sqlglot.dialects.duckdb import DuckDB

    class Counting(type(DuckDB().parser())):  # type: ignore[misc]
        """DuckDB's parser, which stops after so many steps."""

        left = STEPS

        def _advance(self, times: int = 1) -> None:
            self.left -= 1
            if self.left < 0:
                raise TooManySteps
            super()._advance(times)

    return Counting
