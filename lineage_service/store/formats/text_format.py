"""Common parts of text formats: records are one or more lines, and a snapshot is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from lineage_service.errors import LineageError
from lineage_service.plan.schema import Column
from lineage_service.spec.file_formats import FormatDeclaration
from lineage_service.store.formats.source_format import FileCut, Reading
from lineage_service.store.listing import Listing, listing
from lineage_service.store.original_text import UnknownReading, declared_encoding, is_true, keeps_ascii

_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
# Options that decide where a record begins and ends, or whether it counts. Without `multiline` a record is a line.
_FRAMING = ("multiline", "mode", "linesep", "comment", "encoding", "charset")
_FRAMING_OVER_LINES = ("quote", "escape", "chartoescapequoteescaping", "sep", "delimiter", "unescapedquotehandling",
                       "ignoreleadingwhitespace", "ignoretrailingwhitespace")  # fmt: skip
_IN_ANY_CASE = {"header", "multiline", "mode", "encoding", "charset", "explodeembeddedarray", "unescapedquotehandling",
                "ignoreleadingwhitespace", "ignoretrailingwhitespace"}  # fmt: skip
_OTHER_NAMES = {"delimiter": "sep", "charset": "encoding"}  # Spark takes the usual name where both are given
_DEFAULTS = {"header": "false", "multiline": "false", "mode": "failfast", "sep": ",", "quote": '"', "escape": "\\",
             "ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false"}  # fmt: skip


class TextFormat:
    """A format of text files. A subclass adds its declaration, its columns and the lines of its records."""

    declaration: ClassVar[FormatDeclaration]
    is_read_in_place = False
    change_file_suffixes: ClassVar[tuple[str, ...]] = ()
    own_framing: ClassVar[tuple[str, ...]] = ()  # further options that decide what a record is
    detects_encoding_over_lines: ClassVar[bool] = False  # Spark finds the encoding out where none is given

    def list_files(self, path: str, folder: Path) -> Listing:
        return listing(path, folder)

    def declared_columns(self, columns: Sequence[Column], file: str) -> list[Column]:  # noqa: ARG002 (the protocol's)
        return [replace(each, alike=True) for each in columns]  # a snapshot is written in the types that were declared

    def row_count(self, file: str) -> int | None:  # noqa: ARG002 (the protocol's)
        return None

    def record_framing(self, reading: Reading) -> tuple[tuple[str, str], ...]:
        over_lines = is_true(reading, "multiline")
        names = [*_FRAMING, *self.own_framing, *(_FRAMING_OVER_LINES if over_lines else ())]
        given: dict[str, str] = {}
        for name in names:
            if name in reading:
                value = reading[name].lower() if name in _IN_ANY_CASE else reading[name]
                given.setdefault(_OTHER_NAMES.get(name, name), value)
        if "singlevariantcolumn" in given:
            given["singlevariantcolumn"] = ""  # under whatever name
        detected = self.detects_encoding_over_lines and over_lines
        defaults = _DEFAULTS if detected else {**_DEFAULTS, "encoding": "utf-8"}
        kept = {name: value for name, value in given.items() if defaults.get(name) != value}
        return (("format", self.declaration.name), *sorted(kept.items()))

    def record_lines(self, file: str, reading: Reading) -> Iterator[Sequence[int]]:
        raise NotImplementedError

    def refuse_unwritable(self, cut: FileCut) -> None:
        self._lines_and_record_starts(cut)

    def write_without(self, cut: FileCut, target: Path) -> None:
        lines, starts = self._lines_and_record_starts(cut)
        ends = [*starts[1:], len(lines)]
        gone = {line for place in cut.places.tolist() for line in range(starts[place], ends[place])}
        with target.open("wb") as stream:
            stream.writelines(line for number, line in enumerate(lines) if number not in gone)

    def can_cut_records(self, reading: Reading) -> bool:  # noqa: ARG002 (a subclass may need it)
        """Whether records consist of whole lines, so that they can be cut out of the file."""
        return True

    def _lines_and_record_starts(self, cut: FileCut) -> tuple[list[bytes], list[int]]:
        """The lines of a file, and the lines (from 0) on which records begin. Raises LineageError if these are
        uncertain.
        """
        reading: Mapping[str, str] = cut.reading
        unsure = LineageError(
            f"'{cut.path}' cannot be rewritten: it is uncertain where its records begin",
            hint="remove the rows there by hand, and plan without --rewrite-sources",
        )
        if cut.path.endswith(_COMPRESSED) or "linesep" in reading or not keeps_ascii(declared_encoding(reading)):
            raise unsure
        if not self.can_cut_records(reading):
            raise unsure
        try:
            starts = [line - 1 for portion in self.record_lines(cut.path, reading) for line in portion]
        except (UnknownReading, OSError, EOFError):
            raise unsure from None
        lines = Path(cut.path).read_bytes().splitlines(keepends=True)  # bytes: at \n, \r and \r\n alone
        if len(starts) != cut.rows or any(one >= other for one, other in pairwise(starts)):
            raise unsure
        return lines, starts
