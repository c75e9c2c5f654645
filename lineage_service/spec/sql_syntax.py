"""Mistakes in the text of a query: found by its tokens, or by its parser and told in plain words.

sqlglot takes texts that Spark does not take: a comma behind the last column, clauses in any order, IN without values.
These are found here, so that a step is no more than what Spark would run.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lineage_service.errors import did_you_mean

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

SPAN = "span"  # meta of a node of the tree: offset of its first character, and of the one behind its last

_KEYWORDS = (
    "select", "from", "where", "group", "order", "having", "join", "left", "right", "inner", "outer", "full", "cross",
    "using", "union", "intersect", "except", "limit", "offset", "distinct", "between", "exists", "when", "then", "else",
    "case", "over", "partition", "preceding", "following", "unbounded", "current", "rows", "range", "qualify", "window",
    "values", "lateral", "with", "desc",
)  # fmt: skip
_OTHER_STATEMENTS = frozenset(
    ["alter", "analyze", "cache", "call", "comment", "create", "delete", "describe", "desc", "drop", "explain", "grant",
     "insert", "load", "merge", "optimize", "refresh", "replace", "revoke", "set", "show", "truncate", "update", "use"]
)  # fmt: skip
_OTHER_WORDS = {"&&": "AND", "//": "DIV"}
# Clauses of one SELECT in the order in which they are written.
_CLAUSES = {"WHERE": 1, "GROUP_BY": 2, "HAVING": 3, "QUALIFY": 4, "ORDER_BY": 5, "LIMIT": 6, "OFFSET": 7}
_BEHIND_A_LIST = ("FROM", "WHERE", "GROUP_BY", "HAVING", "QUALIFY", "ORDER_BY", "UNION", "INTERSECT",
                  "SELECT", "R_PAREN", "COMMA")  # fmt: skip
_QUERIES_BEGIN_WITH = ("select", "with", "(")
_SAID = {
    "Invalid expression / Unexpected token": "it cannot stand here",
    "Expected TYPE after CAST": "this is no type",
    "Expected END after CASE": "a CASE lacks its END, or a WHEN its THEN",
    "Failed to parse any statement following CTE": "behind WITH a SELECT is missing",
    "Expected CTE to have alias": "a CTE has a name: WITH name AS (…)",
}


class SqlSyntaxError(Exception):
    """A text that is no query, with the offset of the place."""

    def __init__(self, message: str, offset: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.offset, self.hint = message, offset, hint


def unclosed_text(text: str) -> SqlSyntaxError:
    """The error for a text that cannot be cut into tokens: where the quote or comment begins that is not closed."""
    ends = {"'": "'", '"': '"', "`": "`", "/*": "*/", "--": "\n"}
    at = 0
    while at < len(text):
        begin = next((each for each in ends if text.startswith(each, at)), None)
        if begin is None:
            at += 1
            continue
        end = at + len(begin)
        while end < len(text) and not text.startswith(ends[begin], end):
            end += 2 if text[end] == "\\" and begin in "'\"" else 1
        if end >= len(text) and begin != "--":
            what = {"`": "a quoted name", "/*": "a comment"}.get(begin, "a text in quotes")
            return SqlSyntaxError(f"{what} begins here and is not closed", at)
        at = end + len(ends[begin])
    return SqlSyntaxError("a text, a quoted name or a comment of the query is not closed", 0)


def check_tokens(tokens: Sequence[Token]) -> None:
    """SqlSyntaxError for what can be told without the tree."""
    if tokens[0].text.lower() in _OTHER_STATEMENTS:
        raise SqlSyntaxError("an sql step is one query", tokens[0].start, "begin it with SELECT or WITH")
    _check_template(tokens)
    _check_parameters(tokens)
    _check_brackets(tokens)
    _check_lists(tokens)
    _check_clause_order(tokens)


def _check_template(tokens: Sequence[Token]) -> None:
    for token, after in pairwise(tokens):
        if token.text in ("{%", "{{", "{{-") or (token.text == after.text == "{" and after.start == token.start + 1):
            raise SqlSyntaxError(
                "the text is a template: Spark SQL has no '{{' and '{%'",
                token.start,
                "use the compiled query, as in dbt's target/compiled, or `smoke-lineage import dbt`",
            )


def _check_parameters(tokens: Sequence[Token]) -> None:
    for before, token in pairwise(tokens):
        kind = token.token_type.name
        is_value = before.token_type.name in ("VAR", "STRING", "IDENTIFIER", "R_PAREN", "R_BRACKET")
        is_marker = kind == "PLACEHOLDER" or (kind == "PARAMETER" and token.text != "$")
        if is_marker or (kind == "COLON" and not is_value):
            hint = "write ${name}, and declare it under `vars:` of the workflow"
            raise SqlSyntaxError("query parameters are not supported in sql steps", token.start, hint)


def _check_brackets(tokens: Sequence[Token]) -> None:
    open_ones: list[Token] = []
    for token in tokens:
        kind = token.token_type.name
        if kind == "L_PAREN":
            open_ones.append(token)
        elif kind == "R_PAREN" and open_ones:
            open_ones.pop()
        elif kind == "R_PAREN":
            raise SqlSyntaxError("this parenthesis closes none that is open", token.start)
    if open_ones:
        raise SqlSyntaxError("this parenthesis is not closed", open_ones[-1].start)


def _check_lists(tokens: Sequence[Token]) -> None:
    for before, token in pairwise(tokens):
        first, second = before.token_type.name, token.token_type.name
        if first == "COMMA" and second in _BEHIND_A_LIST:
            raise SqlSyntaxError(f"nothing stands between this comma and '{token.text}'", before.start, "leave it away")
        if first == "STAR" and token.text.lower() == "exclude":
            raise SqlSyntaxError("Spark SQL has no EXCLUDE", token.start, "write * EXCEPT (…)")
        if first == "ALIAS" and second == "STRING":
            raise SqlSyntaxError(f"'{token.text}' is a text, and no name", token.start, f"write `{token.text}`")
    if tokens[-1].token_type.name == "COMMA":
        raise SqlSyntaxError("nothing stands behind this comma", tokens[-1].start, "leave it away")
    for begin, middle, end in zip(tokens, tokens[1:], tokens[2:], strict=False):
        kinds = [each.token_type.name for each in (begin, middle, end)]
        if kinds == ["IN", "L_PAREN", "R_PAREN"]:
            raise SqlSyntaxError("IN has no values", begin.start)
        if kinds == ["IN", "L_PAREN", "VALUES"]:
            raise SqlSyntaxError("IN (VALUES …) is not supported in sql steps", end.start,
                                 "write IN (value, …), or IN (SELECT * FROM VALUES …)")  # fmt: skip
        if kinds == ["GROUP_BY", "WINDOW", "L_PAREN"]:
            raise SqlSyntaxError("window() in GROUP BY is not supported in sql steps", middle.start,
                                 "write window(…) AS w in the select list, and GROUP BY w")  # fmt: skip


def _check_clause_order(tokens: Sequence[Token]) -> None:
    """Clauses of one SELECT that stand in another order than Spark reads them."""
    last: list[Token | None] = [None]  # per open parenthesis: the clause before
    for index, token in enumerate(tokens):
        kind = token.token_type.name
        if kind == "L_PAREN":
            last.append(None)
        elif kind == "R_PAREN" and len(last) > 1:
            last.pop()
        elif kind in ("SELECT", "UNION", "INTERSECT", "EXCEPT"):
            last[-1] = None
        elif kind in _CLAUSES and _begins_a_clause(tokens, index):
            before = last[-1]
            if before is not None and _CLAUSES[before.token_type.name] > _CLAUSES[kind]:
                name, other = token.text.upper(), before.text.upper()
                raise SqlSyntaxError(f"{name} stands behind {other}", token.start, f"write it before {other}")
            last[-1] = token


def _begins_a_clause(tokens: Sequence[Token], index: int) -> bool:
    """LIMIT and OFFSET may be names of columns: they are clauses where a number follows."""
    if tokens[index].token_type.name not in ("LIMIT", "OFFSET"):
        return True
    return index + 1 < len(tokens) and tokens[index + 1].token_type.name == "NUMBER"


def parser_error(error: Any, text: str, tokens: Sequence[Token]) -> SqlSyntaxError:
    """What sqlglot's parser says, at its place."""
    details = error.errors[0] if error.errors else {}
    line, column, near = details.get("line"), details.get("col"), details.get("highlight")
    offset = tokens[-1].start
    if line is not None and column is not None:
        lines = text.split("\n")
        offset = sum(len(each) + 1 for each in lines[: line - 1]) + max(0, column - max(1, len(str(near or ""))))
    offset = min(offset, len(text))
    said = str(details.get("description") or "").strip().rstrip(".")
    behind = {following.start: before.text.upper() for before, following in pairwise(tokens)}
    if said.lower().startswith("expected table name") and behind.get(offset) in ("FROM", "JOIN", ","):
        return SqlSyntaxError(f"'{near}' is a word of SQL and no name of a table", offset, f"write `{near}`")
    if near and ("Required keyword" in said or "Token token_type" in said):
        reason = "something is missing behind it" if offset >= tokens[-1].start else "something is missing here"
    else:
        reason = _SAID.get(said, f"{said[:1].lower()}{said[1:]}")
    begins = tokens[0].text.lower()
    if begins not in _QUERIES_BEGIN_WITH and (meant := did_you_mean(begins, _QUERIES_BEGIN_WITH)):
        return SqlSyntaxError(f"cannot read the query at '{tokens[0].text}'", tokens[0].start, meant)
    where = f" at '{near}'" if near else ""
    message = f"cannot read the query{where}" + (f": {reason}" if reason else "")
    return SqlSyntaxError(message, offset, _hint(tokens, offset, said))


def _hint(tokens: Sequence[Token], offset: int, said: str) -> str | None:
    """What was probably meant, by the words around the place."""
    index = next((i for i, token in enumerate(tokens) if token.end >= offset), len(tokens) - 1)
    here, before = tokens[index], tokens[index - 1].text.lower() if index else ""
    written = here.text if here.text in _OTHER_WORDS else before + here.text
    if written in _OTHER_WORDS:
        return f"write {_OTHER_WORDS[written]}"
    for word, after in ((before, here), (here.text.lower(), tokens[index + 1] if index + 1 < len(tokens) else None)):
        if word in ("order", "group", "partition", "cluster") and after is not None and after.text.upper() != "BY":
            return f"write {word.upper()} BY"
    if before == "top":
        return "write LIMIT at the end of the query"
    if "Cast" in said:
        return "write CAST(value AS type)"
    if here.token_type.name == "SELECT" and index:
        return "a subquery stands in parentheses"
    if "Required keyword" in said:
        return None
    for at in (*reversed(range(max(0, index - 2), index)), index):
        token = tokens[at]
        if _is_table_name(tokens, at):
            continue
        close = difflib.get_close_matches(token.text.lower(), _KEYWORDS, n=1, cutoff=0.7)
        if token.token_type.name == "VAR" and close and close[0] != token.text.lower():
            return f"did you mean '{close[0].upper()}'?"
    if index and {here.token_type.name, tokens[index - 1].token_type.name} == {"VAR"}:
        return f"is a comma missing before '{here.text}'?"
    return None


def _is_table_name(tokens: Sequence[Token], index: int) -> bool:
    """Whether a word stands where only a table can be named: it is no misspelt keyword."""
    before = tokens[index - 1].text.upper() if index else ""
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return before in ("FROM", "JOIN") or after == "."
