"""Parses user-written SQL into a sqlglot tree, within a limit of parser steps and of nesting.

sqlglot backtracks where a text is ambiguous, for some texts exponentially: `struct(struct(…))` takes twice as long with
every level. It also recurses some twenty times per level.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from lineage_service.spec.sql_parsing import function_parsers, functions_with_all_arguments

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.parser import Parser

STEPS, STEPS_PER_TOKEN = 20_000, 5  # twice what is usual for a text of that length, and so many for any
MOST_NESTED = 100  # levels of an expression; Spark reads several times as many
_FRAMES_PER_LEVEL = 60  # at most twice what was measured

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_PREFIXES = frozenset({"not", "-", "+", "~", "!"})
_BEFORE_A_PREFIX = frozenset(
    {*_OPENING, *_PREFIXES, ",", "=", "<", ">", "*", "/", "%", "and", "or", "then", "else", "when"}
)

_limit_is_changed = Lock()


class TooManySteps(RecursionError):
    """A text that cannot be parsed in reasonable time."""


def parse_statements(text: str, dialect: Dialect) -> list[exp.Expr | None]:
    """The statements of a text. Raises RecursionError if it is nested too deeply."""
    tokens: Sequence[Any] = dialect.tokenize(text)
    parser = _counting_parser(type(dialect))(dialect=dialect)
    parser.left = STEPS + STEPS_PER_TOKEN * len(tokens)  # type: ignore[attr-defined]
    found: list[exp.Expr | None] = parser.parse(list(tokens), text)
    return found


@cache
def _counting_parser(dialect: Any) -> type[Parser]:
    from sqlglot.dialects.spark import Spark

    base: Any = type(dialect().parser())

    class Counting(base):  # type: ignore[misc]
        """A dialect's parser that stops after a number of steps."""

        left = STEPS
        FUNCTIONS = functions_with_all_arguments(base.FUNCTIONS) if dialect is Spark else base.FUNCTIONS
        FUNCTION_PARSERS = function_parsers(base.FUNCTION_PARSERS) if dialect is Spark else base.FUNCTION_PARSERS

        def _advance(self, times: int = 1) -> None:
            self.left -= 1
            if self.left < 0:
                raise TooManySteps
            super()._advance(times)

    return Counting


def nesting(words: Sequence[str]) -> int:
    """The nesting depth of brackets, CASEs and prefix operators in an expression, given its words in lower case."""
    depth = deepest = prefixes = 0
    before = "("
    for word in words:
        if word in _OPENING or word == "case":
            depth += 1
        elif word in _CLOSING or word == "end":
            depth = max(0, depth - 1)
        if word not in _PREFIXES:
            prefixes = 0
        elif prefixes or before in _BEFORE_A_PREFIX:  # else it stands between two operands
            prefixes += 1
        deepest, before = max(deepest, depth + prefixes), word
    return deepest


@contextmanager
def recursion_limit_for(levels: int) -> Iterator[None]:
    """Raises Python's recursion limit as far as an expression with this nesting needs.

    Few expressions need it. The limit belongs to the process, so one caller at a time raises it and restores it.
    """
    needed = _stack_depth() + _FRAMES_PER_LEVEL * levels
    if needed < sys.getrecursionlimit():
        yield
        return
    with _limit_is_changed:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, needed))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)


def _stack_depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count
