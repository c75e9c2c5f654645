"""Spark's settings under which a run's expressions were evaluated, stored with the run so that they can be evaluated
again.

The manifest of lineage tables is removed after indexing, but later questions may evaluate steps again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lineage_service.store.checksums import parsed_note, read_note
from lineage_service.store.layout import RunFolder, translate_disk_errors

FILE = "settings.json"


def save_settings(folder: RunFolder, conf: Mapping[str, str]) -> None:
    with translate_disk_errors(folder.home.path):
        (folder.path / FILE).write_text(json.dumps(dict(conf)), encoding="utf-8")


def load_settings(folder: RunFolder) -> dict[str, str] | None:
    """The settings of a run; None if it was made before settings were stored."""
    text = read_note(folder.path / FILE)
    return None if text is None else dict(parsed_note(text, folder.path / FILE))
