"""CSV and other delimited text."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lineage_service.plan.schema import Column
from lineage_service.spec.file_formats import format_declaration
from lineage_service.store.duckdb_engine import file_literal
from lineage_service.store.formats.source_format import Reading
from lineage_service.store.formats.text_format import TextFormat
from lineage_service.store.original_text import is_true, open_decompressed
from lineage_service.store.record_lines import csv_record_lines


class CsvFormat(TextFormat):
    declaration = format_declaration("csv")
    own_framing = ("header",)
    change_file_suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def columns(self, file: str, options: Mapping[str, str]) -> list[Column] | None:
        """The names in the header. Only Spark knows the types."""
        given = {key.lower(): value for key, value in options.items()}
        if not is_true(given, "header") or Path(file).suffix not in (*self.declaration.suffixes, ".txt"):
            return None
        separator = given.get("sep", given.get("delimiter", ","))
        try:
            with Path(file).open(encoding=given.get("encoding", "utf-8"), newline="") as stream:
                quote = given.get("quote", '"') or None
                header = next(csv.reader([stream.readline(1 << 20)], delimiter=separator, quotechar=quote))
        except (OSError, UnicodeError, StopIteration, TypeError, csv.Error, LookupError):
            return None
        names = [name.lstrip("\ufeff") for name in header]
        if len({name.lower() for name in names}) != len(names) or not all(names):
            return None  # Spark gives such columns names of its own
        return [Column(name) for name in names]

    def record_lines(self, file: str, reading: Reading) -> Iterator[Sequence[int]]:
        with open_decompressed(file) as raw:
            yield from csv_record_lines(raw, reading)

    def changed_rows(self, file: Path) -> str | list[dict[str, Any]]:
        """All values as text, so that the source's own types apply."""
        named = file_literal(str(file.absolute()))
        return f"SELECT * FROM read_csv({named}, all_varchar = true, header = true, allow_quoted_nulls = false)"
