"""Columns of files that both engines read as the same values.

These are the columns whose Spark type is the one in the files. A type that the user declares, or a reader setting, may
produce other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lineage_service.equivalence.type_names import spark_type_of_arrow

WIDER = ("tinyint", "smallint", "int", "bigint")  # each holds the values of those before it
IN_FOLDERS = (*WIDER, "string", "date")  # types of which both engines read a folder's name alike


class StoredColumn(Protocol):
    """A column of a dataset's version: its Spark type, and its name in the files; None for a partition column."""

    @property
    def type(self) -> str: ...
    @property
    def stored(self) -> str | None: ...


class FileFooter(Protocol):
    """What the footer of a Parquet file states."""

    @property
    def old_days(self) -> bool:
        """Whether it uses the Julian calendar for days before 1582."""

    def type_of(self, name: str) -> str | None:
        """The Arrow type of a column; None if the file lacks it."""


def is_read_alike(column: StoredColumn, footers: Sequence[FileFooter], *, rebased: bool) -> bool:
    """Whether both engines read the same values of a column from these files.

    rebased: Spark uses the Julian calendar for days before 1582, as it does for files of Spark 2, and for others by a
    setting
    """
    if column.type == "date" and (rebased or any(footer.old_days for footer in footers)):
        return False
    if column.stored is None:
        return column.type in IN_FOLDERS
    return all(_is_lossless(column.type, footer.type_of(column.stored)) for footer in footers)


def _is_lossless(wanted: str, kind: str | None) -> bool:
    if kind is None:
        return True  # the file lacks the column: all null
    own = spark_type_of_arrow(kind)
    if own in WIDER and wanted in WIDER:
        return WIDER.index(own) <= WIDER.index(wanted)
    return own == wanted
