"""Records of a JSON text that is a single value: an object, or an array of objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lineage_service.store.original_text import UnknownReading

SPACE = " \t\r\n"
_STRINGS = r'"(?:[^"\\]++|\\.)*+"'
_FLAT = rf"""(?:{_STRINGS}|[^"'\[\]{{}}]++)*+"""
_TO_BRACKET = re.compile(_FLAT, re.DOTALL)
# Most elements nest no deeper than this; where it does not match, the brackets are followed one by one.
_ELEMENT = re.compile(rf"""\{{{_FLAT}(?:[\[{{]{_FLAT}[\]}}]{_FLAT})*+\}}""", re.DOTALL)
_TO_COMMA = re.compile(rf"""(?:{_STRINGS}|[^"'\[\]{{}},]++)*+""", re.DOTALL)
_SPACE = re.compile(f"[{SPACE}]*+")
_STRING_END = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}


def element_lines(chunks: Iterable[str]) -> Iterator[Sequence[int]]:
    """The lines on which the records begin, in batches. Raises UnknownReading if the text is no such value.

    An object is one record, an array has one per element. Text after the value is not read.
    """
    depth, line, within, escaped, fresh = 0, 1, "", False, True
    for chunk in chunks:
        found: list[int] = []
        counted = at = 0
        while at < len(chunk):
            if within:  # a string that began in an earlier chunk, or that has single quotes
                end = None if escaped else _STRING_END[within].search(chunk, at)
                if escaped:
                    escaped, at = False, at + 1
                elif end is None:
                    at = len(chunk)
                else:
                    escaped, within, at = end.group() == "\\", within if end.group() == "\\" else "", end.end()
                continue
            if fresh:
                at = _match_end(_SPACE, chunk, at)
                if at == len(chunk):
                    break
                line, counted = line + chunk.count("\n", counted, at), at
                fresh = False
                if depth == 1 and chunk[at] != "]":
                    found.append(line)
                    at = _match_end(_ELEMENT, chunk, at)
                elif depth == 0 and chunk[at] != "[":
                    if chunk[at] != "{":
                        raise UnknownReading
                    yield [line]
                    return
            at = _match_end(_TO_COMMA if depth == 1 else _TO_BRACKET, chunk, at)
            char, at = chunk[at : at + 1], at + 1
            if char and char in "[{":
                depth += 1
                fresh = depth == 1
            elif char and char in "]}":
                depth -= 1
                if depth == 0:
                    yield found
                    return
            elif char == ",":
                fresh = True
            elif char:
                within = char
        line += chunk.count("\n", counted)
        yield found
    if depth:
        raise UnknownReading


def _match_end(pattern: re.Pattern[str], chunk: str, at: int) -> int:
    """The end of the match of a pattern; the start position if it does not match."""
    found = pattern.match(chunk, at)
    return found.end() if found else at
