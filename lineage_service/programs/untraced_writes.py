"""Writes that are left to the program: what they do to their place is decided by what is there, or by Spark alone."""

from __future__ import annotations

from pathlib import PurePath

from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.file_states import exists
from lineage_service.programs.frame_sources import FrameSources
from lineage_service.programs.program_write import ProgramWrite

# Formats whose writer puts the rows of a task into files in their order.
_FILES = frozenset({"", "parquet", "csv", "json", "orc", "text", "avro", "xml"})


def refuse_kind_of_write(write: ProgramWrite) -> None:
    """Raises Untraceable for writes whose rows are not in files in the order in which they are handed over."""
    command, position = write.command, write.position
    kind, mode = command.text("source").lower(), command.text("mode")
    if kind not in _FILES:
        raise Untraceable(f"a write of the format '{kind}' is not traced yet", position)
    if "table" in command:
        raise Untraceable("a write to a table of Spark's catalog is not traced yet", position)
    if "bucket_by" in command or command.texts("sort_column_names") or command.texts("clustering_columns"):
        raise Untraceable("a write in buckets is not traced yet", position)
    if mode not in ("SAVE_MODE_OVERWRITE", "SAVE_MODE_APPEND") and exists(write.place):
        what = "nothing is written" if mode == "SAVE_MODE_IGNORE" else "Spark refuses it"
        raise Untraceable(f"the place exists already: {what}", position)


def refuse_overwritten_source(write: ProgramWrite, sources: FrameSources) -> None:
    """Raises Untraceable where a write overwrites what it reads: whether Spark allows that depends on its caches."""
    if write.command.text("mode") != "SAVE_MODE_OVERWRITE":
        return
    for name, place in sources.places.items():
        if _is_inside(place, write.place) or _is_inside(write.place, place):
            raise Untraceable(f"it overwrites '{name}', which it reads", write.position)


def _is_inside(path: str, folder: str) -> bool:
    return PurePath(path).is_relative_to(folder)
