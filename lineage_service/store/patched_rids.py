"""Rids of versions that share files with the version they were made from.

Removed rows of a file, and the rids of added rows, are in small files beside the data, which is not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.store.checksums import verify
from lineage_service.store.versions import VersionFile

if TYPE_CHECKING:
    import pyarrow as pa

AT, AS = "_smoke_at", "_smoke_as"  # the position of a row in its file; the rid that it has
CAME = "came-"  # how files of rows begin that were given to a refresh


@dataclass(frozen=True)
class PatchedRids:
    """The rids of a patched version."""

    files: Sequence[VersionFile]
    absolute: Callable[[str], str]

    def holds(self, rid: int) -> bool:
        return rid in self._assigned_rids or any(
            file.only is None and file.base <= rid < file.base + file.rows and rid not in self._removed_rids
            for file in self.files
        )

    def place(self, rid: int) -> tuple[int, int] | None:
        """The number of the file that contains a row, and its position there."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        for number, file in enumerate(self.files):
            if file.only is not None:
                rows = pq.read_table(self.absolute(file.only))
                at = rows.column(AT).filter(pc.equal(rows.column(AS), rid))
                if len(at):
                    return number, int(at[0].as_py())
            elif file.base <= rid < file.base + file.rows and rid not in self._removed_rids:
                return number, rid - file.base
        return None

    @cached_property
    def _assigned_rids(self) -> frozenset[int]:
        return frozenset(rid for file in self.files if file.only for rid in self._column(file.only, AS))

    @cached_property
    def _removed_rids(self) -> frozenset[int]:
        return frozenset(at + file.base for file in self.files if file.without for at in self._column(file.without, AT))

    def _column(self, path: str, name: str) -> list[int]:
        found: list[int] = self.column(path, name).to_pylist()
        return found

    def column(self, path: str, name: str) -> pa.Array:
        """The positions or rids in such a file."""
        import pyarrow.parquet as pq

        verify(self.absolute(path))
        return pq.read_table(self.absolute(path), columns=[name]).column(0).combine_chunks()


def write_positions(path: Path, positions: pa.Array, rids: pa.Array | None = None) -> None:
    """Writes a file of positions, and of their rids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {AT: positions} if rids is None else {AT: positions, AS: rids}
    pq.write_table(
        pa.table(columns),
        path,
        compression="zstd",
        column_encoding=dict.fromkeys(columns, "DELTA_BINARY_PACKED"),
        use_dictionary=False,
    )
