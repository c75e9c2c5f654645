"""A tree for people: labels of one or more lines, guides before them, each line cut to a width where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lineage_cli.messages import visible

CUT, ASCII_CUT = "…", "..."


@dataclass(frozen=True)
class Tree:
    """A label of one or more lines, and what hangs below it; `dashed`: it hangs there by a broken line."""

    lines: tuple[str, ...]
    children: tuple[Tree, ...] = ()
    dashed: bool = False


@dataclass(frozen=True)
class _Guides:
    """What stands before the first line of a child, before its other lines, and by what a cut is shown."""

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
    """The tree's lines, without line ends; none is wider on the screen than `width` (None: never cut)."""
    guides = _ASCII if ascii else _DRAWN
    for line in _lines(tree, guides):
        yield visible(line) if width is None else truncate(visible(line), width, mark=guides.cut)


def truncate(text: str, width: int, *, mark: str = CUT) -> str:
    """The text, no wider on the screen than `width`; a mark stands where something was left out."""
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
    """How many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def prints_guides(encoding: str | None) -> bool:
    """Can a stream of this encoding show the guides? If not, draw with `ascii`."""
    try:
        "├─└┄│…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _lines(tree: Tree, guides: _Guides) -> Iterator[str]:
    """Walks with its own stack: a chain of a thousand steps is a deep tree, and no error."""
    stack: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while stack:
        each, first, rest = stack.pop()
        # Lines behind the first stand beside what hangs below the same label.
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
