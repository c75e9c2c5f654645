"""The text of an sql step and where its characters stand: in the workflow file, or in the step's own .sql file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lineage_service.errors import Position


@dataclass(frozen=True, slots=True)
class SqlText:
    """A query with its variables replaced.

    starts: for each line of the text as written, its offset in that text and its line and column in the file; one
        entry with `exact` False where the file has the text in another form (folded, or with escapes).
    replaced: for each variable, where its value begins and ends here, and where its reference began and ended.
    """

    text: str
    file: str
    starts: tuple[tuple[int, int, int], ...]
    exact: bool = True
    replaced: tuple[tuple[int, int, int, int], ...] = ()

    def position(self, offset: int) -> Position:
        """The place of a character of the text."""
        if not self.exact:
            _, line, column = self.starts[0]
            return Position(self.file, line, column)
        written = self._offset_as_written(offset)
        index = bisect_right([start for start, _, _ in self.starts], written) - 1
        start, line, column = self.starts[max(index, 0)]
        return Position(self.file, line, column + written - start)

    def written(self, text: str, begin: int, end: int) -> str:
        """A part of this text as it was before anything was replaced, when all of it was `text`."""
        return text[self._offset_as_written(begin) : self._offset_as_written(end)]

    def with_edits(self, edits: Iterable[tuple[int, int, str]]) -> SqlText:
        """The text with parts of it (begin, end, new text) replaced, which do not overlap; places stay those of the
        file."""
        pieces: list[str] = []
        ranges: list[tuple[int, int, int, int]] = []
        waiting = list(self.replaced)
        behind = shift = 0
        for begin, end, new in sorted(edits):
            while waiting and waiting[0][1] <= begin:
                ranges.append(_moved(waiting.pop(0), shift))
            while waiting and waiting[0][0] < end:
                waiting.pop(0)
            place = begin + shift
            ranges.append((place, place + len(new), self._offset_as_written(begin), self._offset_as_written(end)))
            pieces += [self.text[behind:begin], new]
            behind, shift = end, shift + len(new) - (end - begin)
        ranges += [_moved(each, shift) for each in waiting]
        return replace(self, text="".join([*pieces, self.text[behind:]]), replaced=tuple(ranges))

    def _offset_as_written(self, offset: int) -> int:
        shift = 0
        for begin, end, written_begin, written_end in self.replaced:
            if offset < begin:
                break
            if offset < end:
                return written_begin
            shift = written_end - end
        return offset + shift


def _moved(replaced: tuple[int, int, int, int], shift: int) -> tuple[int, int, int, int]:
    begin, end, written_begin, written_end = replaced
    return begin + shift, end + shift, written_begin, written_end


def whole_file(text: str, file: str) -> SqlText:
    """A text that is all of a file."""
    return SqlText(text, file, _line_starts(text, [(number + 1, 1) for number in range(text.count("\n") + 1)]))


def yaml_scalar(text: str, file: str, lines: Sequence[str], place: tuple[int, int], style: str | None) -> SqlText:
    """A value of a YAML file whose lines are given; `place` is its line and column there, both from 0."""
    line, column = place
    parts = text.split("\n")
    if style == "|":
        block = [lines[number] if number < len(lines) else "" for number in range(line + 1, line + 1 + len(parts))]
        if all(raw.endswith(part) for raw, part in zip(block, parts, strict=True) if part):
            indents = [len(raw) - len(part) if part else 0 for raw, part in zip(block, parts, strict=True)]
            places = [(line + 2 + number, indent + 1) for number, indent in enumerate(indents)]
            return SqlText(text, file, _line_starts(text, places))
    quote = 1 if style in ("'", '"') else 0
    if len(parts) == 1 and line < len(lines) and lines[line][column + quote :].startswith(text):
        return SqlText(text, file, ((0, line + 1, column + quote + 1),))
    return SqlText(text, file, ((0, line + 1, column + 1),), exact=False)


def _line_starts(text: str, places: Sequence[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    starts, offset = [], 0
    for part, (line, column) in zip(text.split("\n"), places, strict=True):
        starts.append((offset, line, column))
        offset += len(part) + 1
    return tuple(starts)
