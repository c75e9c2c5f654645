"""Parses a question in SQL: checks that it is one SELECT, and locates the datasets and lineage functions in it.

Pure. sqlglot's tokens and tree give the positions of names, so that only these are replaced and the rest of the text
stays as written. What may run is decided later, on DuckDB's own parse of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from lineage_service.errors import QuestionError
from lineage_service.query.duckdb_parsing import parse_all

if TYPE_CHECKING:
    from sqlglot import exp

MOST_TEXT = 100_000
BACKWARD, FORWARD, WORKLOAD = "backward", "forward", "workload"
FUNCTIONS = {
    "backward": BACKWARD, "upstream": BACKWARD, "forward": FORWARD, "downstream": FORWARD, "workload": WORKLOAD,
}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A part of the text, from `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class DatasetReference:
    """A dataset in a FROM. `alias` is the qualifier of its columns if the text gives none."""

    span: Span
    name: str
    alias: str | None


@dataclass(frozen=True)
class LineageCall:
    """A lineage function in a FROM. Each argument is a text, a list of texts, or the span of a subquery."""

    span: Span
    function: str
    written: str
    arguments: tuple[tuple[str, ...] | Span, ...]
    alias: str | None
    named: str = ""  # its alias
    listed: bool = False  # whether the alias lists column names


@dataclass(frozen=True)
class CommonTable:
    """A common table of the outermost WITH, with its definition: `name AS (…)`."""

    span: Span
    name: str


@dataclass(frozen=True)
class Question:
    """One SELECT: its text, its datasets and lineage functions in order, and its common tables."""

    text: str
    explain: bool
    parts: tuple[DatasetReference | LineageCall, ...]
    tables: tuple[CommonTable, ...]
    tree: exp.Expr

    @cached_property
    def columns_read(self) -> frozenset[str] | None:
        """Names of columns that it mentions anywhere, in lower case; None if it may read any column."""
        return columns_read(self.tree)

    @cached_property
    def names_alone(self) -> frozenset[str]:
        """Unqualified column names, in lower case. A table name among them denotes a whole row."""
        from sqlglot import exp

        return frozenset(each.name.lower() for each in self.tree.find_all(exp.Column) if len(each.parts) == 1)


@lru_cache(maxsize=256)
def read_question(text: str, common: tuple[str, ...] = ()) -> Question:
    """Parses a question. Raises QuestionError for anything but one SELECT, or EXPLAIN of one. `common` are the tables
    of an enclosing WITH.
    """
    from sqlglot import exp

    if len(text) > MOST_TEXT:
        raise QuestionError(f"the query is too long ({len(text)} characters; at most {MOST_TEXT})")
    tokens = _tokens(text)
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    text = text[: tokens[-1].end + 1] if tokens else ""  # without trailing comments
    explain = bool(tokens) and tokens[0].text.upper() == "EXPLAIN"
    if explain:
        text = text[tokens[0].end + 1 :].lstrip()
        tokens = _tokens(text)
        if tokens and tokens[0].text.upper() in ("ANALYZE", "("):
            raise QuestionError("EXPLAIN takes a SELECT and nothing else", hint="write EXPLAIN SELECT …")
    if tokens and tokens[0].text.upper() == "TABLE":
        raise QuestionError("a query begins with SELECT, FROM or WITH", hint="write FROM instead of TABLE")
    if not tokens:
        raise QuestionError("the query is empty", hint="write a SELECT")
    _refuse_at(tokens)
    tree = _tree(text)
    if not isinstance(tree, exp.Query | exp.Values):
        word = tokens[0].text.upper()
        raise QuestionError(f"a query only reads: SELECT or EXPLAIN, but not {word}")
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        raise QuestionError(
            "NATURAL JOIN would join by _rid too, which every dataset has", hint="name the columns: JOIN … USING (…)"
        )
    calls = list(_calls(text, tokens))
    return Question(
        text,
        explain,
        tuple(sorted([*calls, *_dataset_references(text, tree, calls, common)], key=lambda part: part.span.start)),
        tuple(_common_tables(tokens)),
        tree,
    )


def columns_read(tree: exp.Expr) -> frozenset[str] | None:
    """Names of columns that a query mentions anywhere, in lower case; None if it may read any column."""
    from sqlglot import exp

    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return None
    if isinstance(tree, exp.Select) and not tree.expressions:
        return None
    if any(select.args.get("from_") and not select.expressions for select in tree.find_all(exp.Select)):
        return None
    if any(join.args.get("method") for join in tree.find_all(exp.Join)) or tree.find(exp.Columns):
        return None
    used = {using.name.lower() for join in tree.find_all(exp.Join) for using in join.args.get("using") or ()}
    # In `a.b`, either may be the column: a struct field looks like a column of a table.
    return frozenset(used | {part.name.lower() for each in tree.find_all(exp.Column) for part in each.parts})


def _tokens(text: str) -> list[Any]:
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.errors import TokenError

    try:
        return list(DuckDB().tokenize(text))
    except TokenError:
        raise QuestionError("cannot read the query: a quote or a comment has no end") from None


def _refuse_at(tokens: Sequence[Any]) -> None:
    for token in tokens:
        if token.text == "@" and token.token_type.name == "PARAMETER":
            raise QuestionError(
                "an '@' stands outside quotes", hint='a dataset of a run is written in double quotes: "totals@3f2a"'
            )


def _tree(text: str) -> exp.Expr:
    from sqlglot.errors import SqlglotError

    try:
        trees = [tree for tree in parse_all(text) if tree is not None]
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        at = details[0].get("highlight") or ""
        where = f"something is wrong at or behind '{at}'" if at else "it ends too early"
        line = f", line {details[0]['line']}" if details[0].get("line") else ""
        raise QuestionError(f"cannot read the query: {where}{line}") from None
    except RecursionError:
        raise QuestionError("the query is nested too deeply") from None
    if len(trees) != 1:
        raise QuestionError(f"one statement at a time: the query has {len(trees)}")
    return trees[0]


def _calls(text: str, tokens: Sequence[Any]) -> Iterator[LineageCall]:
    """The outermost lineage functions."""
    place = 0
    while place < len(tokens) - 1:
        token = tokens[place]
        name = token.text.lower()
        if name not in FUNCTIONS or token.token_type.name not in ("VAR", "IDENTIFIER") or tokens[place + 1].text != "(":
            place += 1
            continue
        end = _closing(tokens, place + 1, token.text)
        arguments = tuple(_argument(text, each, token.text) for each in _split(tokens[place + 2 : end]))
        behind = [each for each in tokens[end + 1 : end + 4] if each.token_type.name != "ALIAS"]
        before = place > 1 and tokens[place - 1].text == ":"
        named = behind[0].text if behind and _is_alias(behind[0]) else tokens[place - 2].text if before else None
        listed = named is not None and not before and len(behind) > 1 and behind[1].text == "("
        yield LineageCall(
            Span(token.start, tokens[end].end + 1), FUNCTIONS[name], name, arguments,
            token.text if named is None else None, named or token.text, listed,
        )  # fmt: skip
        place = end + 1


def _is_alias(token: Any) -> bool:
    """Whether a word after a table is an alias, and not the start of a clause."""
    quoted = token.token_type.name == "IDENTIFIER"
    return quoted or (token.text.isidentifier() and token.text.upper() not in _CLAUSES)


_CLAUSES = frozenset(
    """WHERE GROUP ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL INNER CROSS OUTER ON USING UNION EXCEPT INTERSECT HAVING
    QUALIFY WINDOW TABLESAMPLE SEMI ANTI ASOF POSITIONAL NATURAL PIVOT UNPIVOT SELECT FETCH FROM AND OR""".split()  # noqa: SIM905
)


def _closing(tokens: Sequence[Any], opening: int, name: str) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(tokens[place].token_type.name, 0)
        if depth == 0:
            return place
    raise QuestionError(f"the parenthesis of {name}( has no end")


def _split(tokens: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The arguments of a call: tokens between commas outside of parentheses and brackets."""
    depth, begin = 0, 0
    for place, token in enumerate(tokens):
        kind = token.token_type.name
        depth += {"L_PAREN": 1, "L_BRACKET": 1, "R_PAREN": -1, "R_BRACKET": -1}.get(kind, 0)
        if kind == "COMMA" and depth == 0:
            yield tokens[begin:place]
            begin = place + 1
    if tokens:
        yield tokens[begin:]


def _argument(text: str, tokens: Sequence[Any], function: str) -> tuple[str, ...] | Span:
    kinds = [token.token_type.name for token in tokens]
    if kinds in (["STRING"], ["HEREDOC_STRING"]):
        return (tokens[0].text,)
    if kinds[:1] == ["L_BRACKET"] and kinds[-1:] == ["R_BRACKET"]:
        inside = list(_split(tokens[1:-1]))
        if inside and all([token.token_type.name for token in each] == ["STRING"] for each in inside):
            return tuple(each[0].text for each in inside)
    if kinds[:1] == ["L_PAREN"] and kinds[-1:] == ["R_PAREN"] and len(tokens) > 2:
        return Span(tokens[0].end + 1, tokens[-1].start)
    shown = text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
    raise QuestionError(
        f"an argument of {function}(…) is neither a text nor a subquery of rows: {shown[:40] or 'nothing'}",
        hint="names and predicates are texts in single quotes, a subquery of rows stands in parentheses",
    )


def _dataset_references(
    text: str, tree: exp.Expr, calls: Sequence[LineageCall], common: Sequence[str]
) -> Iterator[DatasetReference]:
    """Tables that are not common tables, which are datasets. Those inside a lineage function belong to that
    function.
    """
    from sqlglot import exp

    outer = {name.lower() for name in common}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue
        parts = table.parts
        span = Span(parts[0].meta["start"], parts[-1].meta["end"] + 1)
        if any(call.span.start <= span.start < call.span.end for call in calls):
            continue
        if text[span.start] == "'":
            raise QuestionError(
                "FROM 'file' is not allowed: a query reads datasets of the home only",
                hint="`smoke-lineage datasets` lists them",
            )
        # Unquoted names are case-insensitive.
        name = ".".join(part.name if part.args.get("quoted") else part.name.lower() for part in parts)
        if len(parts) == 1 and (name.lower() in outer or _is_common(table)):
            continue
        if len(parts) > 2:
            raise QuestionError(f"'{name}' is no dataset name", hint="write NAME or WORKFLOW.NAME")
        yield DatasetReference(span, name, None if table.alias else _short(name))


def _short(name: str) -> str:
    """The qualifier of a dataset's columns: its name without workflow and run."""
    return name.partition("@")[0].rpartition(".")[2]


def _is_common(table: exp.Expr) -> bool:
    """Whether a name denotes a common table that is visible there."""
    around: list[exp.Expr] = []
    above = table.parent
    while above is not None:
        around.append(above)
        above = above.parent
    inside = {id(node) for node in around}
    for clause in (node.args["with_"] for node in around if node.args.get("with_") is not None):
        for common in clause.expressions:
            is_own = id(common) in inside
            # Within itself, a common table is visible only in the recursive part of a UNION.
            added = common.this.args.get("expression") if clause.args.get("recursive") else None
            seen = not is_own or (added is not None and id(added) in inside)
            if common.alias.lower() == table.name.lower() and seen:
                return True
            if is_own:
                break  # later common tables are not defined yet
    return False


def _common_tables(tokens: Sequence[Any]) -> Iterator[CommonTable]:
    """The common tables of the outermost WITH."""
    if not tokens or tokens[0].text.upper() != "WITH":
        return
    place = 2 if len(tokens) > 1 and tokens[1].text.upper() == "RECURSIVE" else 1
    while place < len(tokens) - 1:
        first = tokens[place]
        while place < len(tokens) and tokens[place].text.upper() != "AS":
            place += 1
        while place < len(tokens) and tokens[place].text != "(":
            place += 1
        if place == len(tokens):
            return
        end = _closing(tokens, place, first.text)
        yield CommonTable(Span(first.start, tokens[end].end + 1), first.text)
        if end + 1 >= len(tokens) or tokens[end + 1].text != ",":
            return
        place = end + 2
