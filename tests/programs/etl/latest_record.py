"""Keeps the latest record of each customer."""

import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.appName("latest").getOrCreate()
events = spark.read.parquet(f"{data}/events")
w = Window.partitionBy("user_id").orderBy(F.col("ts").desc(), F.col("event_id").desc())
latest = events.withColumn("rn", F.row_number().over(w)).filter(F.col("rn") == 1).drop("rn")
latest.write.mode("overwrite").parquet(f"{out}/latest")
