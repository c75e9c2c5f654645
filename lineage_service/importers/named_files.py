"""Files that a query names in the place of a table, as in csv.`path`."""

from __future__ import annotations

import re
from pathlib import Path

from lineage_service.importers.foreign_project import ForeignTable, Parts

FILE_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text", "delta", "iceberg")


def named_files(parts: Parts, folder: Path | None) -> ForeignTable | None:
    """The files that a name means, and None for any other name; relative paths start from `folder`. Without a folder,
    the user is asked where the files of a relative path are.
    """
    if len(parts) != 2 or parts[0].lower() not in FILE_FORMATS:
        return None
    kind, path = parts[0].lower(), re.sub("^file:(?://(?=/))?", "", parts[1])
    if folder is None and not is_complete(path) and "/" not in path:
        return None  # a table of a schema that is called like a format
    shown, name = f"{kind}.`{parts[1]}`", _name_of(path)
    known = folder is not None or is_complete(path)
    return ForeignTable(
        shown, name, f"{name}_{kind}", (shown, parts[1]), "files", path if known else None, folder, kind, is_files=True
    )


def is_complete(path: str) -> bool:
    """Whether a path does not start from a folder: it is absolute, or the address of a file elsewhere."""
    return Path(path).is_absolute() or re.match(r"\w[\w+.-]*:/", path) is not None


def _name_of(path: str) -> str:
    """The last part of a path that has no wildcard, without its suffix."""
    plain = [part for part in path.split("/") if part and not re.search(r"[*?\[{:]", part)]
    return (plain[-1].split(".")[0] if plain else "") or "files"
