"""Rows from one engine to the other, by files of a question's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.progress import Stages
from lineage_service.query.query_engine import QueryEngine
from lineage_service.store.duckdb_engine import file_literal

if TYPE_CHECKING:
    from lineage_service.spark.evaluation import Evaluation


def copy_to_duckdb(
    engine: QueryEngine,
    stage: Evaluation,
    frame: Any,
    folder: Path,
    label: str,
    stages: Stages,
    told: str = "following the rows",
) -> str:
    """Rows of Spark's as a table of the engine; `told` is what is said meanwhile."""
    from lineage_service.spark.faults import executing

    target = folder / f"to-duckdb-{label}"
    with stages.stage(told), executing(None, "evaluating the steps again", stage.folder.home.path):
        frame.write.mode("overwrite").parquet(str(target))
    return engine.keep(f"SELECT * FROM read_parquet({file_literal(str(target))[:-1]}/*.parquet')")


def copy_to_spark(engine: QueryEngine, stage: Evaluation, query: str, folder: Path, label: str) -> Any:
    """Rows of the engine's as a DataFrame."""
    import pyarrow.parquet as pq

    from lineage_service.spark.file_scan import read_files

    path = folder / f"to-spark-{label}.parquet"
    reader = engine.stream(query)
    with pq.ParquetWriter(str(path), reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return read_files(stage.spark, [str(path)])
