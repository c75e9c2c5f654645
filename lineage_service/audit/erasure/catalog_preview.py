"""A preview of the catalog after an erasure: a copy in memory in which runs are replaced."""

from __future__ import annotations

from collections.abc import Iterable

from lineage_catalog import models
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import Commit
from lineage_catalog.writer import supersede
from sqlalchemy import create_engine, insert, select
from sqlalchemy.pool import StaticPool


def preview_catalog(
    reader: CatalogReader, switched: Iterable[tuple[str, Commit]], before: str | None = None
) -> CatalogReader:
    """A reader of the preview. With `before`, it contains only runs committed before that one."""
    copy = create_engine("sqlite://", poolclass=StaticPool)
    models.metadata.create_all(copy)
    left_out = (models.audit_log.name, models.audit_requests.name)
    with reader.connection() as source, copy.begin() as target:
        ordinal = None
        if before is not None:
            ordinal = source.execute(select(models.runs.c.ordinal).where(models.runs.c.id == before)).scalar_one()
        for table in models.metadata.sorted_tables:
            query = select(table)
            if table.name in left_out:
                continue
            if table.name == "runs" and ordinal is not None:
                # A superseded run sorts after all others; names resolve to the run that replaces it.
                query = query.where((table.c.ordinal < ordinal) | (table.c.status != "committed"))
            rows = [dict(row._mapping) for row in source.execute(query)]
            if rows:
                target.execute(insert(table), rows)
        known = set(target.execute(select(models.runs.c.id)).scalars())
        for old, commit in switched:
            if old in known:
                supersede(target, old, commit)
    return CatalogReader(copy)
