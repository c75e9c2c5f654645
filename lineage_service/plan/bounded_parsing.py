"""SQL that a user wrote, as a tree of sqlglot's; within a number of steps and a depth of nesting.

sqlglot goes back and tries again where a text can mean several things, for some texts without end: `struct(struct(…))`
takes twice as long with every level. And it calls itself some twenty times for every level.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

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
    """A text that cannot be read in a reasonable time: it is nested, as what is too deep for Python is."""


def parse_statements(text: str, dialect: Dialect) -> list[exp.Expr | None]:
    """The statements of a text; RecursionError for one that is nested too deeply."""
    tokens: Sequence[Any] = dialect.tokenize(text)
    parser = _counting_parser(type(dialect))(dialect=dialect)
    parser.left = STEPS + STEPS_PER_TOKEN * len(tokens)  # type: ignore[attr-defined]
    found: list[exp.Expr | None] = parser.parse(list(tokens), text)
    return found


@cache
def _counting_parser(dialect: Any) -> type[Parser]:
    class Counting(type(dialect().parser())):  # type: ignore[misc]
        """A dialect's parser, which stops after so many steps."""

        left = STEPS

        def _advance(self, times: int = 1) -> None:
            self.left -= 1
            if self.left < 0:
                raise TooManySteps
            super()._advance(times)

    return Counting


def nesting(words: Sequence[str]) -> int:
    """How deep the brackets, CASEs and prefix operators of an expression are nested, from its words in lower case."""
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
    """Lets Python call functions as deep as an expression of so many levels needs, wherever this is called from.

    Few expressions need it. The limit is the whole process's: one at a time raises it, and puts it back.
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
