"""Finds the functions that an expression calls, by the rules of Spark's own lexer.

sqlglot's tokens are not used: where the two disagree about the end of a string or a comment, a call could hide. This
follows the rules of Spark's grammar (SqlBaseLexer) and only knows strings, quoted names, comments and words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lineage_service.errors import did_you_mean
from lineage_service.plan.bounded_parsing import MOST_NESTED, nesting
from lineage_service.plan.functions import ALLOWED, REFUSED, SYNTAX

_LEXEME = re.compile(
    r"""
      (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<begin>/\*)
    | (?P<word>\w+)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A part of the text that is neither white space nor a comment. kind: text, quoted, word, other."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        """The name in a word or quoted name, in lower case."""
        bare = self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text
        return bare.lower()


class Unreadable(Exception):
    """A string, quoted name or comment that does not end, or a text that Spark would replace before reading."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def lexemes(text: str) -> list[Lexeme]:
    """The lexemes of a text, as in Spark's lexer."""
    found, at = [], 0
    while at < len(text):
        match = _LEXEME.match(text, at)
        assert match is not None, "every character is matched"
        kind = str(match.lastgroup)
        at = match.end()
        if kind == "begin":
            at = _end_of_comment(text, at)
        elif kind in ("raw", "text"):
            found.append(Lexeme("text", match[0]))
        elif kind in ("quoted", "word"):
            found.append(Lexeme(kind, match[0]))
        elif kind == "other":
            found.append(Lexeme(kind, _symbol(match[0])))
    return found


def _symbol(character: str) -> str:
    """A symbol of the grammar. Raises Unreadable for other characters, whose meaning to Spark is unknown."""
    if character in "'\"`":
        raise Unreadable(f"a {character} is not closed")
    if character in "${}" or not character.isascii() or not character.isprintable():
        hint = "variables are declared under `vars:` and written ${name}" if character in "${}" else None
        raise Unreadable(f"the character {character!a} has no place outside of texts and quoted names", hint)
    return character


def _end_of_comment(text: str, at: int) -> int:
    """The end of a comment. Nested comments and hints are refused, because their rules are not implemented here."""
    end = text.find("*/", at)
    if end < 0:
        raise Unreadable("a comment is not closed")
    if "/*" in text[at:end] or text[at : at + 1] == "+":
        raise Unreadable("a comment inside of a comment, or a hint, cannot be read safely", "remove it")
    return end + 2


def refuse_calls(text: str) -> None:
    """Raises Unreadable if an expression calls a function that is not on the allow-list."""
    if "${" in text:
        raise Unreadable(
            "Spark would replace '${…}' in an expression by a setting or a variable of the environment",
            "write the text in two parts: concat('$', '{…}')",
        )
    parts = lexemes(text)
    _refuse_nested(parts)
    if any(part.text == ";" for part in parts):
        raise Unreadable("an expression is one value, without ';'", "remove the ';'")
    for index, (part, after) in enumerate(pairwise(parts)):
        if part.text == ")" and after.text == "(":
            raise Unreadable("a function's name must be written as such, not computed")
        is_name = part.kind in ("word", "quoted")
        if not is_name or after.text != "(" or after.kind != "other" or (part.kind == "word" and part.name in SYNTAX):
            continue
        if index and parts[index - 1].text == "." and parts[index - 1].kind == "other":
            raise Unreadable(
                f"the function '{part.name}' is called with a catalog or schema before its name",
                "only functions that are built into Spark may be called, by their own names",
            )
        refuse_function(part.name)
    for part in parts:
        if part.kind == "word" and part.name in REFUSED_WORDS:
            refuse_function(part.name)


def _refuse_nested(parts: Sequence[Lexeme]) -> None:
    """Raises Unreadable if an expression is nested too deeply to be parsed in reasonable time."""
    levels = nesting([part.text.lower() if part.kind in ("word", "other") else "" for part in parts])
    if levels > MOST_NESTED:
        raise Unreadable(
            f"the expression is nested {levels:,} levels deep; the most is {MOST_NESTED}",
            "compute its inner parts first, as columns of a step with `op: with_columns`",
        )


def refuse_function(name: str) -> None:
    if name in REFUSED:
        reason, instead = REFUSED[name]
        raise Unreadable(f"{name}() {reason}", instead)
    if name in _FOREIGN:
        raise Unreadable(f"unknown function '{name}'", _FOREIGN[name])
    if name not in ALLOWED:
        hint = did_you_mean(name, ALLOWED)
        hint = hint or "only Spark SQL functions that compute a value from their arguments are supported"
        raise Unreadable(f"unknown function '{name}'", hint)


# Functions of Python and of other databases, and what is written here.
_FOREIGN = {
    **dict.fromkeys(("col", "column"), "a column is written by its name alone"),
    "group_concat": "here it is listagg(value, separator)",
    "lit": "a value is written as it is: 1, 'text', true",
    **dict.fromkeys(("getdate", "sysdate"), "here it is current_timestamp()"),
    **dict.fromkeys(("iif", "iff"), "here it is if(condition, value, other)"),
    **dict.fromkeys(("isna", "is_null"), "write `x is null`"),
    "notna": "write `x is not null`",
    **dict.fromkeys(("str", "to_string"), "write `cast(x as string)`"),
    "datetime": "write `timestamp '2024-01-31 10:00:00'`, or to_timestamp()",
    "nunique": "here it is count(DISTINCT x)",
}

# Spark takes these for calls without parentheses too; a column of that name is quoted.
REFUSED_WORDS = frozenset({"current_path"})
