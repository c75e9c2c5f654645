"""A trace as a tree for people: the record, what it came from, what it went into."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_cli.tables import MASK, safe
from lineage_cli.trees import Tree, width_of
from lineage_cli.values import json_document

if TYPE_CHECKING:
    from lineage_service.query.trace.trace_result import Trace, TracedRow, TracedSet
    from lineage_service.store.row_places import RowPlace

BETWEEN = " · "
LONGEST_VALUE = 60
MOST_STEPS = 4
INDENT = 3  # cells that each level of the tree takes
PEER = "(peer)"
CHANGED, GONE = " (the file has changed since)", " (the file is no longer there)"
SHORTEST_PATH = 12


def tree_of(trace: Trace, width: int | None) -> Tree:
    """The trace as a tree. The record itself is told whole, over several lines where `width` asks for it."""
    root = trace.root
    title = (
        f"{root.dataset} _rid {trace.record.rid}  (run {root.run_id[:8]}, {trace.committed_at[:16].replace('T', ' ')})"
    )
    room = None if width is None else width - INDENT
    values = _wrap_values(_values(trace.record), room)
    below = None if room is None else room - INDENT
    if trace.behind or root.kind != "source":
        behind = Tree(("came from", *_steps(root)), _nodes(trace.behind, below))
    elif trace.record.place is not None:
        most = None if room is None else room - len("came from ")
        behind = Tree((f"came from {place_of(trace.record, most)}",))
    else:
        behind = Tree((f"came from {trace.record.origin or 'a file that is not known any more'}",))
    return Tree((title, *values, *remarks(root)), (behind, Tree(("went into",), _nodes(trace.ahead, below))))


def _nodes(sets: Sequence[TracedSet], room: int | None) -> tuple[Tree, ...]:
    return tuple(_node(each, room) for each in sets) or (Tree(("nothing",)),)


def _node(each: TracedSet, room: int | None) -> Tree:
    """A set of rows and what hangs below it; its lines have `room` cells."""
    if each.link == "absence":
        return Tree((f"{each.dataset}: {set_summary(each)}",), dashed=True)
    below = None if room is None else room - INDENT
    return Tree(tuple(_lines(each, room)), tuple(_node(next_, below) for next_ in each.next))


def _lines(each: TracedSet, room: int | None) -> Iterator[str]:
    file = _only_file(each.rows)
    yield from _titles(each, file, room)
    yield from (f"  {line}" for line in _row_lines(each.rows, room, own_files=file is None))
    yield from (f"  {remark}" for remark in remarks(each))
    yield from _steps(each)


def _titles(each: TracedSet, file: str | None, room: int | None) -> Iterator[str]:
    """What the set is; and the file that the rows below stand in, on a line of its own where the first has no room."""
    title = f"{each.dataset}: {set_summary(each)}"
    if file is None:
        yield title
        return
    # Of rows that are not shown the files are not known.
    which = "" if each.count == len(each.rows) else f", {_these(len(each.rows))}"
    changed = next((_file_change_note(row.place) for row in each.rows if row.place and row.place.changed), "")
    whole = f"{title}{which} in {_shown_file(file, None)}{changed}"
    if room is None or width_of(whole) <= room:
        yield whole
    else:
        yield title
        yield f"  in {_shown_file(file, room - INDENT - width_of(f'  in {changed}'))}{changed}"


def set_summary(each: TracedSet) -> str:
    """How many rows these are, and what is special about them."""
    if each.link == "absence":
        return f"by the absence of a match in {'its 1 row' if each.count == 1 else f'all {each.count:,} rows'}"
    rows = "no rows" if each.count == 0 else "1 row" if each.count == 1 else f"{each.count:,} rows"
    peers = f", {each.peers:,} of them only peers" if each.peers and each.peers < each.count else ""
    peers = ", only as peers" if each.peers and each.peers == each.count else peers
    read_as = f", read as {each.read_as}" if each.read_as else ""
    return f"{rows}{peers}{read_as}{f' in the earlier run {each.run_id[:8]}' if each.earlier else ''}"


def _these(count: int) -> str:
    return "this one" if count == 1 else f"these {count:,}"


def _only_file(rows: Sequence[TracedRow]) -> str | None:
    """The file that all of these rows stand in, if it is one."""
    files = {row.place.file if row.place else None for row in rows}
    return files.pop() if len(files) == 1 else None


def _row_lines(rows: Sequence[TracedRow], room: int | None, *, own_files: bool) -> Iterator[str]:
    """A line per row: its id, whether it is a peer, where it stands, its values; below each other they are aligned."""
    rids = [f"{row.rid}" for row in rows]
    marks = [PEER if row.peer else "" for row in rows]
    # A path must leave room for the values.
    most = None if room is None else max(room // 3, SHORTEST_PATH)
    places = [place_of(row, most) if row.place else "" for row in rows] if own_files else _places_in_file(rows)
    widest = [max(map(width_of, cells), default=0) for cells in (rids, marks, places)]
    for row, rid, mark, place in zip(rows, rids, marks, places, strict=True):
        peer = f" {mark:{widest[1]}}" if widest[1] else ""
        where = f"  {place}{' ' * (widest[2] - width_of(place))}" if widest[2] else ""
        yield f"_rid {rid:>{widest[0]}}{peer}{where}  {BETWEEN.join(_values(row))}".rstrip()


def remarks(each: TracedSet) -> Iterator[str]:
    """What is to be said of a set below the rows that are shown of it."""
    if each.unreadable:
        yield f"rows not shown: {safe(each.unreadable)}"
    elif each.rows and each.count > len(each.rows):
        yield f"… {each.count - len(each.rows):,} more"
    if each.seen:
        yield "the same rows as above, from there on too"
    elif each.cut:
        yield "… goes on; --depth shows more"


def _steps(each: TracedSet) -> Iterator[str]:
    if each.seen or each.cut:
        return
    # One step more takes no more lines than to say that there is one more.
    shown = MOST_STEPS if len(each.made_by) > MOST_STEPS + 1 else MOST_STEPS + 1
    for number, step in enumerate(each.made_by[:shown]):
        yield f"{'by' if number == 0 else '  '} {step.name}: {safe(step.does)}"
    if len(each.made_by) > shown:
        yield f"   … {len(each.made_by) - shown} more steps"


def place_of(row: TracedRow, most: int | None = None) -> str:
    """Where the row stands: `orders.csv:12` for a line of text, `orders.parquet row 11` for Parquet.

    With `most`, the path loses folders until all of it takes no more cells, if that can be.
    """
    assert row.place is not None
    where = f":{row.place.line}" if row.place.line is not None else f" row {row.place.row}"
    where += _file_change_note(row.place)
    return _shown_file(row.place.file, None if most is None else most - len(where)) + where


def _file_change_note(place: RowPlace) -> str:
    """What became of the file since it was read, if anything."""
    if not place.changed:
        return ""
    return CHANGED if place.is_there else GONE


def _places_in_file(rows: Sequence[TracedRow]) -> list[str]:
    """Where the rows stand in a file that was named before."""
    places = [row.place for row in rows if row.place]
    found = [("row", place.row) if place.line is None else ("line", place.line) for place in places]
    widest = max((len(str(number)) for _, number in found), default=0)
    return [f"{word} {number:>{widest}}" for word, number in found]


def _shown_file(file: str, most: int | None) -> str:
    """The path as seen from here; its end, which tells most, where it is longer than `most` cells."""
    path = Path(file)
    shown = safe(str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file)
    if most is None or width_of(shown) <= most:
        return shown
    most = max(most, SHORTEST_PATH)
    parts = Path(shown).parts
    ends = ("/".join(("…", *parts[start:])) for start in range(1, len(parts)))
    return next((end for end in ends if width_of(end) <= most), f"…{shown[-most + 1 :]}")


def _values(row: TracedRow) -> list[str]:
    return [f"{safe(name)} {safe(value)}" for name, value in shown_values(row).items()]


def shown_values(row: TracedRow) -> dict[str, str]:
    """The values as a person reads them; a mask of whatever type is one to see."""
    return {name: MASK if name in row.masked else value_text(value) for name, value in row.values.items()}


def value_text(value: Any) -> str:
    """A value as a person reads it, shortened where it is long."""
    plain = json_document(value)
    text = "null" if plain is None else plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _wrap_values(values: list[str], width: int | None) -> list[str]:
    """The values over as many lines as they need; a value is not torn unless it alone is too long."""
    if width is None:
        return [BETWEEN.join(values)]
    lines: list[str] = []
    for value in values:
        if lines and width_of(lines[-1]) + len(BETWEEN) + width_of(value) <= width:
            lines[-1] += BETWEEN + value
        else:
            lines += textwrap.wrap(value, width) or [""]
    return lines
