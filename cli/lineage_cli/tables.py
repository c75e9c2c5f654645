"""Rows as a table for people: folded to the terminal's width there, whole lines elsewhere."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_cli.sink import Sink

Row = Sequence[str | None]

BLOCK = 1000  # rows looked at for the widths; rich draws at most so many (it is slow), longer tables are plain
NARROWEST = 8  # a column folded to less than this is no longer readable
LONGEST_CELL = 160  # of data on a terminal; more is cut
WIDEST = 100  # a longer cell of a table that is not on a terminal juts out, and does not widen its column
GAP = "  "
NULL = "null"
MASK = "•••"  # in the place of every value of a masked column, of whatever type, null too
# Control characters could steer the terminal, and the marks of writing direction could reorder what is read.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; numbers stand at the right."""

    name: str
    right: bool = False


def write_table(
    columns: Sequence[Column], rows: Iterable[Row], sink: Sink, *, terminal: bool, longest: int | None = None
) -> int:
    """Writes the rows as one table and gives their number; on a terminal, cells are cut to `longest`, if given."""
    most = longest if terminal else None
    cleaned = (tuple(None if cell is None else _shorten(safe(cell), most) for cell in row) for row in rows)
    block = list(islice(cleaned, BLOCK))
    columns = [Column(safe(column.name), column.right) for column in columns]
    screen = shutil.get_terminal_size().columns
    if not terminal or len(block) == BLOCK:
        return _write_lines(columns, block, cleaned, sink)
    widths = _widths(columns, block)
    if sum(widths) + len(GAP) * (len(widths) - 1) <= screen or _readable_when_folded(widths, screen):
        text = _draw_table(columns, block, screen)
    else:
        text = _records(columns, block)
    sink.write(text.encode(sys.stdout.encoding or "utf-8", errors="replace"))
    return len(block)


def safe(text: str) -> str:
    """The text on one line, without anything that steers a terminal."""
    return UNSAFE.sub(
        lambda m: ESCAPES.get(m[0], f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}"), text
    )


def in_colour() -> bool:
    """May text be dimmed and coloured? Not with NO_COLOR, and not on a dumb terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shorten(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def _widths(columns: Sequence[Column], rows: Sequence[Row], widest: int | None = None) -> list[int]:
    """The width that each column needs, for its name and its cells; cells beyond `widest` do not count."""
    cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return [
        max(
            _width(column.name),
            max((width for width in map(_width, values) if widest is None or width <= widest), default=0),
        )
        for column, values in zip(columns, cells, strict=True)
    ]


def _width(cell: str | None) -> int:
    if cell is None:
        return len(NULL)
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _readable_when_folded(widths: Sequence[int], screen: int) -> bool:
    return sum(min(width, NARROWEST) + len(GAP) for width in widths) - len(GAP) <= screen


def _write_lines(
    columns: Sequence[Column], block: list[tuple[str | None, ...]], more: Iterator[Row], sink: Sink
) -> int:
    """Whole lines, block by block: widths never shrink, and little is held at a time."""
    widths = _widths(columns, block, WIDEST)
    head = _line([column.name for column in columns], columns, widths)
    rule = GAP.join("-" * width for width in widths)
    sink.write_text(f"{head}\n{rule}\n")
    count = 0
    while block:
        widths = [max(pair) for pair in zip(widths, _widths(columns, block, WIDEST), strict=True)]
        sink.write_text("".join(f"{_line(row, columns, widths)}\n" for row in block))
        count += len(block)
        block = [tuple(row) for row in islice(more, BLOCK)]
    return count


def _line(row: Row, columns: Sequence[Column], widths: Sequence[int]) -> str:
    return GAP.join(
        _pad(cell, width, column.right) for cell, column, width in zip(row, columns, widths, strict=True)
    ).rstrip()


def _pad(cell: str | None, width: int, right: bool) -> str:
    text = NULL if cell is None else cell
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _draw_table(columns: Sequence[Column], rows: Sequence[Row], screen: int) -> str:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # The box puts one space between columns, the padding another: together the gap of piped tables.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(Text(column.name), justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(NULL, style="dim") if cell is None else Text(cell) for cell in row))
    return _render(table, screen)


def _records(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Too many columns for the screen: one below the other, a block per row."""
    width = max(_width(column.name) for column in columns)
    blocks = []
    for number, row in enumerate(rows, start=1):
        lines = (
            f"{_pad(column.name, width, False)}{GAP}{NULL if cell is None else cell}"
            for column, cell in zip(columns, row, strict=True)
        )
        blocks.append("\n".join((f"-- row {number} --", *lines, "")))
    return "".join(blocks) or ", ".join(column.name for column in columns) + "\n"


def _render(renderable: object, screen: int) -> str:
    from rich.console import Console

    text = io.StringIO()
    Console(
        file=text,
        width=screen,
        force_terminal=True,
        color_system="standard" if in_colour() else None,
        legacy_windows=False,
    ).print(renderable)
    return text.getvalue()
