"""A relation during lowering: a DataFrame of the user's columns, followed by handles."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from lineage_service.spark.capture_columns import field_types


@dataclass(frozen=True)
class Relation:
    """`columns` are the user's columns, in order. They are followed by `handles` id columns, numbered from 0."""

    frame: DataFrame
    columns: tuple[str, ...]
    handles: int

    def schema_types(self) -> list[tuple[str, str]]:
        """The user's columns with their Spark types."""
        types = field_types(self.frame, self.columns)
        return [(name, kind.simpleString()) for name, kind in zip(self.columns, types, strict=True)]
