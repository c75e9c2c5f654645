"""Phrases about the parts of a trace, shared by the tree and the HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.render.safe_text import escape_line

if TYPE_CHECKING:
    from lineage_service.query.trace.trace_result import TracedSet
    from lineage_service.store.row_places import RowPlace

CHANGED, GONE = " (the file has changed since)", " (the file is no longer there)"


def set_summary(each: TracedSet) -> str:
    """Returns the number of rows in the set, and what is special about them."""
    if each.link == "absence":
        return f"by the absence of a match in {'its 1 row' if each.count == 1 else f'all {each.count:,} rows'}"
    rows = "no rows" if each.count == 0 else "1 row" if each.count == 1 else f"{each.count:,} rows"
    peers = f", {each.peers:,} of them only peers" if each.peers and each.peers < each.count else ""
    peers = ", only as peers" if each.peers and each.peers == each.count else peers
    read_as = f", read as {each.read_as}" if each.read_as else ""
    return f"{rows}{peers}{read_as}{f' in the earlier run {each.run_id[:8]}' if each.earlier else ''}"


def set_remarks(each: TracedSet) -> Iterator[str]:
    """Yields the remarks that stand below the rows shown of a set."""
    if each.unreadable:
        yield f"rows not shown: {escape_line(each.unreadable)}"
    elif each.rows and each.count > len(each.rows):
        yield f"… {each.count - len(each.rows):,} more"
    if each.seen:
        yield "the same rows as above, with the same lineage"
    elif each.cut:
        yield "… goes on; --depth shows more"


def place_text(place: RowPlace) -> str:
    """Returns file and position: `orders.csv:12` for a line of text, `orders.parquet row 11` for Parquet."""
    return file_text(place.file) + position_text(place)


def file_text(file: str) -> str:
    """Returns the path, relative to the current folder if it lies below it."""
    path = Path(file)
    return escape_line(str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file)


def position_text(place: RowPlace) -> str:
    """Returns the row's position in its file, and a note if the file has changed or is gone."""
    position = f":{place.line}" if place.line is not None else f" row {place.row}"
    return position + file_change_note(place)


def file_change_note(place: RowPlace) -> str:
    """Returns a note if the file has changed, or is gone, since the run read it."""
    if not place.changed:
        return ""
    return CHANGED if place.is_there else GONE
