"""Draws a tree as text: labels of one or more lines, with guides before them, cut to a width if one is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lineage_service.render.safe_text import escape_text

CUT, ASCII_CUT = "…", "..."


@dataclass(frozen=True)
class Tree:
    """A label of one or more lines, and its children; `dashed`: a dashed guide leads to it."""

    lines: tuple[str, ...]
    children: tuple[Tree, ...] = ()
    dashed: bool = False


@dataclass(frozen=True)
class _Guides:
    """The guides before the first line of a child and before its other lines, and the mark of a cut."""

    child: str
    last: str
    dashed: str
    last_dashed: str
    beside: str
    below: str
    cut: str


_DRAWN = _Guides("├─ ", "└─ ", "├┄ ", "└┄ ", "│  ", "   ", CUT)
_ASCII = _Guides("|- ", "`- ", "|~ ", "`~ ", "|  ", "   ", ASCII_CUT)


def draw_tree(tree: Tree, width: int | None, *, ascii: bool = False) -> Iterator[str]:
    """Yields the lines without line ends, at most `width` cells wide (None: never cut)."""
    guides = _ASCII if ascii else _DRAWN
    for line in _lines(tree, guides):
        yield escape_text(line) if width is None else truncate(escape_text(line), width, mark=guides.cut)


def truncate(text: str, width: int, *, mark: str = CUT) -> str:
    """Cuts the text to `width` cells; a mark shows that it was cut."""
    if width_of(text) <= width:
        return text
    mark = mark[: max(width, 0)]
    room = width - len(mark)
    if text.isascii():
        return text[:room].rstrip() + mark
    from rich.cells import cell_len

    kept, used = [], 0
    for character in text:
        used += cell_len(character)
        if used > room:
            break
        kept.append(character)
    return "".join(kept).rstrip() + mark


def width_of(text: str) -> int:
    """Returns the number of terminal cells that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def prints_guides(encoding: str | None) -> bool:
    """Whether a stream with this encoding can show the guides. If not, draw with `ascii`."""
    try:
        "├─└┄│…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _lines(tree: Tree, guides: _Guides) -> Iterator[str]:
    """Uses its own stack, because a chain of a thousand steps would exceed Python's recursion limit."""
    stack: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while stack:
        each, first, rest = stack.pop()
        # Further lines of a label need the guide that leads to its children.
        beside = rest + (guides.beside if each.children else guides.below)
        for number, line in enumerate(each.lines):
            yield (first if number == 0 else beside) + line
        for place, child in reversed(tuple(enumerate(each.children, start=1))):
            is_last = place == len(each.children)
            if child.dashed:
                guide = guides.last_dashed if is_last else guides.dashed
            else:
                guide = guides.last if is_last else guides.child
            stack.append((child, rest + guide, rest + (guides.below if is_last else guides.beside)))
