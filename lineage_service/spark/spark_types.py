"""Spark types for modules outside of spark/ that pass Spark's values on. They import this module for annotations only,
so that Spark is not loaded before it is needed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

__all__ = ["DataFrame", "SparkSession", "StructType"]
