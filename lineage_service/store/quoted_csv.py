"""Records of CSV text whose quoted values may contain line ends, by the rules of Spark's parser (univocity)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lineage_service.store.original_text import UnknownReading, is_true


def quoted_records(chunks: Iterable[str], reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """The lines on which the records begin, in batches. Raises UnknownReading if they cannot be determined.

    A stray quote makes a value unquoted up to its end. Only the first kind of line end in the text ends records.
    """
    style = _CsvStyle(reading)
    state, line = _BEGIN, 1
    for chunk in _with_one_end(chunks):
        found: list[int] = []
        at = 0
        while at < len(chunk):
            if state == _BEGIN:
                whole = style.plain_record.match(chunk, at) if style.plain_record else None
                if whole:
                    if whole.end() > at + 1:
                        found.append(line)
                    line += _count_line_ends(chunk, at, whole.end())
                    at = whole.end()
                    continue
                if style.begins_record(chunk[at]):
                    found.append(line)
            before = at
            state, at = style.step(state, chunk, at)
            line += _count_line_ends(chunk, before, at)
        yield found


# Stands for a line end that is not the one that ends records.
_OTHER_END = "\x1f"
_COMMENT_END = re.compile(f"[\n{_OTHER_END}]")


def _with_one_end(chunks: Iterable[str]) -> Iterator[str]:
    """The text with its first kind of line end as line feeds. Other kinds do not end records and are marked."""
    kind, held = "", ""
    for chunk in chunks:
        text, held = held + chunk, ""
        if text.endswith("\r"):
            text, held = text[:-1], "\r"  # the line feed of a pair may be still to come
        yield _normalize_line_ends(text, kind := kind or _first_end(text + held))
    yield _normalize_line_ends(held, kind or held)


def _first_end(text: str) -> str:
    found = re.search(r"\r\n|\r(?!\Z)|\n", text)
    return found[0] if found else ""


def _normalize_line_ends(text: str, kind: str) -> str:
    if "\x1e" in text or _OTHER_END in text:
        raise UnknownReading
    if kind == "\n" and "\r" not in text:
        return text
    text = text.replace(kind, "\x1e") if kind == "\r\n" else text.replace("\r\n", _OTHER_END)
    for end in ("\r", "\n"):
        text = text.replace(end, "\x1e" if end == kind else _OTHER_END)
    return text.replace("\x1e", "\n")


def _count_line_ends(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) + text.count(_OTHER_END, start, end)


# Where the parser stands: at the beginning of a record or of a value; in a comment, a plain or a quoted value;
# behind an escape in one; behind a quote that may have closed it; behind the white space that follows.
_BEGIN, _VALUE, _COMMENT, _PLAIN, _QUOTED, _ESCAPED, _CLOSED, _BEHIND = range(8)


class _CsvStyle:
    """The special characters of a CSV file, and the transitions of its parser."""

    def __init__(self, reading: Mapping[str, str]) -> None:
        self.separator = reading.get("sep", reading.get("delimiter", ",")).replace("\\t", "\t")
        self.quote = reading.get("quote", '"') or "\0"
        self.escape = reading.get("escape", "\\") or "\0"
        self.comment = reading.get("comment", "")
        self.trims = is_true(reading, "ignoreleadingwhitespace")
        handling = reading.get("unescapedquotehandling", "STOP_AT_DELIMITER").upper()
        single = {len(self.separator), len(self.quote), len(self.escape)} == {1} and len(self.comment) <= 1
        usual = handling == "STOP_AT_DELIMITER" and "chartoescapequoteescaping" not in reading
        if not (single and usual and reading.get("linesep", "\n") == "\n"):
            raise UnknownReading
        separator, quote, escape = map(re.escape, (self.separator, self.quote, self.escape))
        self._plain_end = re.compile(f"[{separator}\n{_OTHER_END}]")
        self._quoted_end = re.compile(f"[{quote}{escape}]")
        escaped = quote * 2 if self.escape == self.quote else f"{escape}."
        inside = f"(?:[^{quote}{escape}]++|{escaped})*+"
        ends = f"{separator}\n{_OTHER_END}"
        value = f"(?:{quote}{inside}{quote}(?=[{separator}\n])|[^{quote}{ends}][^{ends}]*+|)"
        start = f"(?!{re.escape(self.comment)})" if self.comment else ""
        # Most records need no more than this; where it does not match, the steps decide.
        record = re.compile(f"{start}{value}(?:{separator}{value})*+\n", re.DOTALL)
        self.plain_record = None if self.trims else record

    def begins_record(self, char: str) -> bool:
        """Whether a record begins here, and not an empty line or a comment."""
        return char not in ("\n", self.comment) and not self._is_leading_space(char)

    def _is_leading_space(self, char: str) -> bool:
        return self.trims and char <= " " and char not in (self.separator, self.quote, "\n")

    def step(self, state: int, chunk: str, at: int) -> tuple[int, int]:
        """The next state, and the position in the chunk where it begins."""
        char = chunk[at]
        if state in (_PLAIN, _COMMENT):
            return self._until_end(state, chunk, at)
        if state == _QUOTED:
            end = self._quoted_end.search(chunk, at)
            if end is None:
                return _QUOTED, len(chunk)
            escapes = end.group() == self.escape and self.escape != self.quote
            return _ESCAPED if escapes else _CLOSED, end.end()
        if state == _ESCAPED:
            # Before anything else, an escape is just a character.
            return (_QUOTED, at + 1) if char in (self.quote, self.escape) else (_QUOTED, at)
        if char == "\n":
            return _BEGIN, at + 1
        if char == self.separator:
            return _VALUE, at + 1
        if char == _OTHER_END or (state == _CLOSED and char == self.escape != self.quote):
            raise UnknownReading  # whether a record ends here depends on the parser's buffers
        if state in (_CLOSED, _BEHIND):
            if char == self.quote and state == _CLOSED:
                # A doubled quote; where quotes escape themselves the value goes on, else it may end here all the same.
                return (_QUOTED if self.escape == self.quote else _CLOSED), at + 1
            return (_BEHIND if char <= " " else _PLAIN), at + 1
        if state == _BEGIN and char == self.comment:
            return _COMMENT, at + 1
        if self._is_leading_space(char):
            return state, at + 1
        return (_QUOTED if char == self.quote else _PLAIN), at + 1

    def _until_end(self, state: int, chunk: str, at: int) -> tuple[int, int]:
        found = (self._plain_end if state == _PLAIN else _COMMENT_END).search(chunk, at)
        if found is None:
            return state, len(chunk)
        if found.group() == _OTHER_END:
            raise UnknownReading
        return _BEGIN if found.group() == "\n" else _VALUE, found.end()
