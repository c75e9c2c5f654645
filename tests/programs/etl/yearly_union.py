"""Puts the files of several years together."""

import sys
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
years = [
    spark.read.parquet(f"{data}/year_{year}.parquet").withColumn("year", F.lit(year)) for year in (2023, 2024, 2025)
]
together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), years)
together.write.mode("overwrite").parquet(f"{out}/years")
