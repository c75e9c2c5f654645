"""Spark SQL queries as trees of sqlglot's in which every expression knows where it stands in the text.

The parser records the place of each expression, so that the compiler can take the user's own text and never has to
generate SQL anew. It is part of spec/, and not of plan/from_sql/, because the loader needs the tables of a query.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any

from lineage_service.spec.foreign_sql import check_foreign_tokens, check_foreign_tree
from lineage_service.spec.sql_syntax import SPAN as _SPAN
from lineage_service.spec.sql_syntax import SqlSyntaxError, check_tokens, parser_error, unclosed_text

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

SPAN = _SPAN
CALL = "call"  # as SPAN, for a function call with what belongs to it: FILTER, IGNORE NULLS, OVER

_STEPS, _STEPS_PER_TOKEN = 50_000, 60  # what a query may take to be read, twice as much as is usual
_MOST_NESTED = 150  # open brackets
_RECURSION = 12_000
_limit_is_changed = RLock()

_SPANNED = (
    "_parse_disjunction", "_parse_conjunction", "_parse_equality", "_parse_range", "_parse_bitwise", "_parse_term",
    "_parse_factor", "_parse_unary", "_parse_column", "_parse_primary", "_parse_paren", "_parse_lambda", "_parse_table",
    "_parse_select", "_parse_star", "_parse_expression", "_parse_cte", "_parse_join", "_parse_assignment",
)  # fmt: skip


def tokenize_query(text: str) -> list[Token]:
    """The tokens of a query; SqlSyntaxError where it cannot be cut into any."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    try:
        return list(Spark().tokenize(text))
    except SqlglotError:
        raise unclosed_text(text) from None


def parse_query(text: str) -> exp.Expr:
    """The one query of a text, with places; SqlSyntaxError for anything else."""
    from sqlglot.errors import ParseError, TokenError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it prints what it cannot read; errors tell it in our words
    tokens = tokenize_query(text)
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    if not tokens:
        raise SqlSyntaxError("the query is empty", 0)
    _check_nesting(tokens)
    check_tokens(tokens)
    check_foreign_tokens(tokens)
    for token in tokens:
        if token.token_type.name == "PIPE_GT":  # sqlglot would write the query anew
            raise SqlSyntaxError("pipes are not supported in sql steps", token.start, "write it with SELECT and FROM")
    parser = _placing_parser()()
    parser.left = _STEPS + _STEPS_PER_TOKEN * len(tokens)
    found: list[exp.Expr | None]
    try:
        with deep_recursion():
            found = parser.parse(tokens, text)
    except TokenError:
        hint = next((token.start for token in tokens if token.token_type.name == "HINT"), 0)
        raise SqlSyntaxError("the hint cannot be read", hint, "write /*+ BROADCAST(table) */") from None
    except ParseError as error:
        raise parser_error(error, text, tokens) from None
    except RecursionError:
        raise SqlSyntaxError("the query is nested too deeply to be read", 0, "split it into several steps") from None
    trees = [tree for tree in found if tree is not None]
    if len(trees) != 1:
        second = next((token.end + 1 for token in tokens if token.text == ";"), 0)
        raise SqlSyntaxError("a step has one query, and this has several", second, "make each a step of its own")
    check_foreign_tree(trees[0], tokens)
    _place_parts(trees[0], tokens)
    return trees[0]


def _place_parts(tree: exp.Expr, tokens: list[Token]) -> None:
    """Gives places to parts of names that are words of SQL, as in `t.null`: the parser leaves them without."""
    from sqlglot import exp

    index_of = {token.start: index for index, token in enumerate(tokens)}
    for column in tree.find_all(exp.Column):
        if all("start" in part.meta for part in column.parts) or SPAN not in column.meta:
            continue
        first = index_of[column.meta[SPAN][0]]
        for part, token in zip(column.parts, tokens[first::2], strict=False):
            part.meta.update(start=token.start, end=token.end)


@cache
def words_of_sql() -> frozenset[str]:
    """Words, in upper case, that may mean something else than a name."""
    from sqlglot.dialects.spark import Spark

    return frozenset(word for each in Spark.Tokenizer.KEYWORDS for word in each.split())


def tables_of(tree: exp.Expr) -> tuple[str, ...]:
    """The tables that a query names and that are no CTEs of it, in lower case, in order of appearance."""
    return tuple(dict.fromkeys(table.name.lower() for table in table_nodes(tree)))


def table_nodes(tree: exp.Expr, *, dotted: bool = False) -> Iterator[exp.Table]:
    """Every mention of a table that is no CTE; with `dotted`, also of names like `a.b`, which are never CTEs. A CTE is
    seen by those behind it, and by the query it belongs to."""
    from sqlglot import exp

    waiting: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, ctes = waiting.pop()
        below = []
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            below.append((cte.this, ctes))
            ctes = ctes | {cte.alias.lower()}
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            is_dotted = node.args.get("db") is not None
            if dotted if is_dotted else node.name.lower() not in ctes:
                yield node
        for key, value in node.args.items():
            children = value if isinstance(value, list) else [value]
            if key not in ("with_", "hint"):
                below += [(child, ctes) for child in children if isinstance(child, exp.Expression)]
        waiting += reversed(below)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Lets functions call themselves as deep as queries are nested. The limit is the process's, so one thread at a time
    changes it.
    """
    with _limit_is_changed:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _RECURSION))
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)


def _check_nesting(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.token_type.name == "L_PAREN") - (token.token_type.name == "R_PAREN")
        if depth > _MOST_NESTED:
            raise SqlSyntaxError("the query is nested too deeply to be read", token.start, "split it into steps")


def functions_with_all_arguments(builders: Mapping[str, Any]) -> dict[str, Any]:
    """sqlglot's functions, and those of Spark whose arguments it would not keep as expressions, with all of them: the
    unit of date_trunc() may be a column.
    """

    def keeping(name: str, usual: Any, is_usual: Callable[[list[exp.Expr]], bool]) -> Any:
        def build(args: list[exp.Expr]) -> exp.Expr:
            from sqlglot import exp

            return usual(args) if is_usual(args) else exp.Anonymous(this=name.lower(), expressions=args)

        return build

    usual = {
        "DATE_TRUNC": lambda args: len(args) == 2 and args[0].is_string,
        "TRUNC": lambda args: len(args) == 2 and args[1].is_string,
        "TIME_TRUNC": lambda _: False,
        "TIME_DIFF": lambda _: False,
    }
    kept = {name: keeping(name, builders.get(name), test) for name, test in usual.items()}
    return {**builders, **kept, "PERCENTILE": _percentile}


def _percentile(args: list[exp.Expr]) -> exp.Expr:
    """percentile(value, share, frequency): sqlglot has a parser of its own for it, which forgets the frequency."""
    from sqlglot import exp

    return exp.AnonymousAggFunc(this="percentile", expressions=args)


def function_parsers(parsers: Mapping[str, Any]) -> dict[str, Any]:
    """sqlglot's parsers of functions, without those that lose arguments."""
    return {name: parser for name, parser in parsers.items() if name != "PERCENTILE"}


@cache
def _placing_parser() -> Any:
    from sqlglot.dialects.spark import Spark

    base: Any = type(Spark().parser())

    class PlacingParser(base):  # type: ignore[misc]
        """Spark's parser, which notes the places of what it reads and stops after so many steps."""

        left = _STEPS
        FUNCTIONS = functions_with_all_arguments(base.FUNCTIONS)
        FUNCTION_PARSERS = function_parsers(base.FUNCTION_PARSERS)

        def __init__(self) -> None:
            super().__init__(dialect=Spark())

        def _advance(self, times: int = 1) -> None:
            self.left -= 1
            if self.left < 0:
                raise RecursionError
            super()._advance(times)

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
            first = self._curr
            node = super()._parse_function_call(*args, **kwargs)
            if node is not None and first is not None and self._prev is not None:
                node.meta[CALL] = (first.start, self._prev.end + 1)
                node.meta[SPAN] = node.meta[CALL]
            return node

    for name in _SPANNED:
        if hasattr(base, name):
            setattr(PlacingParser, name, _noting_the_place(getattr(base, name)))
    return PlacingParser


def _noting_the_place(method: Any) -> Any:
    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        node = method(self, *args, **kwargs)
        if first is not None and self._prev is not None and hasattr(node, "meta") and self._prev.end >= first.start:
            node.meta[SPAN] = (first.start, self._prev.end + 1)
        return node

    return parse
