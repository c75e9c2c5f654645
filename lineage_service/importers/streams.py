"""Streams in the FROM of a query, `STREAM t` and `STREAM(t)`, which is no table or function of this name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.importers.table_mentions import table_mentions
from lineage_service.spec.sql_parsing import tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


def reads_stream(query: str) -> bool:
    """Whether a query in Spark's SQL reads a stream."""
    if "stream" not in query.lower():
        return False
    try:
        tokens = tokenize_query(query)
    except SqlSyntaxError:
        return False
    tables = {mention.begin for mention in table_mentions(query)}
    for index, token in enumerate(tokens):
        if token.text.upper() != "STREAM" or _is_quoted(token):
            continue
        before, behind = tokens[index - 1 : index], tokens[index + 1 : index + 3]
        in_from = token.start in tables or any(each.text.upper() in ("FROM", "JOIN") for each in before)
        # No expression has a dotted name behind a name.
        is_dotted = [each.text for each in behind[1:]] == ["."] and behind[0].text != "("
        if behind and _is_name(behind[0]) and (in_from or is_dotted):
            return True
    return False


def _is_quoted(token: Token) -> bool:
    return token.token_type.name in ("IDENTIFIER", "STRING")


def _is_name(token: Token) -> bool:
    """Whether a token begins the name of a table, or the parenthesis around it."""
    return token.text == "(" or token.token_type.name in ("VAR", "IDENTIFIER")
