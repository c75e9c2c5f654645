"""Line breaks of SQL texts."""

from __future__ import annotations

from lineage_service.spec.sql_parsing import tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError


def with_line_feeds(text: str) -> str:
    """The text with \\n in the place of \\r\\n, unless one is in a text or a quoted name: there it is a part of it."""
    if "\r\n" not in text:
        return text
    try:
        tokens = tokenize_query(text)
    except SqlSyntaxError:
        return text
    within = any("\r\n" in text[token.start : token.end + 1] for token in tokens)
    return text if within else text.replace("\r\n", "\n")
