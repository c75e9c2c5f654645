"""The one Spark session of an experiment: the product's own, so that everything compared runs in the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running_spark() -> Iterator[SparkSession]:
    """Spark as `Home.run` starts it (local[*], at most 8 GiB), stopped at the end."""
    from lineage_service.spark.spark_session import spark_session

    # Spark's Python workers import benchmarks.stores, wherever this process was started.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    spark = spark_session()
    try:
        yield spark
    finally:
        spark.stop()
