"""How much room text takes, for code that draws without a font: never less than any usual font would need."""

from __future__ import annotations

import unicodedata

# Of the font's size. Monospaced fonts have 0.55 to 0.61 a cell; bold sans-serif is widest in Verdana and DejaVu.
_CELL = 0.62
_WIDE = 0.88
_NARROW = 0.45
_PLAIN = 0.72
_NARROW_LETTERS = frozenset("fijlrtI.,:;'|!()[] -/")
_WIDE_LETTERS = frozenset("mwMWOQGDHNU@%&")


def cells(text: str) -> int:
    """Cells of a monospaced font: two for wide characters, and one even for marks that need none."""
    return sum(2 if unicodedata.east_asian_width(character) in "WFA" else 1 for character in text)


def mono_width(text: str, size: float) -> float:
    return cells(text) * _CELL * size


def bold_width(text: str, size: float) -> float:
    """Of bold sans-serif text."""
    return size * sum(_em(character) for character in text)


def _em(character: str) -> float:
    if not character.isascii():
        return 1.1 if unicodedata.east_asian_width(character) in "WF" else 0.9
    if character in _NARROW_LETTERS:
        return _NARROW
    return _WIDE if character in _WIDE_LETTERS else _PLAIN


def wrap_text(text: str, width: int, most: int) -> tuple[str, ...]:
    """The text in at most `most` lines of at most `width` cells, broken at spaces where there are some."""
    lines: list[str] = []
    rest = " ".join(text.split())
    while rest:
        if cells(rest) <= width:
            return (*lines, rest)
        if len(lines) == most - 1:
            return (*lines, _head(rest, width - 2).rstrip() + "…")  # the dots may take two cells
        line = _head(rest, width)
        if not rest[len(line) :].startswith(" "):
            space = line.rfind(" ")
            line = line[:space] if space > 0 else line
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return tuple(lines)


def _head(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > width:
            return text[:place]
    return text
