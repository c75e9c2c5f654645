"""How many persons stand behind a row: counted over sources that declare a subject, by lineage, over all workflows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from lineage_catalog.records import DatasetRecord

from lineage_service.query.ask import Questions
from lineage_service.query.graph import Place, walk
from lineage_service.query.walk_sql import Start
from lineage_service.store.engine import literal
from lineage_service.store.patching import Ids
from lineage_service.subjects.finding import declared_of
from lineage_service.subjects.index import layers_of, owners


def persons_behind(ask: Questions, record: DatasetRecord, rids: Ids) -> dict[int, int]:
    """Per row of a dataset, how many different persons its rows of sources are about; rows of nobody are left out."""
    if not len(rids):
        return {}
    begin = Place(record.run_id, record.space)
    table = ask.engine.keep_ids(pa.array(rids, pa.int64()))
    try:
        parts = list(_parts(ask, begin, table))
        if not parts:
            return {}
        counted = f"SELECT a, count(DISTINCT kind || hex(hash)) FROM ({' UNION ALL '.join(parts)}) GROUP BY a"
        return {int(rid): int(persons) for rid, persons in ask.engine.rows(counted)}
    finally:
        ask.engine.drop(table)


def _parts(ask: Questions, begin: Place, table: str) -> Iterator[str]:
    walked = walk(ask.graph, begin, "backward")
    for place in [begin, *sorted(walked.reached(absence=False))]:
        for dataset in ask.graph.datasets_at(place):
            if dataset.role != "source":
                continue
            known = {(each.kind, each.column): each for each in ask.reader.subjects(dataset.version_id)}
            for declared in declared_of(dataset):
                index = known.get((declared.kind, declared.column))
                if index is None:
                    continue
                found = owners(layers_of(index), ask.home.absolute)
                if place == begin:
                    pairs = f"SELECT b AS a, b FROM {table}"
                else:
                    ways = walked.toward(place, absence=False)
                    sql = ask.walk_sql(ways, Start(table=table), begin, place, "backward")
                    pairs = f"SELECT a, b FROM {ask.engine.keep(f'SELECT a, b FROM ({sql.text})', sql.parameters)}"
                yield (
                    f"SELECT p.a, {literal(declared.kind + ':')} AS kind, o.hash FROM ({pairs}) p "
                    f"JOIN ({found}) o ON o.rid = p.b"
                )
