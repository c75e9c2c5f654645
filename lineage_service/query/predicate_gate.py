"""Checks user-written predicates: only columns, literals and plain functions are allowed.

A predicate is parsed, every node of its tree is checked against an allow-list, and the SQL for DuckDB is generated from
that tree. The user's text itself never reaches the engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.duckdb_parsing import parse_all
from lineage_service.query.masks import HINT

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

_HINT = 'a column called like a word of SQL is put in double quotes: "select"'

# Pure functions that sqlglot does not know by name.
_PLAIN_FUNCTIONS = frozenset(
    """abs age array_contains ascii bit_count ceil ceiling chr coalesce concat concat_ws contains date_diff date_part
    date_sub date_trunc datediff datepart datetrunc day dayname dayofmonth dayofweek dayofyear decade degrees
    ends_with epoch epoch_ms even exp floor format gcd greatest hour ifnull instr isfinite isinf isnan isodow isoyear
    lcase lcm least left len length levenshtein list_contains list_has list_position list_extract list_value ln log
    log10 log2 lower lpad ltrim map_contains map_extract map_keys map_values md5 minute mod month monthname nullif
    ord pi position pow power prefix quarter radians regexp_extract regexp_full_match regexp_matches repeat replace
    reverse right round rpad rtrim second sha256 sign sin sqrt starts_with strftime strip_accents strlen strpos
    strptime struct_extract substr substring suffix tan to_timestamp translate trim trunc try_strptime typeof ucase
    unicode upper week weekday weekofyear year array_length cardinality element_at map_extract_value""".split()  # noqa: SIM905
)


def checked_predicate(text: str, columns: Sequence[str], what: str = "predicate", masked: Collection[str] = ()) -> str:
    """The predicate as parenthesised SQL. Raises QuestionError for anything but a plain predicate, and for a predicate
    over a masked column (lower case).
    """
    with _refuse_deep_nesting(what):
        return (
            f"({_parse_expression(text, columns, what, masked).sql(dialect='duckdb', identify=True, comments=False)})"
        )


def checked_order(text: str, columns: Sequence[str], masked: Collection[str] = ()) -> str:
    """One ORDER BY item: an expression with asc or desc."""
    from sqlglot import exp

    rest, nulls = _without_end(text, r"\s(nulls\s+(?:first|last))$")
    rest, direction = _without_end(rest, r"\s(asc|desc)$")
    with _refuse_deep_nesting("order"):
        core = _parse_expression(rest, columns, "order", masked)
        if isinstance(core, exp.Literal):
            raise QuestionError("an order by number is not supported; name the column")
        return core.sql(dialect="duckdb", identify=True, comments=False) + direction + nulls


def checked_measure(text: str, columns: Sequence[str], masked: Collection[str] = ()) -> tuple[str, bool]:
    """A measure as SQL, and whether it ends in asc. Without asc, the largest values come first."""
    from sqlglot import exp

    core, direction = _without_end(text, r"\s(asc|desc)$")
    with _refuse_deep_nesting("measure"):
        tree = _parse_expression(core, columns, "measure", masked)
        if tree.find(exp.Column) is None:
            raise QuestionError(
                "a measure reads columns of the rows that it ranks", hint=f"columns here: {join_names(columns)}"
            )
        return f"({tree.sql(dialect='duckdb', identify=True, comments=False)})", direction.lower() == " asc"


def _without_end(text: str, words: str) -> tuple[str, str]:
    """A text without a trailing keyword, and the keyword with a leading space; empty if there is none."""
    text = text.rstrip()
    found = re.search(words, text, re.IGNORECASE)
    return (text[: found.start()], f" {found[1]}") if found else (text, "")


@contextmanager
def _refuse_deep_nesting(what: str) -> Iterator[None]:
    """Translates a RecursionError or an exceeded parser limit into a QuestionError about deep nesting."""
    try:
        yield
    except RecursionError:
        raise QuestionError(f"the {what} is nested too deeply") from None


def _parse_expression(text: str, columns: Sequence[str], what: str, masked: Collection[str]) -> exp.Expr:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if len(text) > 20_000:
        raise QuestionError(f"the {what} is too long ({len(text)} characters; at most 20000)")
    try:
        trees = parse_all(text)
    except SqlglotError as error:
        raise QuestionError(f"cannot read the {what}: {_reason(error)}", hint=_HINT) from None
    if len(trees) != 1 or trees[0] is None:
        raise QuestionError(f"the {what} must be one expression")
    tree = trees[0]
    if isinstance(tree, exp.Alias):
        raise QuestionError(f"the {what} must be one expression, without a name")
    allowed = _allowed_nodes()
    for node in tree.walk():
        if isinstance(node, exp.Column):
            _resolve(node, columns)
            # Any part: the first part may be a column name or a table name.
            hidden = next((part.name for part in node.parts if part.name.lower() in masked), None)
            if hidden is not None or (masked and isinstance(node.this, exp.Star)):
                raise QuestionError(
                    f"column '{hidden or '*'}' is masked: {_with_article(what)} over it would disclose its values",
                    hint=HINT,
                )
        elif isinstance(node, exp.Anonymous):
            if node.name.lower() not in _PLAIN_FUNCTIONS:
                raise QuestionError(f"function '{node.name}' is not allowed in {_with_article(what)}")
        elif isinstance(node, exp.AggFunc | exp.Window | exp.UDTF):
            raise QuestionError(f"{_with_article(what)} looks at one row: aggregates and windows are not allowed")
        elif isinstance(node, exp.Func) and not isinstance(node, allowed):
            if not _is_plain(node):
                raise QuestionError(f"function '{_function_name(node, text)}' is not allowed in {_with_article(what)}")
        elif not isinstance(node, allowed):
            raise QuestionError(
                f"{_with_article(what)} may hold columns, values, operators and plain functions, "
                f"but no {type(node).__name__.lower()}",
                hint=_HINT,
            )
    return tree


def _with_article(what: str) -> str:
    return f"{'an' if what == 'order' else 'a'} {what}"


def _function_name(node: exp.Func, text: str) -> str:
    """A function's name as the user wrote it. The parser renames functions that it knows."""
    start, end = node.meta.get("start"), node.meta.get("end")
    return node.sql_name().lower() if start is None or end is None else text[start : end + 1]


def _reason(error: SqlglotError) -> str:
    """The parser's error without the class names of its tree."""
    details = getattr(error, "errors", None) or [{}]
    at = details[0].get("highlight") or ""
    return f"something is wrong at or behind '{at}'" if at else "it ends too early"


def _is_plain(node: exp.Func) -> bool:
    names = {name.lower() for name in type(node).sql_names()}
    written = node.meta.get("name", "")
    return bool(names & _PLAIN_FUNCTIONS) or str(written).lower() in _PLAIN_FUNCTIONS


def _allowed_nodes() -> tuple[type[exp.Expr], ...]:
    from sqlglot import exp

    return (
        exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Binary, exp.Unary,
        exp.Between, exp.In, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval,
        exp.Var, exp.Coalesce, exp.Bracket, exp.Array, exp.Dot, exp.Concat, exp.Extract, exp.TsOrDsToDate,
        exp.HexString, exp.Slice, exp.Escape, exp.Like, exp.ILike, exp.IntervalSpan, exp.RegexpLike, exp.Struct,
        exp.PropertyEQ, exp.CurrentDate, exp.CurrentTimestamp, exp.TimestampTrunc, exp.DateTrunc, exp.TimeToStr,
        exp.StrPosition, exp.TimeToUnix, exp.AtTimeZone, exp.SplitPart, exp.LastDay, exp.Hex,
    )  # fmt: skip


def _resolve(node: exp.Column, columns: Sequence[str]) -> None:
    """A column of the dataset, or a field of a struct column. Anything else is unknown."""
    first = node.parts[0]
    if first.name.lower() not in (name.lower() for name in columns):
        raise QuestionError(
            f"unknown column '{first.name}'; columns here: {join_names(columns)}",
            hint=did_you_mean(first.name, columns),
        )
