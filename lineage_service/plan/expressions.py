"""A user's Spark SQL expression: its text, and what is known of it without Spark.

Spark evaluates the text unchanged. sqlglot only parses it, to find the columns and functions in it. Where text must be
divided (conjuncts, sort directions, window_calls.py), it is cut between tokens and never generated, so that its meaning
to Spark stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lineage_service.errors import Position, Problem
from lineage_service.plan import functions
from lineage_service.plan.bounded_parsing import nesting, parse_statements, recursion_limit_for
from lineage_service.plan.call_arguments import wrong_arity
from lineage_service.plan.spark_lexer import Unreadable, refuse_calls

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

# Spark resolves these without parentheses, and so do we, where no column has the name.
BARE_FUNCTIONS = frozenset({"user", "current_user", "session_user", "current_catalog", "current_schema"})
SIDES = ("left", "right")
_DEEP = 250


class ExpressionError(Exception):
    """The text is no expression that can be traced. Has the reason; the caller knows the position."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint

    def at(self, position: Position | None) -> Problem:
        return Problem(self.message, position, self.hint)


def quote_identifier(name: str) -> str:
    """A column name quoted for Spark SQL, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class ColumnRef:
    """A column as written, in parts: the first is a side, a column, or a struct column followed by fields."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Expression:
    """One expression of a workflow file. The constructor raises ExpressionError if it is no single, traceable
    expression.
    """

    text: str
    position: Position | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ExpressionError("an expression is empty")
        self._refuse_non_scalar()

    def __str__(self) -> str:
        return self.text

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        return tokens_of(self.text)

    @cached_property
    def tree(self) -> exp.Expr:
        return _tree(self.text)

    @cached_property
    def is_deep(self) -> bool:
        """Whether its tree is too deep for recursive functions, here or in DuckDB. `a AND b AND c …` is as deep as it
        is long.
        """
        level, depth = [self.tree], 0
        while level and depth <= _DEEP:
            level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
        return bool(level)

    @cached_property
    def columns(self) -> tuple[ColumnRef, ...]:
        """The columns it reads, without duplicates, in order of appearance; without `*`."""
        from sqlglot import exp

        refs = []
        for column in self.tree.find_all(exp.Column, bfs=False):
            parts = tuple(part.name for part in column.parts)
            bare = len(parts) == 1 and parts[0].lower() in BARE_FUNCTIONS and not column.this.args.get("quoted")
            if not bare and parts[-1] != "*":
                refs.append(ColumnRef(parts))
        return tuple(dict.fromkeys(refs))

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word in it that could name a column, in lower case: possibly more than it reads, never less."""
        return frozenset(token.text.lower() for token in self.tokens if token.token_type.name != "STRING")

    @cached_property
    def bare_columns(self) -> tuple[ColumnRef, ...]:
        """The columns outside of aggregate functions."""
        from sqlglot import exp

        inside = {
            id(column) for call in self.tree.walk() if _is_aggregate_node(call) for column in call.find_all(exp.Column)
        }
        refs = [
            ColumnRef(tuple(part.name for part in column.parts))
            for column in self.tree.find_all(exp.Column, bfs=False)
            if id(column) not in inside
        ]
        return tuple(ref for ref in dict.fromkeys(refs) if ref in self.columns)

    @cached_property
    def function_names(self) -> tuple[str, ...]:
        """The names of the functions it calls, in lower case, with and without parentheses."""
        tokens, names = self.tokens, []
        for index, token in enumerate(tokens):
            name = token.text.lower()
            opens = index + 1 < len(tokens) and opens_parenthesis(tokens[index + 1])
            after_like = is_like_quantifier(tokens, index)
            bare_clock = name.startswith(("current_", "localtime")) and token.token_type.name != "IDENTIFIER"
            if (opens and not after_like and _is_word(token)) or bare_clock:
                names.append(name)
        return tuple(names)

    @property
    def has_aggregate(self) -> bool:
        return any(name in functions.AGGREGATES for name in self.function_names) and not self.has_over_clause

    @property
    def nests_aggregates(self) -> bool:
        """Whether an aggregate function has another one as argument."""
        from sqlglot import exp

        def calls(tree: exp.Expr) -> list[exp.Expr]:
            around = exp.Filter | exp.WithinGroup  # stand around a call, and are none
            return [node for node in tree.walk() if _is_aggregate_node(node) and not isinstance(node, around)]

        return any(inner is not call for call in calls(self.tree) for inner in calls(call))

    @property
    def has_over_clause(self) -> bool:
        return any(token.token_type.name == "OVER" for token in self.tokens)

    @property
    def needs_window(self) -> bool:
        return any(name in functions.WINDOW_ONLY for name in self.function_names) and not self.has_over_clause

    @property
    def repeatable(self) -> bool:
        """Whether it always has the same value for the same rows. Only known functions qualify."""
        known = functions.KNOWN - functions.NOT_REPEATABLE
        return all(name in known for name in self.function_names if name not in _SYNTAX)

    @property
    def is_volatile(self) -> bool:
        """Whether it returns another value at each evaluation, also within one query, such as rand()."""
        return any(name in functions.VOLATILE for name in self.function_names)

    @property
    def is_generator(self) -> bool:
        """Whether it may return several rows for one."""
        return any(name in functions.GENERATORS for name in self.function_names)

    def _refuse_non_scalar(self) -> None:
        from sqlglot import exp

        try:
            refuse_calls(self.text)
        except Unreadable as error:
            raise ExpressionError(error.message, error.hint) from None
        # First: where it cannot be read for this reason, sqlglot says so in other words.
        if wrong := wrong_arity(self.tokens):
            raise ExpressionError(*wrong)
        tree = self.tree
        if isinstance(tree, exp.Alias):
            raise ExpressionError(
                f"'{self.text}' gives a name with AS", "write the name as the key: `name: expression`"
            )
        if any(tree.find_all(exp.Query, exp.Block, exp.Command, exp.Placeholder, exp.Parameter)):
            raise ExpressionError(
                "subqueries, statements and parameters have no traceable lineage inside an expression",
                "make the subquery a step of its own and join it; a column named like a keyword is quoted: `select`",
            )


# Words that stand before a parenthesis without being functions.
_SYNTAX = frozenset({"in", "and", "or", "not", "on", "as", "when", "then", "else", "case", "over", "filter",
                     "group", "between", "by", "from", "is", "distinct", "decimal", "char", "varchar",
                     "interval", "end", "any", "some", "all", "cast", "try_cast", "extract", "position",
                     "trim", "timestampadd", "timestampdiff", "date", "timestamp", "array", "map",
                     "struct"})  # fmt: skip


def opens_parenthesis(token: Token) -> bool:
    """Whether the token is a parenthesis, and not a text or a quoted name."""
    return token.token_type.name == "L_PAREN"


def is_like_quantifier(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a word is the ANY, SOME or ALL of a LIKE, and no function."""
    before = tokens[index - 1].text.lower() if index else ""
    return before in ("like", "ilike", "rlike") and tokens[index].text.lower() in ("any", "some", "all")


def _is_word(token: Token) -> bool:
    return token.text.replace("_", "a").isalnum() and token.token_type.name not in ("STRING", "NUMBER")


@lru_cache(maxsize=4096)
def tokens_of(text: str) -> tuple[Token, ...]:
    """The tokens of a text. Raises ExpressionError if it cannot be tokenized."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    try:
        return tuple(Spark().tokenize(text))
    except SqlglotError as error:
        raise ExpressionError(f"cannot read the expression '{shorten_text(text)}'", _first_line(error)) from None


@lru_cache(maxsize=4096)
def _tree(text: str) -> exp.Expr:
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    readable = _with_quoted_sides(text)
    levels = nesting(["" if token.token_type.name == "STRING" else token.text.lower() for token in tokens_of(text)])
    try:
        with recursion_limit_for(levels):
            found = [tree for tree in parse_statements(readable, Spark()) if tree is not None]
    except SqlglotError as error:
        hint = _foreign_hint(tokens_of(text)) or _first_line(error)
        raise ExpressionError(f"cannot read the expression '{shorten_text(text)}'", hint) from None
    except RecursionError:
        raise ExpressionError(
            f"the expression is nested too deeply to be read: '{shorten_text(text)}'",
            "compute its inner parts first, as columns of a step with `op: with_columns`",
        ) from None
    if not found:
        raise ExpressionError("an expression is empty")
    return found[0]


def _foreign_hint(tokens: tuple[Token, ...]) -> str | None:
    """What to write instead, if a text that cannot be parsed has words of another language."""
    words = [token.text.lower() for token in tokens if token.token_type.name not in ("STRING", "IDENTIFIER")]
    if "&&" in words:
        return "write AND and OR, not && and ||"
    if words and words[0] in ("where", "having", "on", "filter", "order", "group"):
        return f"leave the word {words[0].upper()} away: the key says it"
    return None


def _with_quoted_sides(text: str) -> str:
    """`left.x` as "`left`.x": for sqlglot the unquoted word begins a join, for Spark it is a name."""
    pieces, end, tokens = [], 0, tokens_of(text)
    for token, after in pairwise(tokens):
        if token.text.lower() in SIDES and after.text == "." and token.token_type.name != "IDENTIFIER":
            pieces += [text[end : token.start], quote_identifier(token.text.lower())]
            end = token.end + 1
    return "".join([*pieces, text[end:]])


def _is_aggregate_node(node: exp.Expr) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return node.name.lower() in functions.AGGREGATES
    if isinstance(node, exp.AggFunc | exp.Any | exp.Filter | exp.WithinGroup):
        return True
    return isinstance(node, exp.Func) and any(name.lower() in functions.AGGREGATES for name in type(node).sql_names())


def shorten_text(text: str, most: int = 60) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _first_line(error: Exception) -> str | None:
    """sqlglot's message without terminal colours and the quoted text; None if nothing is left."""
    first = str(error).splitlines()[0].split("\x1b")[0].strip().rstrip(".")
    return None if "<class" in first else first


@dataclass(frozen=True)
class SortKey:
    """An expression with a direction, as in ORDER BY. Nulls are where Spark puts them by default, unless given."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = "desc" if self.descending else "asc"
        return f"{self.expression} {direction} nulls {'first' if self.nulls_first else 'last'}"


def sort_key(text: str, position: Position | None) -> SortKey:
    """Divides `x desc nulls last` into expression, direction and position of nulls."""
    tokens = list(tokens_of(text))
    words = [token.text.lower() for token in tokens]
    nulls_first: bool | None = None
    if len(words) > 2 and words[-2] == "nulls" and words[-1] in ("first", "last"):
        nulls_first = words[-1] == "first"
        del tokens[-2:], words[-2:]
    descending = False
    if len(words) > 1 and words[-1] in ("asc", "desc"):
        descending = words[-1] == "desc"
        del tokens[-1]
    if len(words) > 1 and words[-1] in ("ascending", "descending"):
        raise ExpressionError(f"'{words[-1]}' is no direction", f"write '{words[-1][:-6]}'")
    if not tokens:
        raise ExpressionError("an order needs an expression")
    core = Expression(text[: tokens[-1].end + 1], position)
    return SortKey(core, descending, (not descending) if nulls_first is None else nulls_first)


def with_stars_expanded(expression: Expression, names: tuple[str, ...]) -> str:
    """The text with `*` and `* except (…)` replaced by the relation's columns, except in `count(*)`.

    Under capture a relation has more columns than the user's, and `struct(*)` must not include them.
    """
    tokens, text = expression.tokens, expression.text
    pieces, end = [], 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.token_type.name != "STAR" or before is None or not _precedes_a_star(before):
            continue
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if _is_count_of_all(tokens, index, after):
            continue
        last, left_out = index, set[str]()
        if after is not None and after.text.lower() == "except" and index + 2 < len(tokens):
            last = closing_parenthesis(tokens, index + 2)
            left_out = {each.text.lower() for each in tokens[index + 3 : last]}
        kept = [name for name in names if name.lower() not in left_out]
        pieces += [text[end : token.start], ", ".join(quote_identifier(name) for name in kept)]
        end = tokens[last].end + 1
    return "".join([*pieces, text[end:]])


def _precedes_a_star(token: Token) -> bool:
    """Whether a `*` after this token means all columns, and not a product."""
    return token.token_type.name in ("L_PAREN", "COMMA") or token.text.lower() == "distinct"


def _is_count_of_all(tokens: tuple[Token, ...], star: int, after: Token | None) -> bool:
    counts = star > 1 and opens_parenthesis(tokens[star - 1]) and tokens[star - 2].text.lower() == "count"
    return counts and after is not None and after.token_type.name == "R_PAREN"


def closing_parenthesis(tokens: tuple[Token, ...], opening: int) -> int:
    """The index of the token that closes the parenthesis at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(tokens[index].token_type.name, 0)
        if depth == 0:
            return index
    raise ExpressionError("a parenthesis is not closed")
