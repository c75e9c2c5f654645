"""Redacts the values of persons in one expression or SQL query, token by token, comments included.

A value that is compared for equality with a column that is personal wherever its name occurs is replaced by one that no
person has, and the comparison keeps its meaning. Any other use is marked (spec/redaction_markers.py). Numbers and dates
occur by chance: they are replaced only where they are compared with a personal column, and in comments.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from lineage_service.audit.erasure.identifying_values import IdentifyingValues, is_searchable
from lineage_service.audit.erasure.names_in_queries import EVERY_NAME
from lineage_service.spec.redaction_markers import NUMBER, SAFE, UNSAFE, YEARS


def _lexeme(text: str, name: str) -> re.Pattern[str]:
    return re.compile(
        rf"""
          (?P<comment>--[^\r\n]*|/\*.*?(?:\*/|\Z))
        | (?P<text>{text})
        | (?P<name>{name})
        | (?P<number>(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:[A-Za-z]{{1,2}}(?!\w))?
        | (?P<word>\w+)
        | (?P<space>\s+)
        | (?P<sign><=>|<>|!=|==|<=|>=|::|\|\||.)
        """,
        re.VERBOSE | re.DOTALL,
    )


_LEXEME = _lexeme(r"""[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")""", "`(?:[^`]|``)*`")
_DUCKDB_LEXEME = _lexeme("'(?:[^']|'')*'", '"(?:[^"]|"")*"')
_EQUALITY = frozenset({"=", "==", "<=>", "<>", "!="})
_COMPARISON = _EQUALITY | {"<", ">", "<=", ">="}
# Between these, a comparison is a whole one: nothing binds its sides more tightly.
_BEFORE = frozenset({"(", ",", "AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "WHERE", "ON", "HAVING", "QUALIFY", "SELECT",
                     "DISTINCT", "BY"})  # fmt: skip
_BEHIND = frozenset({")", ",", ";", "AND", "OR", "THEN", "ELSE", "END", "WHEN", "AS", "WHERE", "GROUP", "HAVING",
                     "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "UNION",
                     "EXCEPT", "MINUS", "INTERSECT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL",
                     "SEMI", "ANTI", "LATERAL"})  # fmt: skip
_BEFORE_SIGN = _BEFORE | {"", "BETWEEN"}
_KEYWORDS = _BEFORE | _BEHIND | {"IN", "CASE", "BETWEEN", "IS", "LIKE"}
_DATE = re.compile(r"\d{4,}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class _Part:
    """A literal, a column or anything else of an expression. `value`: of a literal; of a column, its name without
    qualifiers, in lower case.
    """

    kind: str  # literal, column, other
    text: str
    start: int
    end: int
    value: str = ""


def redact_expression(
    text: str, identifying: IdentifyingValues, also_called: frozenset[str] = frozenset(), *, is_duckdb: bool = False
) -> str:
    """The expression without values of the persons. `also_called`: further names that columns have in this text which
    may not be personal; `EVERY_NAME` for all.
    """
    changes = {
        match.span(): _without_values(match[0], identifying)
        for match in _lexemes(text, is_duckdb)
        if match.lastgroup == "comment"
    }
    parts = _all_parts(text, is_duckdb)
    unclear = identifying.columns if EVERY_NAME in also_called else identifying.ambiguous | also_called
    unclear = unclear | set(_parameters(parts))
    for index, part in enumerate(parts):
        if part.kind != "literal":
            continue
        compared = _column_compared(parts, index, identifying.columns)
        is_safe = compared is not None and compared.is_equality and compared.name not in unclear
        new = _new_literal(part, identifying, is_near=compared is not None, is_safe=is_safe)
        if new != part.text:
            changes[part.start, part.end] = new
    for (start, end), new in sorted(changes.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def names_given(query: str, *, is_duckdb: bool = False) -> Iterator[str]:
    """Names that a query gives to columns (or tables): with AS, or directly behind an expression."""
    parts = _all_parts(query, is_duckdb)
    for index, part in enumerate(parts[1:], 1):
        before = parts[index - 1]
        is_behind = before.kind in ("column", "literal") or before.text.upper() in ("AS", ")", "END")
        if part.kind == "column" and is_behind and not _keeps_its_name(parts, index):
            yield part.value


def _keeps_its_name(parts: Sequence[_Part], index: int) -> bool:
    """Whether an alias is the name of the one column that it stands for: `SELECT p.name AS name`."""
    column = index - 2 if parts[index - 1].text.upper() == "AS" else index - 1
    is_whole = column > 0 and parts[column - 1].text.upper() in (",", "SELECT", "DISTINCT")
    return is_whole and parts[column].kind == "column" and parts[column].value == parts[index].value


def _parameters(parts: Sequence[_Part]) -> Iterator[str]:
    """The parameters of lambda functions."""
    for index in range(1, len(parts) - 1):
        if (parts[index].text, parts[index + 1].text) == ("-", ">"):
            for place in range(_group_before(parts, index - 1), index):
                if parts[place].kind == "column":
                    yield parts[place].value


def digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]


# --- literals -------------------------------------------------------------------------------------------------


def _new_literal(part: _Part, identifying: IdentifyingValues, *, is_near: bool, is_safe: bool) -> str:
    texts = [each for each in sorted(identifying.texts, key=len, reverse=True) if is_searchable(each)]
    number = _same_number(part.value, identifying.numbers)
    if is_safe and part.value in texts:
        return f"'{SAFE}{digest(part.value)}'"
    if number is not None and is_near:
        return _number_of_nobody(part, number) if is_safe else f"'{UNSAFE}{digest(number)}'"
    new = part.text
    for each in texts:
        for spelled in dict.fromkeys((each, each.replace("'", "''"))):
            new = re.sub(re.escape(spelled), UNSAFE + digest(each), new, flags=re.IGNORECASE)
    hidden = next((each for each in texts if each.casefold() in part.value.casefold()), None)
    # In pieces, or with escapes: the whole literal goes.
    return f"'{UNSAFE}{digest(hidden)}'" if hidden is not None and new == part.text else new


def _number_of_nobody(part: _Part, number: str) -> str:
    """A literal of the same kind: comparing other types could fail."""
    drawn = int(digest(number), 16)
    if _DATE.fullmatch(number):
        day = f"'{YEARS}{drawn % 100:02d}-{drawn // 100 % 12 + 1:02d}-{drawn // 1200 % 28 + 1:02d}'"
        return f"DATE {day}" if part.text.upper().startswith("DATE") else day
    other = f"{NUMBER}{drawn % 10**16:016d}"
    return f"'{other}'" if part.text.endswith(("'", '"')) else other


def _same_number(value: str, numbers: set[str]) -> str | None:
    """The person's number, or date, that a literal means."""
    if value in numbers:
        return value
    try:
        meant = Decimal(value)
        return next((each for each in numbers if not _DATE.fullmatch(each) and Decimal(each) == meant), None)
    except InvalidOperation:
        return None


def _without_values(comment: str, identifying: IdentifyingValues) -> str:
    """A comment means nothing to a computation."""
    for each in sorted(identifying.texts, key=len, reverse=True):
        if is_searchable(each):
            comment = re.sub(re.escape(each), SAFE + digest(each), comment, flags=re.IGNORECASE)
    for each in sorted(identifying.numbers, key=len, reverse=True):
        if is_searchable(each):
            comment = re.sub(rf"(?<![\w.\-]){re.escape(each)}(?!\w)", SAFE + digest(each), comment)
    return comment


# --- comparisons ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Comparison:
    name: str  # of the column
    is_equality: bool


def _column_compared(parts: Sequence[_Part], index: int, columns: set[str]) -> _Comparison | None:
    """The personal column that a literal is compared with."""

    def at(place: int) -> str:
        return parts[place].text.upper() if 0 <= place < len(parts) else ","

    def personal(place: int) -> str | None:
        is_column = 0 <= place < len(parts) and parts[place].kind == "column"
        return parts[place].value if is_column and parts[place].value in columns else None

    for column, sign, first, last in (
        (index - 2, index - 1, index - 2, index),
        (index + 2, index + 1, index, index + 2),
    ):
        if at(sign) in _COMPARISON and (name := personal(column)):
            is_whole = at(first - 1) in _BEFORE and at(last + 1) in _BEHIND
            return _Comparison(name, is_whole and at(sign) in _EQUALITY)
    if found := _listed(parts, index, at, personal) or _in_group(parts, index, at, personal):
        return found
    if at(index - 1) == "WHEN" and (case := _case_before(parts, index - 1)) is not None:
        is_simple = at(case + 2) == "WHEN"
        if is_simple and (name := personal(case + 1)):
            return _Comparison(name, at(index + 1) == "THEN")
    for between in (index - 1, index - 3):
        if at(between) == "BETWEEN" and (between == index - 1 or at(index - 1) == "AND"):
            name = personal(between - 1) or (personal(between - 2) if at(between - 1) == "NOT" else None)
            return None if name is None else _Comparison(name, False)
    return None


def _listed(
    parts: Sequence[_Part], index: int, at: Callable[[int], str], personal: Callable[[int], str | None]
) -> _Comparison | None:
    """The column before the list of IN that the literal is in."""
    first, last = index, index
    while at(first - 1) == "," and first >= 2 and parts[first - 2].kind == "literal":
        first -= 2
    while at(last + 1) == "," and last + 2 < len(parts) and parts[last + 2].kind == "literal":
        last += 2
    if at(first - 1) != "(" or at(first - 2) != "IN":
        # A list with more than literals in it: the column is before the parenthesis around the literal.
        depth, place = 0, index - 1
        while place >= 0 and (at(place) != "(" or depth):
            depth += {")": 1, "(": -1}.get(at(place), 0)
            if at(place) == "SELECT" and not depth:
                return None  # a subquery
            place -= 1
        if at(place - 1) != "IN":
            return None
        name = personal(place - 2) or (personal(place - 3) if at(place - 2) == "NOT" else None)
        return None if name is None else _Comparison(name, False)
    column = first - 4 if at(first - 3) == "NOT" else first - 3
    name = personal(column)
    is_whole = at(last + 1) == ")" and at(last + 2) in _BEHIND and at(column - 1) in _BEFORE
    return None if name is None else _Comparison(name, is_whole)


def _in_group(
    parts: Sequence[_Part], index: int, at: Callable[[int], str], personal: Callable[[int], str | None]
) -> _Comparison | None:
    """A personal column within a call, or within a tuple, that the literal or its own tuple is compared with."""
    first = last = index
    if at(first - 1) in ("(", ",") and at(last + 1) in (")", ","):  # perhaps in a tuple
        while first >= 0 and not (at(first) == "(" and _group_behind(parts, first) > index):
            first -= 1
        last = _group_behind(parts, first) if first >= 0 else index
    for sign, begin, end in (
        (first - 1, _group_before(parts, first - 2), first - 2),
        (last + 1, last + 2, _group_behind(parts, last + 2)),
    ):
        if at(sign) not in _COMPARISON:
            continue
        if at(begin - 1) == "COUNT" or at(begin) == "COUNT":
            continue  # it tells nothing of a value
        name = next(filter(None, map(personal, range(begin, end + 1))), None)
        if name is not None:
            return _Comparison(name, False)
    return None


def _group_before(parts: Sequence[_Part], last: int) -> int:
    """The parenthesis that is closed at a place; the place itself if none is."""
    depth = 0
    for place in range(last, -1, -1):
        depth += {")": 1, "(": -1}.get(parts[place].text, 0)
        if not depth:
            return place
    return max(last, 0)


def _group_behind(parts: Sequence[_Part], first: int) -> int:
    """The end of a parenthesis, or of a call, that begins at a place; the place itself if none does."""
    depth = 0
    called = first + 1 < len(parts) and parts[first].kind == "other" and parts[first + 1].text == "("
    for place in range(first + called, len(parts)):
        depth += {"(": 1, ")": -1}.get(parts[place].text, 0)
        if not depth:
            return place
    return first


def _case_before(parts: Sequence[_Part], index: int) -> int | None:
    """The CASE that a WHEN belongs to."""
    depth = 0
    for place in range(index - 1, -1, -1):
        word = parts[place].text.upper()
        if word == "END":
            depth += 1
        elif word == "CASE":
            if not depth:
                return place
            depth -= 1
    return None


# --- parts ----------------------------------------------------------------------------------------------------


def _lexemes(text: str, is_duckdb: bool) -> list[re.Match[str]]:
    return list((_DUCKDB_LEXEME if is_duckdb else _LEXEME).finditer(text))


def _all_parts(text: str, is_duckdb: bool) -> list[_Part]:
    lexemes = _lexemes(text, is_duckdb)
    return list(_parts([each for each in lexemes if each.lastgroup not in ("comment", "space")], is_duckdb))


def _parts(lexemes: Sequence[re.Match[str]], is_duckdb: bool) -> Iterator[_Part]:
    index, before = 0, ""
    while index < len(lexemes):
        kind, last, value = _part_at(lexemes, index, before, is_duckdb)
        start, end = lexemes[index].start(), lexemes[last].end()
        text = lexemes[index].string[start:end]
        yield _Part(kind, text, start, end, value)
        before, index = text.upper(), last + 1


def _part_at(lexemes: Sequence[re.Match[str]], first: int, before: str, is_duckdb: bool) -> tuple[str, int, str]:
    """Kind, last lexeme and value of the part that begins here."""

    def kind_at(place: int) -> str | None:
        return lexemes[place].lastgroup if place < len(lexemes) else None

    kind, text, last = kind_at(first), lexemes[first][0], first
    if kind == "number":
        return "literal", first, str(lexemes[first]["number"])
    if text == "-" and kind_at(first + 1) == "number" and (before in _BEFORE_SIGN or before in _COMPARISON):
        return "literal", first + 1, f"-{lexemes[first + 1]['number']}"
    if text == "+" and kind_at(first + 1) == "number" and (before in _BEFORE_SIGN or before in _COMPARISON):
        return "literal", first + 1, str(lexemes[first + 1]["number"])
    is_typed = text.upper() == "DATE" and kind_at(first + 1) == "text"
    if kind == "text" or is_typed:
        last += is_typed
        value = _decoded(lexemes[last][0], is_duckdb)
        while kind_at(last + 1) == "text":  # pieces of one literal
            last += 1
            value += _decoded(lexemes[last][0], is_duckdb)
        return "literal", last, value
    if kind == "name" or (kind == "word" and text.upper() not in _KEYWORDS):
        while kind_at(last + 2) in ("name", "word") and lexemes[last + 1][0] == ".":
            last += 2
        is_call = last + 1 < len(lexemes) and lexemes[last + 1][0] == "("
        return "other" if is_call else "column", last, _name(lexemes[last])
    return "other", first, ""


def _name(lexeme: re.Match[str]) -> str:
    text = lexeme[0]
    return (text[1:-1].replace(text[0] * 2, text[0]) if lexeme.lastgroup == "name" else text).lower()


def _decoded(literal: str, is_duckdb: bool) -> str:
    is_raw, quote = literal[0] in "rR", literal[-1]
    inside = (literal[2:-1] if is_raw else literal[1:-1]).replace(quote * 2, quote)
    return inside if is_raw or is_duckdb else _ESCAPE.sub(_unescaped, inside)


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[01][0-7]{2})|(?P<other>.))", re.DOTALL
)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescaped(match: re.Match[str]) -> str:
    """The character that Spark reads for an escape."""
    number = match["short"] or match["long"]
    if number or match["octal"]:
        code = int(number, 16) if number else int(match["octal"], 8)
        return chr(code) if code <= sys.maxunicode else match[0]
    return _CONTROLS.get(match["other"], match["other"])
