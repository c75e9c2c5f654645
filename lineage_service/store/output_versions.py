"""Versions of what a run wrote itself: Parquet files below its folder, rows in order of the files' paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lineage_service.store.layout import RunFolder
from lineage_service.store.versions import (
    Version,
    VersionColumn,
    VersionFile,
    file_state,
    parquet_footer,
    parquet_rows,
    version_id,
)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the rows of a dataset are divided into files: by the values of columns, and into so many partitions."""

    by: tuple[str, ...] = ()
    partitions: int | None = None


def version_of_folder(
    folder: Path, columns: Sequence[tuple[str, str]], run: RunFolder, kind: str = "output"
) -> Version:
    """The version of the Parquet files in a folder. Its columns are those named; others are ours."""
    files, base, states = [], 0, []
    for path in sorted(str(path) for path in folder.rglob("*.parquet")):
        state, footer = file_state(path), parquet_footer(path)
        states.append(state)
        inside, odd = run.home.relative(path), footer.is_odd(())
        files.append(VersionFile(inside, state.size, state.mtime_ns, state.fingerprint, footer.rows, base, {}, odd))
        base += footer.rows
    described = tuple(VersionColumn(name, kind_of, name) for name, kind_of in columns)
    return Version(version_id(kind, states, run.run_id), kind, tuple(files), described)


def size_of_folder(folder: Path) -> tuple[int, int]:
    """Rows and bytes of the Parquet files in a folder."""
    paths = list(folder.rglob("*.parquet"))
    return sum(parquet_rows(str(path)) for path in paths), sum(path.stat().st_size for path in paths)
