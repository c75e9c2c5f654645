"""JSON: one record per line, or arrays and objects over several lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lineage_service.plan.schema import Column
from lineage_service.spec.file_formats import format_declaration
from lineage_service.store.formats.source_format import Reading
from lineage_service.store.formats.text_format import TextFormat
from lineage_service.store.original_text import is_true, open_decompressed
from lineage_service.store.record_lines import json_record_lines


class JsonFormat(TextFormat):
    declaration = format_declaration("json")
    own_framing = ("singlevariantcolumn", "explodeembeddedarray")  # whether an array is one record
    detects_encoding_over_lines = True
    change_file_suffixes: ClassVar[tuple[str, ...]] = tuple(declaration.suffixes)

    def columns(self, file: str, options: Mapping[str, str]) -> list[Column] | None:  # noqa: ARG002 (the protocol's)
        return None  # Spark infers them from all records

    def record_lines(self, file: str, reading: Reading) -> Iterator[Sequence[int]]:
        with open_decompressed(file) as raw:
            yield from json_record_lines(raw, reading)

    def can_cut_records(self, reading: Reading) -> bool:
        return not is_true(reading, "multiline")

    def changed_rows(self, file: Path) -> str | list[dict[str, Any]]:
        """An array of rows, or one row per line. Numbers are kept as written, so that none is rounded."""
        text = file.read_text(encoding="utf-8")
        try:
            found = json.loads(text, parse_float=str, parse_int=str)
        except json.JSONDecodeError:
            found = [json.loads(line, parse_float=str, parse_int=str) for line in text.splitlines() if line.strip()]
        return [found] if isinstance(found, dict) else list(found)
