"""For tests that write records by hand, as if the product had."""

from __future__ import annotations

from lineage_catalog import models
from lineage_catalog.seals import seal_missing
from sqlalchemy import Connection, delete


def seal_anew(connection: Connection) -> None:
    """Seals every record of a catalog as it now is."""
    connection.execute(delete(models.seals))
    seal_missing(connection)
