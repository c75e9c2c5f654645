"""A catalog of the current revision with nothing in it: migrating takes longer than most tests."""

import tempfile
from functools import cache
from pathlib import Path

from lineage_catalog.schema_upgrade import migrate


def put_empty_catalog(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty_catalog())


@cache
def _empty_catalog() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.db"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()
