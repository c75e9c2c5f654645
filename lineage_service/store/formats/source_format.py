"""The interface of a source format. Each file of this folder implements it for one format.

A format is *read in place* if a row has a stable position in its file. Then the rid of a row follows from file and
position, and nothing is copied. Records of other formats are first written to the home as a snapshot, in file order.

Delta and Iceberg belong here too, one file each. Such a table is a set of Parquet files that its log names for each
version, with deletion vectors. `list_files` would read the log, so that only files of that version are listed; the
deletion vector of a file would become `VersionFile.without`; columns and row counts come from the log instead of
footers; `write_without` would commit a new version of the table. They are read in place, as Parquet is, and
`spark_reader` of their declaration stays Parquet, because the files are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lineage_service.plan.schema import Column
from lineage_service.spec.file_formats import FormatDeclaration
from lineage_service.store.listing import Listing

if TYPE_CHECKING:
    from lineage_service.store.version_patcher import Ids

# Reader options in lower case, with the format's name under `format`: what a version keeps of how it was read.
Reading = Mapping[str, str]


@dataclass(frozen=True)
class FileCut:
    """Rows to be cut out of a file, by their positions. `reading` is how the file is read."""

    path: str
    rows: int
    places: Ids
    reading: Reading


class SourceFormat(Protocol):
    """One format of source files."""

    @property
    def declaration(self) -> FormatDeclaration:
        """Name, suffixes and reader options, as the workflow file has them."""

    @property
    def is_read_in_place(self) -> bool:
        """Whether rows have stable positions in the files themselves. Otherwise a snapshot is read."""

    # --- before Spark -----------------------------------------------------------------------------------------

    def list_files(self, path: str, folder: Path) -> Listing:
        """The files that a source's path means now. Raises SourceError if there are none."""

    def columns(self, file: str, options: Mapping[str, str]) -> list[Column] | None:
        """The columns of a file, as far as they are known without Spark; None if they are not."""

    def declared_columns(self, columns: Sequence[Column], file: str) -> list[Column]:
        """Columns of a declared schema, each with whether all engines read the same values of it."""

    def row_count(self, file: str) -> int | None:
        """The number of rows of a file if it is known without reading it; otherwise None."""

    # --- records of original files ----------------------------------------------------------------------------

    def record_framing(self, reading: Reading) -> tuple[tuple[str, str], ...]:
        """The reader options that decide which bytes of a file form a record, in a canonical form. Records of two
        sources are the same if path, position and framing are equal.
        """

    def record_lines(self, file: str, reading: Reading) -> Iterator[Sequence[int]]:
        """The lines, counted from 1, on which the records of a file begin, in file order, in batches.

        Raises UnknownReading, possibly during iteration, if they cannot be determined; OSError, EOFError or zlib.error
        if the file cannot be read.
        """

    # --- erasure and refresh ----------------------------------------------------------------------------------

    def refuse_unwritable(self, cut: FileCut) -> None:
        """Raises LineageError if records cannot be cut out of a file for a reason known before writing."""

    def write_without(self, cut: FileCut, target: Path) -> None:
        """Writes a copy of a file without the records that are cut out. Raises LineageError if that is unsafe."""

    @property
    def change_file_suffixes(self) -> tuple[str, ...]:
        """Suffixes of files with changed or added rows for a refresh; empty if there are none."""

    def changed_rows(self, file: Path) -> str | list[dict[str, Any]]:
        """The rows of such a file: a query for DuckDB, or the rows. Raises OSError or ValueError if it is
        unreadable.
        """
