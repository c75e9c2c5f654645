"""The source formats by name. `source_format` ends in `assert_never`, so mypy reports a format that is missing here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from lineage_service.spec.file_formats import FORMAT_NAMES, FileFormat
from lineage_service.spec.source_models import SourceSpec
from lineage_service.store.formats.csv_format import CsvFormat
from lineage_service.store.formats.json_format import JsonFormat
from lineage_service.store.formats.parquet_format import ParquetFormat
from lineage_service.store.formats.source_format import Reading, SourceFormat
from lineage_service.store.original_text import UnknownReading

# Versions over a user's own files keep no reader options; so far only Parquet is read in place.
IN_PLACE: Reading = {"format": "parquet"}


def source_format(name: FileFormat) -> SourceFormat:
    match name:
        case "parquet":
            return ParquetFormat()
        case "csv":
            return CsvFormat()
        case "json":
            return JsonFormat()
        case _:
            assert_never(name)


def format_of_source(source: SourceSpec) -> SourceFormat:
    """The format of a source that reads files. A valid source has one."""
    assert source.file_format is not None
    return source_format(source.file_format)


def format_of_reading(reading: Reading) -> SourceFormat | None:
    """The format in which a version was read; None if it is not recorded (a version of an older home)."""
    return next((source_format(name) for name in FORMAT_NAMES if name == reading.get("format")), None)


def record_framing(reading: Reading) -> tuple[tuple[str, str], ...]:
    """The reader options that decide which bytes of a file form a record."""
    found = format_of_reading(reading)
    return (("format", reading.get("format", "")),) if found is None else found.record_framing(reading)


def record_lines(file: str, reading: Reading) -> Iterator[Sequence[int]]:
    """The lines on which the records of a file begin. Raises UnknownReading if the file's format is unknown."""
    found = format_of_reading(reading)
    if found is None:
        raise UnknownReading
    yield from found.record_lines(file, reading)


def formats_of_change_files() -> Mapping[str, SourceFormat]:
    """By suffix, the formats of files with rows for a refresh."""
    every = [source_format(name) for name in FORMAT_NAMES]
    return {suffix: each for each in every for suffix in each.change_file_suffixes}
