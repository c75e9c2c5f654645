"""The subject index of a version derived from another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
from lineage_catalog.records import SubjectRecord

from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.subjects.subject_index import DeclaredSubject, Layer, SubjectIndex, layers_json, layers_of


def add_refresh_layer(
    index: SubjectIndex, declared: DeclaredSubject, record: SubjectRecord, after: VersionScan, removed: Ids, added: Ids
) -> SubjectRecord:
    """The index of a refreshed version: the masked layers of the previous one, and a new layer for the added rows."""
    layers = layers_of(record)
    touched = np.union1d(removed, added)
    if len(touched):
        mask = Patcher(index.folder).write_mask(touched)
        layers = [replace(each, without=(*each.without, mask)) for each in layers]
    layers += _layers_of(index, declared, after, added)
    return replace(
        record,
        version_id=after.version.id,
        run_id=index.folder.run_id,
        body=layers_json(layers),
        rows=after.version.rows,
    )


def rewrite_index(
    index: SubjectIndex, declared: DeclaredSubject, record: SubjectRecord, after: VersionScan, added: Ids
) -> SubjectRecord:
    """The same index in separate files, without persons who no longer have a row."""
    with _rids_table(index, added) as table:
        rids = f"SELECT x.b FROM ({after.all_rids()}) x ANTI JOIN {table} c ON c.b = x.b"
        found = index.restrict_to(record, after.version.id, rids, index.folder.home.absolute)
    return replace(found, body=layers_json([*layers_of(found), *_layers_of(index, declared, after, added)]))


def _layers_of(index: SubjectIndex, declared: DeclaredSubject, after: VersionScan, added: Ids) -> list[Layer]:
    if not len(added):
        return []
    with _rids_table(index, added) as table:
        rows = f"SELECT t.* FROM ({after.select()}) t SEMI JOIN {table} c ON c.b = t.{RID}"
        return layers_of(index.of_rows(declared, after, rows))


@contextmanager
def _rids_table(index: SubjectIndex, rids: Ids) -> Iterator[str]:
    name = "rids_that_came"
    index.connection.register(name, pa.table({"b": pa.array(rids, pa.int64())}))
    try:
        yield name
    finally:
        index.connection.unregister(name)
