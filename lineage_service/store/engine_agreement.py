"""Which columns of a source every engine reads as the same values: those of which Spark's type is the one that the
files themselves name. A type that the user declares, or a setting of the reader, may make other values of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lineage_service.store.versions import Footer, VersionColumn

WIDER = ("tinyint", "smallint", "int", "bigint")  # each holds the values of those before it
IN_FOLDERS = (*WIDER, "string", "date")  # types of which both engines read a folder's name alike


def spark_type(kind: str) -> str | None:
    """Spark's name for a type of Arrow's, for the few where it is beyond doubt; of others only Spark knows."""
    plain = {"int32": "int", "int64": "bigint", "double": "double", "float": "float", "bool": "boolean",
             "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
             "large_binary": "binary", "binary_view": "binary", "date32[day]": "date", "int16": "smallint",
             "int8": "tinyint"}  # fmt: skip
    decimal = re.fullmatch(r"decimal\d+\((\d+), (\d+)\)", kind)
    return f"decimal({decimal[1]},{decimal[2]})" if decimal else plain.get(kind)


def is_read_alike(column: VersionColumn, footers: Sequence[Footer], *, rebased: bool) -> bool:
    """Whether a column has the same values to whoever reads these files. `rebased`: days are counted by the old
    calendar, as Spark does for files of Spark 2, and for others where a setting says so."""
    if column.type == "date" and (rebased or any(footer.old_days for footer in footers)):
        return False
    if column.stored is None:
        return column.type in IN_FOLDERS
    return all(_is_lossless(column.type, footer.type_of(column.stored)) for footer in footers)


def _is_lossless(wanted: str, kind: str | None) -> bool:
    if kind is None:
        return True  # the file lacks the column: all null
    own = spark_type(kind)
    if own in WIDER and wanted in WIDER:
        return WIDER.index(own) <= WIDER.index(wanted)
    return own == wanted
