"""Copies rows between Spark and DuckDB, through files in the question's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.progress import Stages
from lineage_service.query.query_engine import QueryEngine
from lineage_service.store.duckdb_engine import file_literal

if TYPE_CHECKING:
    from lineage_service.spark.evaluation import Evaluation
    from lineage_service.spark.spark_types import DataFrame


def copy_to_duckdb(
    engine: QueryEngine,
    stage: Evaluation,
    frame: DataFrame,
    folder: Path,
    label: str,
    stages: Stages,
    stage_label: str = "following the rows",
) -> str:
    """Copies a DataFrame to a DuckDB table. `stage_label` is the progress stage to report."""
    from lineage_service.spark.evaluated_rows import write_rows

    target = folder / f"to-duckdb-{label}"
    with stages.stage(stage_label):
        write_rows(frame, target, stage.folder.home.path)
    return engine.keep(f"SELECT * FROM read_parquet({file_literal(str(target))[:-1]}/*.parquet')")


def copy_to_spark(engine: QueryEngine, stage: Evaluation, query: str, folder: Path, label: str) -> DataFrame:
    """Copies the rows of a DuckDB query to a DataFrame."""
    import pyarrow.parquet as pq

    from lineage_service.spark.file_scan import read_files

    path = folder / f"to-spark-{label}.parquet"
    reader = engine.stream(query)
    with pq.ParquetWriter(str(path), reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return read_files(stage.spark, [str(path)])
