"""Rows as a text table: folded to the width of a terminal, in full lines elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lineage_service.render.safe_text import escape_line
from lineage_service.render.value_text import NULL

if TYPE_CHECKING:
    from lineage_cli.output_stream import OutputStream

Row = Sequence[str | None]

BLOCK = 1000  # rows that determine the widths; longer tables are not drawn by rich, which is slow
NARROWEST = 8  # a narrower column is not readable
LONGEST_CELL = 160  # on a terminal; longer cells are cut
WIDEST = 100  # a longer cell does not widen its column, if not on a terminal
GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers are right-aligned."""

    name: str
    right: bool = False


def write_table(
    columns: Sequence[Column], rows: Iterable[Row], stream: OutputStream, *, terminal: bool, longest: int | None = None
) -> int:
    """Writes the rows as one table and returns their number; on a terminal, cells are cut to `longest`, if given."""
    most = longest if terminal else None
    cleaned = (tuple(None if cell is None else _shorten(escape_line(cell), most) for cell in row) for row in rows)
    block = list(islice(cleaned, BLOCK))
    columns = [Column(escape_line(column.name), column.right) for column in columns]
    screen = shutil.get_terminal_size().columns
    if not terminal or len(block) == BLOCK:
        return _write_lines(columns, block, cleaned, stream)
    widths = _widths(columns, block)
    if sum(widths) + len(GAP) * (len(widths) - 1) <= screen or _readable_when_folded(widths, screen):
        text = _draw_table(columns, block, screen)
    else:
        text = _records(columns, block)
    stream.write(text.encode(sys.stdout.encoding or "utf-8", errors="replace"))
    return len(block)


def in_colour() -> bool:
    """Whether text may be coloured: not with NO_COLOR, and not on a dumb terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shorten(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def _widths(columns: Sequence[Column], rows: Sequence[Row], widest: int | None = None) -> list[int]:
    """Returns the width of each column's name and cells; cells wider than `widest` are ignored."""
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
    columns: Sequence[Column], block: list[tuple[str | None, ...]], more: Iterator[Row], stream: OutputStream
) -> int:
    """Writes full lines block by block, which needs little memory. Widths never shrink."""
    widths = _widths(columns, block, WIDEST)
    head = _line([column.name for column in columns], columns, widths)
    rule = GAP.join("-" * width for width in widths)
    stream.write_text(f"{head}\n{rule}\n")
    count = 0
    while block:
        widths = [max(pair) for pair in zip(widths, _widths(columns, block, WIDEST), strict=True)]
        stream.write_text("".join(f"{_line(row, columns, widths)}\n" for row in block))
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

    # The box adds one space between columns, the padding another: together the gap of piped tables.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(Text(column.name), justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(NULL, style="dim") if cell is None else Text(cell) for cell in row))
    return _render(table, screen)


def _records(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Returns a block per row, one column below the other, for tables with too many columns for the screen."""
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
