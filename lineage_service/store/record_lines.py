"""Where the records of a CSV or JSON file begin: the line of each, by the rules that Spark's readers follow.

A line ends with a line feed, a carriage return, or both, and lines count from 1. Files are streamed. A file or a
way of reading whose rules are not mirrored here is refused, never guessed; the caller compares the count of records
with Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, TextIO

from lineage_service.store import original_text as original
from lineage_service.store.json_elements import SPACE, element_lines
from lineage_service.store.original_text import UnknownReading, is_true
from lineage_service.store.quoted_csv import quoted_records

CONTROLS = "".join(map(chr, range(33)))  # what Java's trim() takes away


def record_lines(path: str, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """The lines on which the records begin, in file order, in portions. `reading` is that of a Version.

    UnknownReading, also in the midst of it, where they cannot be told; OSError, EOFError or zlib.error where the file
    cannot be read.
    """
    with original.open_decompressed(path) as raw:
        if reading["format"] == "csv":
            portions = _csv_records(raw, reading)
            yield from _without_first(portions) if is_true(reading, "header") else portions
        elif reading["format"] == "json":
            yield from _json_records(raw, reading)
        else:
            raise UnknownReading


def _csv_records(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    if is_true(reading, "multiline"):
        return quoted_records(original.decode_chunks(raw, reading, universal=False), reading)
    return _csv_lines(raw, reading)


def _json_records(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    if is_true(reading, "allowcomments"):
        raise UnknownReading
    if is_true(reading, "multiline"):
        return element_lines(original.decode_chunks(raw, reading, universal=True))
    return _json_lines(raw, reading)


def _without_first(portions: Iterator[Sequence[int]]) -> Iterator[Sequence[int]]:
    header = True
    for portion in portions:
        yield portion[1:] if header else portion
        header = header and not portion


def _csv_lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    comment = original.as_latin1(reading.get("comment", ""), reading)
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
            elif text := line.strip(SPACE):
                count = sum(map(len, element_lines([text]))) if text.startswith("[") else 1
                found += [number] * count
        yield found


def _lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Portions of a file's lines with their numbers: lines as Spark splits them, before it decodes them."""
    separator, codec, number = reading.get("linesep"), original.declared_encoding(reading), 1
    plain = original.keeps_ascii(codec)
    if separator is None and not plain:
        raise UnknownReading  # Spark would cut such characters in two
    with original.text_stream(raw, "latin-1" if plain else codec, universal=separator is None) as text:
        if plain:
            original.skip_byte_order_mark(text)
        if separator is None:
            while lines := text.readlines(original.CHUNK):
                yield range(number, number + len(lines)), lines
                number += len(lines)
            return
        separator = original.as_latin1(separator, reading) if plain else separator
        for pieces in _pieces(text, separator):
            numbers = []
            for piece in pieces:
                blank = len(piece) - len(piece.lstrip(CONTROLS))
                numbers.append(number + _count_newlines(piece[:blank]))
                number += _count_newlines(piece + separator)
            yield numbers, pieces


def _pieces(text: TextIO, separator: str) -> Iterator[list[str]]:
    """What lies between the separators, in portions."""
    rest: list[str] = []
    while chunk := text.read(original.CHUNK):
        rest.append(chunk)
        if separator not in chunk and len(separator) == 1:
            continue
        *pieces, last = "".join(rest).split(separator)
        rest = [last]
        yield pieces
    yield ["".join(rest)]


def _count_newlines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
