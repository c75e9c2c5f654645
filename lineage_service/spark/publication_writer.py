"""Writes the published copy of an output: the user's columns, in the output's order."""

from __future__ import annotations

import shutil
from pathlib import Path

from lineage_service.spark.capture_columns import col
from lineage_service.spark.faults import executing
from lineage_service.spark.relation import Relation
from lineage_service.store.publications import Publication


def write_publication(publication: Publication, relation: Relation, home: Path) -> None:
    shutil.rmtree(publication.waiting, ignore_errors=True)  # of an earlier try of the same run
    with executing(None, f"publishing output '{publication.output}'", home):
        relation.frame.select(*[col(name) for name in relation.columns]).write.parquet(str(publication.waiting))
