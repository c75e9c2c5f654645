"""Lineage tables that are kept beside the index: rows of handles that belong together, for witnesses and polynomials.

Pairs show which rows contributed, but not which of them together. Most tables need no file for that: their handles are
in a dataset's own rows, or are found in the sources' files. The others are written to the index's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lineage_service.capture.handles import Space, Table
from lineage_service.store.checksums import parsed_note, read_note
from lineage_service.store.lineage_tables import TableRows, table_from_json, table_json

ALIGNED = "aligned.json"


@dataclass(frozen=True)
class AlignedTables:
    """The lineage tables of a run: where the rows of each are, or why they are not kept (`missing`).

    asked: the spaces that declared questions need; None if nothing was declared, so that nothing is pruned
    """

    tables: Mapping[Space, Table]
    rows: Mapping[Space, TableRows] = field(default_factory=dict)
    missing: Mapping[Space, str] = field(default_factory=dict)
    asked: frozenset[Space] | None = None

    def rides(self, space: Space) -> bool:
        """Whether the groups of a space are rows of a dataset, with the same ids."""
        return space in self.rows and self.rows[space].carrier is not None

    def save(self, folder: Path) -> None:
        body = {
            "tables": [table_json(table) for table in self.tables.values()],
            "rows": {space: rows.to_json() for space, rows in self.rows.items()},
            "missing": dict(self.missing),
            "asked": None if self.asked is None else sorted(self.asked),
        }
        (folder / ALIGNED).write_text(json.dumps(body), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> AlignedTables | None:
        """The aligned tables of a run; None if there are none."""
        text = read_note(folder / ALIGNED)
        if text is None:
            return None
        body = parsed_note(text, folder / ALIGNED)
        tables = [table_from_json(each) for each in body["tables"]]
        rows = {Space(space): TableRows.from_json(each) for space, each in body["rows"].items()}
        missing = {Space(space): str(why) for space, why in body["missing"].items()}
        asked = None if body["asked"] is None else frozenset(map(Space, body["asked"]))
        return cls({table.space: table for table in tables}, rows, missing, asked)
