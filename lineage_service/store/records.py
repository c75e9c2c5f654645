"""Where the records of a CSV or JSON file begin: the line of each, by the rules that Spark's readers follow.

A line ends with a line feed, a carriage return, or both, and lines count from 1. Files are streamed. A file or a
way of reading whose rules are not mirrored here is refused, never guessed; the caller compares the count of records
with Spark's own.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO, cast

CHUNK = 1 << 20
# What Java's trim() takes away, and what JSON calls white space.
CONTROLS = "".join(map(chr, range(33)))
JSON_SPACE = " \t\r\n"
_UNREAD = (".deflate", ".snappy", ".lz4", ".zst", ".zstd", ".lzo")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class UnknownReading(Exception):
    """The file is read in a way whose records cannot be told here."""


def record_lines(path: str, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """The lines on which the records begin, in file order, in portions. `reading` is that of a Version.

    UnknownReading, also in the midst of it, where they cannot be told; OSError, EOFError or zlib.error where the file
    cannot be read.
    """
    several = _is_true(reading, "multiline")
    with _opened(path) as raw:
        if reading["format"] == "csv":
            portions = _quoted_records(raw, reading) if several else _csv_lines(raw, reading)
            yield from _without_first(portions) if _is_true(reading, "header") else portions
        elif reading["format"] == "json" and not _is_true(reading, "allowcomments"):
            yield from _elements(_decoded(raw, reading, universal=True)) if several else _json_lines(raw, reading)
        else:
            raise UnknownReading


def _is_true(reading: Mapping[str, str], option: str) -> bool:
    return reading.get(option, "").lower() == "true"


def _opened(path: str) -> BinaryIO:
    """The plain bytes of a file; Hadoop goes by the suffix too."""
    if path.endswith(_UNREAD):
        raise UnknownReading
    if path.endswith(".gz"):
        return cast(BinaryIO, gzip.open(path))
    if path.endswith(".bz2"):
        return cast(BinaryIO, bz2.open(path))
    return Path(path).open("rb")


def _without_first(portions: Iterator[Sequence[int]]) -> Iterator[Sequence[int]]:
    header = True
    for portion in portions:
        yield portion[1:] if header else portion
        header = header and not portion


# --- one record a line ------------------------------------------------------------------------------------------


def _csv_lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    comment = _as_bytes_are(reading.get("comment", ""), reading)
    for numbers, lines in _lines(raw, reading):
        yield [
            number
            for number, line in zip(numbers, lines, strict=True)
            # A line that begins with more than a space is not blank: most lines need no second look.
            if (line >= "!" or line.strip(CONTROLS)) and not (comment and line.startswith(comment))
        ]


def _json_lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    for numbers, lines in _lines(raw, reading):
        found: list[int] = []
        for number, line in zip(numbers, lines, strict=True):
            if line.startswith("{"):
                found.append(number)
            elif text := line.strip(JSON_SPACE):
                count = sum(map(len, _elements([text]))) if text.startswith("[") else 1
                found += [number] * count
        yield found


def _lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Portions of a file's lines with their numbers: lines as Spark splits them, before it decodes them."""
    separator, codec, number = reading.get("linesep"), _declared(reading), 1
    plain = _is_ascii(codec)
    if separator is None and not plain:
        raise UnknownReading  # Spark would cut such characters in two
    with _text(raw, "latin-1" if plain else codec, universal=separator is None) as text:
        if plain:
            _skip_mark(text)
        if separator is None:
            while lines := text.readlines(CHUNK):
                yield range(number, number + len(lines)), lines
                number += len(lines)
            return
        separator = _as_bytes_are(separator, reading) if plain else separator
        for pieces in _pieces(text, separator):
            numbers = []
            for piece in pieces:
                blank = len(piece) - len(piece.lstrip(CONTROLS))
                numbers.append(number + _newlines(piece[:blank]))
                number += _newlines(piece + separator)
            yield numbers, pieces


def _pieces(text: TextIO, separator: str) -> Iterator[list[str]]:
    """What lies between the separators, in portions."""
    rest: list[str] = []
    while chunk := text.read(CHUNK):
        rest.append(chunk)
        if separator not in chunk and len(separator) == 1:
            continue
        *pieces, last = "".join(rest).split(separator)
        rest = [last]
        yield pieces
    yield ["".join(rest)]


def _newlines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


# --- encodings --------------------------------------------------------------------------------------------------


def _declared(reading: Mapping[str, str]) -> str:
    """The declared encoding in Python's words. Without a mark at their beginning, Java takes big-endian bytes."""
    name = reading.get("encoding", reading.get("charset", "UTF-8"))
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        raise UnknownReading from None
    return f"{codec}-be" if codec in ("utf-16", "utf-32") else codec


def _is_ascii(codec: str) -> bool:
    """Whether ASCII characters are single bytes of the same value, so that lines can be told without decoding."""
    ascii_bytes = bytes(range(128))
    return ascii_bytes.decode(codec, "replace") == ascii_bytes.decode("ascii")


def _as_bytes_are(text: str, reading: Mapping[str, str]) -> str:
    """A piece of text as it looks in a file whose bytes are taken for characters."""
    return text.encode(_declared(reading), "replace").decode("latin-1")


def _skip_mark(text: TextIO) -> None:
    """Takes away a UTF-8 mark at the beginning, as Hadoop does before any decoding."""
    if text.read(3) != codecs.BOM_UTF8.decode("latin-1"):
        text.seek(0)


def _decoded(raw: BinaryIO, reading: Mapping[str, str], *, universal: bool) -> Iterator[str]:
    """The text of a file that is decoded as a whole: a mark at its beginning counts more than what is declared."""
    head = raw.read(4)
    raw.seek(0)
    codec = next((codec for mark, codec in _BOMS if head.startswith(mark)), _declared(reading))
    if reading["format"] == "json" and "encoding" not in reading and "charset" not in reading and 0 in head[:2]:
        codec = "utf-16-be" if head[0] == 0 else "utf-16-le"  # as Jackson finds out
    with _text(raw, codec, universal=universal) as text:
        while chunk := text.read(CHUNK):
            yield chunk


def _text(raw: BinaryIO, codec: str, *, universal: bool) -> TextIO:
    return io.TextIOWrapper(raw, encoding=codec, errors="replace", newline=None if universal else "")


# --- CSV whose quoted values may hold line ends -----------------------------------------------------------------


def _quoted_records(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """Records as the parser of Spark (univocity) ends them, stray quotes included."""
    style = _CsvStyle(reading)
    state, line = _BEGIN, 1
    for chunk in _with_one_end(_decoded(raw, reading, universal=False)):
        found: list[int] = []
        at = 0
        while at < len(chunk):
            if state == _BEGIN:
                whole = style.plain_record.match(chunk, at) if style.plain_record else None
                if whole:
                    if whole.end() > at + 1:
                        found.append(line)
                    line += _ends(chunk, at, whole.end())
                    at = whole.end()
                    continue
                if style.begins_record(chunk[at]):
                    found.append(line)
            before = at
            state, at = style.step(state, chunk, at)
            line += _ends(chunk, before, at)
        yield found


# Stands for a line end that is not the one that ends records.
_OTHER_END = "\x1f"
_COMMENT_END = re.compile(f"[\n{_OTHER_END}]")


def _with_one_end(chunks: Iterable[str]) -> Iterator[str]:
    """The text with its first kind of line end as line feeds: only that one ends records; others are marked."""
    kind, held = "", ""
    for chunk in chunks:
        text, held = held + chunk, ""
        if text.endswith("\r"):
            text, held = text[:-1], "\r"  # the line feed of a pair may be still to come
        yield _marked(text, kind := kind or _first_end(text + held))
    yield _marked(held, kind or held)


def _first_end(text: str) -> str:
    found = re.search(r"\r\n|\r(?!\Z)|\n", text)
    return found[0] if found else ""


def _marked(text: str, kind: str) -> str:
    if "\x1e" in text or _OTHER_END in text:
        raise UnknownReading
    if kind == "\n" and "\r" not in text:
        return text
    text = text.replace(kind, "\x1e") if kind == "\r\n" else text.replace("\r\n", _OTHER_END)
    for end in ("\r", "\n"):
        text = text.replace(end, "\x1e" if end == kind else _OTHER_END)
    return text.replace("\x1e", "\n")


def _ends(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) + text.count(_OTHER_END, start, end)


# Where the parser stands: at the beginning of a record or of a value; in a comment, a plain or a quoted value;
# behind an escape in one; behind a quote that may have closed it; behind the white space that follows.
_BEGIN, _VALUE, _COMMENT, _PLAIN, _QUOTED, _ESCAPED, _CLOSED, _BEHIND = range(8)


class _CsvStyle:
    """The characters that a CSV file is made of, and the steps from one to the next."""

    def __init__(self, reading: Mapping[str, str]) -> None:
        self.separator = reading.get("sep", reading.get("delimiter", ",")).replace("\\t", "\t")
        self.quote = reading.get("quote", '"') or "\0"
        self.escape = reading.get("escape", "\\") or "\0"
        self.comment = reading.get("comment", "")
        self.trims = _is_true(reading, "ignoreleadingwhitespace")
        handling = reading.get("unescapedquotehandling", "STOP_AT_DELIMITER").upper()
        known = {len(self.separator), len(self.quote), len(self.escape)} == {1} and len(self.comment) <= 1
        if not known or reading.get("linesep", "\n") != "\n" or handling != "STOP_AT_DELIMITER":
            raise UnknownReading
        default = "\0" if self.escape == self.quote else self.escape
        self.escape_of_escape = reading.get("chartoescapequoteescaping", default)
        separator, quote, escape = map(re.escape, (self.separator, self.quote, self.escape))
        self._plain_end = re.compile(f"[{separator}\n{_OTHER_END}]")
        self._quoted_end = re.compile(f"[{quote}{escape}]")
        inside = f"(?:[^{quote}]++|{quote}{quote})*+" if self.escape == self.quote else f"[^{quote}{escape}]*+"
        ends = f"{separator}\n{_OTHER_END}"
        value = f"(?:{quote}{inside}{quote}(?=[{separator}\n])|[^{quote}{ends}][^{ends}]*+|)"
        start = f"(?!{re.escape(self.comment)})" if self.comment else ""
        # Most records need no more than this; where it does not match, the steps decide.
        record = re.compile(f"{start}{value}(?:{separator}{value})*+\n")
        self.plain_record = None if self.trims else record

    def begins_record(self, char: str) -> bool:
        """Whether it is neither an empty line nor a comment that begins here."""
        return char not in ("\n", self.comment) and not self._skipped(char)

    def _skipped(self, char: str) -> bool:
        return self.trims and char <= " " and char not in (self.separator, self.quote, "\n")

    def step(self, state: int, chunk: str, at: int) -> tuple[int, int]:
        """The next state, and from where in the chunk."""
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
            return (_QUOTED, at + 1) if char in (self.quote, self.escape_of_escape) else (_QUOTED, at)
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
        if self._skipped(char):
            return state, at + 1
        return (_QUOTED if char == self.quote else _PLAIN), at + 1

    def _until_end(self, state: int, chunk: str, at: int) -> tuple[int, int]:
        found = (self._plain_end if state == _PLAIN else _COMMENT_END).search(chunk, at)
        if found is None:
            return state, len(chunk)
        if found.group() == _OTHER_END:
            raise UnknownReading
        return _BEGIN if found.group() == "\n" else _VALUE, found.end()


# --- JSON over several lines ------------------------------------------------------------------------------------

_STRINGS = r'"(?:[^"\\]++|\\.)*+"'
_TO_BRACKET = re.compile(rf"""(?:{_STRINGS}|[^"'\[\]{{}}]++)*+""", re.DOTALL)
_TO_COMMA = re.compile(rf"""(?:{_STRINGS}|[^"'\[\]{{}},]++)*+""", re.DOTALL)
_SPACE = re.compile(f"[{JSON_SPACE}]*+")
_STRING_END = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}


def _elements(chunks: Iterable[str]) -> Iterator[Sequence[int]]:
    """A text that is one value: an object is one record, an array has one per element; what follows is not read."""
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
                at = _end(_SPACE, chunk, at)
                if at == len(chunk):
                    break
                line, counted = line + chunk.count("\n", counted, at), at
                fresh = False
                if depth == 1 and chunk[at] != "]":
                    found.append(line)
                elif depth == 0 and chunk[at] != "[":
                    if chunk[at] != "{":
                        raise UnknownReading
                    yield [line]
                    return
            at = _end(_TO_COMMA if depth == 1 else _TO_BRACKET, chunk, at)
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


def _end(pattern: re.Pattern[str], chunk: str, at: int) -> int:
    """Where the match of a pattern that also matches nothing ends."""
    found = pattern.match(chunk, at)
    return found.end() if found else at
