"""The index engine for lineage that is too large for one process: Spark sorts and writes files of limited size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space
from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.errors import RunError
from lineage_service.spark.capture_columns import col
from lineage_service.spark.faults import executing
from lineage_service.spark.file_scan import read_files, rows_with_rids
from lineage_service.store.layout import HomeLayout
from lineage_service.store.lineage_tables import TableRows, bound_name
from lineage_service.store.versions import Version, VersionFile, parquet_rows

SORTED = {"parquet.writer.version": "PARQUET_2_0", "compression": "zstd", "parquet.enable.dictionary": "false",
          "parquet.block.size": str(4 << 20)}  # fmt: skip


@dataclass
class SparkIndexEngine:
    """Views are temporary views of the session. Kept tables are Parquet files below `folder`."""

    spark: SparkSession
    home: HomeLayout
    folder: Path
    is_near: bool = False
    _numbers: Any = field(default_factory=count)

    def view(self, name: str, rows: TableRows) -> None:
        self._frame(rows).createOrReplaceTempView(name)

    def _frame(self, rows: TableRows) -> DataFrame:
        paths = [self.home.absolute(file) for file in rows.files]
        assert rows.kind == "files", "members are captured before Spark indexes them"
        if not paths:
            names = [bound_name(n) if rows.framed else f"h{n}" for n in range(len(rows.handles))]
            columns = ", ".join(["id BIGINT", *(f"{name} BIGINT" for name in names)])
            return self.spark.createDataFrame([], columns)
        frame = read_files(self.spark, paths)
        if rows.id is None:
            frame = self._with_positions(frame, paths)
        if rows.where is not None:
            frame = frame.filter(rows.where)
        identity = col("smoke_position" if rows.id is None else rows.id).alias("id")
        if rows.nested is not None:
            frame = frame.select(identity, F.explode(col(rows.nested)).alias("m"))
            handles = [col("m").getField(name).alias(f"h{index}") for index, name in enumerate(rows.handles)]
            return frame.select(col("id"), *handles)
        if rows.framed:
            place = col("smoke_position" if rows.id is None else rows.id)
            bounds = [(place + col(name)).alias(bound_name(n)) for n, name in enumerate(rows.handles)]
            return frame.select(identity, *bounds)
        handles = [col(name).alias(f"h{index}") for index, name in enumerate(rows.handles)]
        checked = [] if rows.check is None else [col(rows.check).alias("checked")]
        return frame.select(identity, *handles, *checked)

    def _with_positions(self, frame: DataFrame, paths: list[str]) -> DataFrame:
        files, base = [], 0
        for path in paths:
            rows = parquet_rows(path)
            files.append(VersionFile(path, 0, 0, "", rows, base, {}))
            base += rows
        from lineage_service.store.versions import VersionColumn

        columns = tuple(VersionColumn(name, "", name) for name in frame.columns)
        return rows_with_rids(frame, Version("", "output", tuple(files), columns), paths, "smoke_position")

    def number(self, query: str) -> float:
        with executing(None, "the index", self.home.path):
            row = self.spark.sql(query).first()
        return float(row[0]) if row and row[0] is not None else 0.0

    def keep(self, name: str, query: str) -> None:
        target = self.folder / f"kept{next(self._numbers)}"
        with executing(None, "the index", self.home.path):
            self.spark.sql(query).write.option("compression", "none").parquet(str(target))
            self.spark.read.parquet(str(target)).createOrReplaceTempView(name)

    def drop(self, name: str) -> None:
        self.spark.catalog.dropTempView(name)

    def write(self, pairs: str, direction: str, path: Path, bounds: object, *, distinct: bool) -> Path:
        _ = bounds
        frame = self.spark.sql(pairs)
        frame = frame.distinct() if distinct else frame
        order = ("a", "b") if direction == "backward" else ("b", "a")
        with executing(None, "the index", self.home.path):
            frame.select("a", "b").orderBy(*order).write.options(**SORTED).parquet(str(path))
        return path

    def write_rows(self, query: str, order: Sequence[str], path: Path) -> Path:
        options = {**SORTED, "parquet.enable.dictionary": "true"}
        with executing(None, "the index", self.home.path):
            self.spark.sql(query).orderBy(*order).write.options(**options).parquet(str(path))
        return path

    def kinds(self, query: str) -> dict[str, str]:
        fields = self.spark.sql(query).schema.fields
        return {each.name: duckdb_type(each.dataType.simpleString()) or "OTHER" for each in fields}

    def rows_of(self, space: Space, columns: Sequence[str] | None = None) -> str:
        raise AssertionError(f"rows of '{space}' ({columns}) are evaluated by Spark before it indexes them")

    def whole_sum(self, value: str) -> str:
        return f"CAST(sum(CAST({value} AS DECIMAL(38,0))) AS DECIMAL(38,0))"

    def fault(self, error: Exception) -> str | None:
        return error.problems[0].message if isinstance(error, RunError) else None

    def distinct_values(self, value: str) -> str:
        return f"collect_set({value})"
