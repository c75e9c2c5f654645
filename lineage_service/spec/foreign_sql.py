"""Forms that sqlglot's parser takes and Spark's does not: half-written clauses, and what only other dialects have.

sqlglot reads an ON without a condition as true, `OVER AS x` as `OVER ()`: such a text would run with another meaning
than its author's. `check_tokens` in sql_syntax finds mistakes of every dialect; these are found only for Spark's sake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.spec.sql_syntax import SPAN, SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

_JOIN_WORDS = frozenset(["CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "OUTER"])
_BY = frozenset(["PARTITION_BY", "ORDER_BY", "GROUP_BY", "SORT_BY", "CLUSTER_BY", "DISTRIBUTE_BY"])
_SET_OPERATIONS = frozenset(["UNION", "INTERSECT", "EXCEPT"])
# What ends the clause before it.
_ENDS = frozenset(["R_PAREN", "COMMA", "WHERE", "HAVING", "QUALIFY", "LIMIT", "JOIN", "ON", "USING", "LATERAL",
                   "WINDOW", "ALIAS", *_BY, *_SET_OPERATIONS])  # fmt: skip
_ARRANGING = frozenset(["ORDER_BY", "SORT_BY", "CLUSTER_BY", "DISTRIBUTE_BY", "LIMIT", "OFFSET"])
_OPERAND_ENDS = frozenset(["VAR", "IDENTIFIER", "STRING", "NUMBER", "R_PAREN", "R_BRACKET"])
_OPERAND_FOLLOWS = frozenset(["SELECT", "COMMA", "L_PAREN", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "AND", "OR", "NOT",
                              "WHERE", "WHEN", "THEN", "ELSE", "ON", "BETWEEN", "HAVING", "DISTINCT", "PLUS", "DASH",
                              "SLASH", "LIKE", *_BY])  # fmt: skip
_AFTER_IS = frozenset(["null", "true", "false", "unknown", "distinct"])
_TYPED_LITERALS = frozenset(["date", "timestamp", "timestamp_ntz", "timestamp_ltz", "time", "interval", "x", "r"])
_OTHER_OPERATORS = {"GLOB": "LIKE", "SIMILAR_TO": "RLIKE", "OVERLAPS": "comparisons of the ends"}


@dataclass
class _Level:
    """Inside one pair of parentheses. opener: the word before it · arranged: the ORDER BY, LIMIT … read so far."""

    opener: Token | None
    has_select: bool = False
    has_join: bool = False
    arranged: Token | None = None


def check_foreign_tokens(tokens: Sequence[Token]) -> None:
    """SqlSyntaxError for what can be told by the tokens."""
    levels = [_Level(None)]
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if before is not None and before.token_type.name == "DOT":
            continue
        kind = token.token_type.name
        if kind == "L_PAREN":
            levels.append(_Level(before))
        elif kind == "R_PAREN" and len(levels) > 1:
            levels.pop()
        _check_clause(token, before, after, tokens[index + 1 : index + 4], levels[-1])
        _check_operator(token, before, after, levels[-1])
        _check_names(token, before, after, tokens[index - 2] if index > 1 else None)
        _note(levels[-1], kind, token, after)


def _note(level: _Level, kind: str, token: Token, after: Token | None) -> None:
    if kind == "SELECT":
        level.has_select, level.has_join, level.arranged = True, False, None
    elif kind == "JOIN":
        level.has_join = True
    elif kind in _ARRANGING and (kind not in ("LIMIT", "OFFSET") or _kind(after) == "NUMBER"):
        level.arranged = token


def _check_clause(
    token: Token, before: Token | None, after: Token | None, following: Sequence[Token], level: _Level
) -> None:
    kind = token.token_type.name
    if kind == "ON" and level.has_join and _ends_here(after, following[1:]):
        raise SqlSyntaxError("ON has no condition", token.start, "write one behind it, or CROSS JOIN")
    if kind == "USING" and level.has_join and _kind(after) != "L_PAREN":
        raise SqlSyntaxError("USING has no columns in parentheses", token.start, "write USING (column, …)")
    if kind == "USING" and [each.token_type.name for each in following[:2]] == ["L_PAREN", "R_PAREN"]:
        raise SqlSyntaxError("USING names no column", token.start, "write USING (column, …), or CROSS JOIN")
    if kind == "COMMA" and after is not None and _begins_a_join(following):
        raise SqlSyntaxError(f"nothing stands between this comma and '{after.text}'", token.start, "leave it away")
    is_without_window = after is None or after.token_type.name == "FROM" or _ends_here(after, ())
    if kind == "OVER" and _kind(before) in ("R_PAREN", "NULLS") and is_without_window:
        raise SqlSyntaxError("OVER has no window", token.start, "write OVER (…), or the name of a window")
    is_followed_by_frame = after is not None and after.text.upper() in ("ROWS", "RANGE")
    if kind in _BY and after is not None and (_ends_here(after, following[1:]) or is_followed_by_frame):
        raise SqlSyntaxError(f"{token.text.upper()} has no expressions", token.start, "write them behind it")
    is_star_except = kind == "EXCEPT" and _kind(before) == "STAR"
    if kind in _SET_OPERATIONS and level.arranged is not None and not is_star_except:
        clause = level.arranged.text.upper()
        raise SqlSyntaxError(f"{clause} stands before {token.text.upper()}", level.arranged.start,
                             "put the query before it in parentheses, or write it at the end")  # fmt: skip
    if kind == "WINDOW" and [each.token_type.name for each in following[1:]] in (["ALIAS"], ["ALIAS", "R_PAREN"]):
        raise SqlSyntaxError("WINDOW has no definition", token.start, "write WINDOW name AS (…)")
    is_call = _kind(level.opener) in ("VAR", "IDENTIFIER") and not level.has_select
    if kind in ("ORDER_BY", "LIMIT") and is_call and level.opener is not None and level.opener.text.lower() != "group":
        raise SqlSyntaxError(f"Spark SQL has no {token.text.upper()} inside the parentheses of a function", token.start,
                             "use array_sort(), listagg() WITHIN GROUP (ORDER BY …), or max_by()")  # fmt: skip


def _check_operator(token: Token, before: Token | None, after: Token | None, level: _Level) -> None:
    kind = token.token_type.name
    is_position = level.opener is not None and level.opener.text.lower() == "position"
    if kind == "IN" and _kind(after) != "L_PAREN" and not is_position:
        raise SqlSyntaxError("IN has no values in parentheses", token.start, "write IN (…), or array_contains()")
    if kind == "NOT" and _kind(after) == "NULL" and _kind(before) in _OPERAND_ENDS:
        raise SqlSyntaxError("Spark SQL has no NOT NULL behind a value", token.start, "write IS NOT NULL")
    if kind == "IS" and after is not None and after.token_type.name != "NOT" and after.text.lower() not in _AFTER_IS:
        raise SqlSyntaxError("IS compares with NULL, TRUE, FALSE or UNKNOWN only", token.start, "write =")
    if kind in ("ISNULL", "NOTNULL") and _kind(after) != "L_PAREN" and _kind(before) in _OPERAND_ENDS:
        instead = "IS NULL" if kind == "ISNULL" else "IS NOT NULL"
        raise SqlSyntaxError(f"Spark SQL has no {token.text.upper()} behind a value", token.start, f"write {instead}")
    if kind == "L_BRACKET" and (before is None or before.token_type.name in _OPERAND_FOLLOWS):
        raise SqlSyntaxError(
            "Spark SQL has no lists in brackets", token.start, "write array(…), or `name` for a column"
        )
    if kind == "DARROW":
        raise SqlSyntaxError("Spark SQL has no ->>", token.start, "write get_json_object()")
    if kind in _OTHER_OPERATORS and _kind(before) in _OPERAND_ENDS and after is not None:
        raise SqlSyntaxError(f"Spark SQL has no {token.text.upper()}", token.start, f"use {_OTHER_OPERATORS[kind]}")
    if {kind, _kind(after)} == {"ASC", "DESC"}:
        raise SqlSyntaxError("a key of ORDER BY is either ASC or DESC", token.start)
    is_empty = kind == "L_PAREN" and _kind(after) == "R_PAREN"
    if is_empty and _kind(before) in _OPERAND_FOLLOWS - {"COMMA", "L_PAREN", *_BY}:
        raise SqlSyntaxError("nothing stands between these parentheses", token.start)
    if kind == "DISTINCT" and _kind(after) == "R_PAREN":
        raise SqlSyntaxError("nothing stands behind DISTINCT", token.start)


def _check_names(token: Token, before: Token | None, after: Token | None, second: Token | None) -> None:
    """Texts where names belong. `second`: the token before `before`."""
    kind = token.token_type.name
    is_behind_table = _kind(before) in ("VAR", "IDENTIFIER") and _kind(second) in ("FROM", "JOIN", "COMMA")
    is_literal = before is not None and before.text.lower() in _TYPED_LITERALS
    if kind == "STRING" and not is_literal and (_kind(before) in ("JOIN", "R_PAREN") or is_behind_table):
        raise SqlSyntaxError(f"'{token.text}' is a text, and no name", token.start, f"write `{token.text}`")
    if kind == "STAR" and is_behind_table and _kind(second) != "COMMA" and (after is None or _ends_here(after, ())):
        raise SqlSyntaxError("a star cannot stand behind a table", token.start, "leave it away")


def check_foreign_tree(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """SqlSyntaxError for what only the tree tells."""
    from sqlglot import exp

    arrows = [token.start for token in tokens if token.token_type.name == "ARROW"]
    texts = {token.start: token.text for token in tokens if token.token_type.name == "STRING"}
    lambdas = []
    for node in tree.walk():
        start, end = node.meta.get(SPAN, (0, 0))
        if isinstance(node, exp.Lambda):
            lambdas.append((start, end))
        elif isinstance(node, exp.Table) and start in texts and end:
            raise SqlSyntaxError(
                f"'{texts[start]}' is a text, and no name of a table", start, f"write `{texts[start]}`"
            )
        elif isinstance(node, exp.Cast) and node.args.get("format") is not None:
            raise SqlSyntaxError(
                "Spark SQL has no FORMAT in CAST", start, "use to_date(), to_timestamp() or to_number()"
            )
        elif isinstance(node, exp.CTE) and node.args.get("materialized") is not None:
            raise SqlSyntaxError("Spark SQL has no MATERIALIZED", start, "leave it away")
        elif isinstance(node, exp.Lateral) and node.args.get("view") and not _has_names(node):
            raise SqlSyntaxError("LATERAL VIEW has no name for its rows", start, "write LATERAL VIEW explode(…) t AS x")
    own = {next((arrow for arrow in arrows if arrow >= start), -1) for start, _ in lambdas}
    for arrow in arrows:
        if arrow not in own:
            raise SqlSyntaxError("-> stands outside of a lambda function", arrow, "write get_json_object()")


def _has_names(lateral: exp.Expr) -> bool:
    alias = lateral.args.get("alias")
    return alias is not None and bool(alias.this or alias.args.get("columns"))


def _kind(token: Token | None) -> str:
    return token.token_type.name if token is not None else ""


def _ends_here(token: Token | None, following: Sequence[Token]) -> bool:
    """Whether what a clause needs behind it is missing."""
    if token is None:
        return True
    is_end = token.token_type.name in _ENDS and not _begins_window_function([token, *following])
    return is_end or _begins_a_join([token, *following])


def _begins_window_function(tokens: Sequence[Token]) -> bool:
    return [token.token_type.name for token in tokens[:2]] == ["WINDOW", "L_PAREN"]


def _begins_a_join(tokens: Sequence[Token]) -> bool:
    """JOIN, or words like LEFT before it; LEFT and RIGHT are functions too."""
    kinds = [token.token_type.name for token in tokens]
    return kinds[:1] == ["JOIN"] or (
        len(kinds) > 1 and kinds[0] in _JOIN_WORDS and (kinds[1] == "JOIN" or kinds[1] in _JOIN_WORDS)
    )
