"""The lines on which the records of a CSV or JSON file begin, by the rules of Spark's readers.

A line ends with a line feed, a carriage return, or both. Lines count from 1. Files are streamed. A file or reader
option whose rules are not implemented here is refused, and the caller compares the number of records with Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, TextIO

from lineage_service.store import original_text as original
from lineage_service.store.json_elements import SPACE, element_lines
from lineage_service.store.original_text import UnknownReading, is_true
from lineage_service.store.quoted_csv import quoted_records

CONTROLS = "".join(map(chr, range(33)))  # what Java's trim() takes away


def csv_record_lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """The lines on which the records of a CSV file begin, in batches. The header is no record."""
    if is_true(reading, "multiline"):
        portions = quoted_records(original.decode_chunks(raw, reading, universal=False), reading)
    else:
        portions = _csv_lines(raw, reading)
    return _without_first(portions) if is_true(reading, "header") else portions


def json_record_lines(raw: BinaryIO, reading: Mapping[str, str]) -> Iterator[Sequence[int]]:
    """The lines on which the records of a JSON file begin, in batches."""
    if is_true(reading, "allowcomments"):
        raise UnknownReading
    if is_true(reading, "multiline"):
        return element_lines(original.decode_chunks(raw, reading, universal=True, detect_utf16=True))
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
    """Batches of a file's lines with their numbers, split as Spark splits them before decoding."""
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
    """The texts between the separators, in batches."""
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
