"""Finds files that runs need and that are missing or cannot be read completely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import RunRecord

from lineage_service.store.layout import HomeLayout
from lineage_service.store.references import Reference, References, held_runs


def lost_files(reader: CatalogReader, home: HomeLayout) -> Iterator[tuple[RunRecord, Reference]]:
    """Files that runs need and that are missing. A file that several runs share is reported once."""
    references, seen = References(reader, home), set[str]()
    for run in held_runs(reader):
        for each in references.missing(references.of_run(run)):
            if each.path not in seen:
                seen.add(each.path)
                yield run, each


def damaged_files(reader: CatalogReader, home: HomeLayout) -> Iterator[tuple[RunRecord, str, str]]:
    """Files that runs need and that cannot be read completely: run, path inside the home, fault."""
    references, seen = References(reader, home), set[str]()
    for run in held_runs(reader):
        for path in sorted(references.files_of_runs([run]) - seen):
            seen.add(path)
            fault = fault_of(Path(home.absolute(path)))
            if fault is not None:
                yield run, path, fault


def fault_of(path: Path) -> str | None:
    """The fault of a file, which is read completely; None if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for number in range(file.num_row_groups):
                    file.read_row_group(number)
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        else:
            path.read_bytes()
    except OSError as error:
        return (error.strerror or "cannot be read").lower() if error.errno else "damaged"
    except (pa.ArrowException, ValueError):
        return "damaged"
    return None
