"""Flattens nested JSON: one row for each line of an order."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
nested = spark.read.json(f"{data}/nested.json")
flat = nested.select("id", F.col("customer.name").alias("name"), F.explode("lines").alias("line")).select(
    "id", "name", "line.sku", (F.col("line.n") * 2).alias("twice")
)
flat.write.mode("overwrite").parquet(f"{out}/flat")
