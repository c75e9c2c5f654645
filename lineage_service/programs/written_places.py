"""Where programs have written the outputs that the home holds, so that lineage goes on through the files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lineage_catalog.reader import CatalogReader

from lineage_service.programs.file_states import States, states_below


@dataclass(frozen=True)
class WrittenPlace:
    """A place, and the files that one write has made there. `are_rows`: whether reading just these files gives the
    output's rows, with its columns.
    """

    place: str
    files: States
    are_rows: bool

    def to_json(self) -> dict[str, Any]:
        return {"place": self.place, "files": sorted(self.files), "are_rows": self.are_rows}


def written_by(reader: CatalogReader, place: str) -> str | None:
    """The output, with its run, whose files are all that is at a place now; None if there is none, or more."""
    now = {tuple(each) for each in states_below([place])}
    for dataset in reader.outputs_written_to(place) if now else ():
        written = json.loads(dataset.declared).get("written") or {}
        files = {tuple(each) for each in written.get("files", ())}
        if written.get("place") == place and written.get("are_rows") and files == now:
            return dataset.qualified_name
    return None
