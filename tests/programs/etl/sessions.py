"""Cuts the events of each user into sessions, which end after 30 minutes without an event."""

import sys

import pyspark.sql.functions as F
from pyspark.sql import SparkSession, Window

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
events = spark.read.parquet(f"{data}/events")
by_user = Window.partitionBy("user_id").orderBy("ts", "event_id")
marked = events.withColumn("before", F.lag("ts").over(by_user)).withColumn(
    "starts", (F.col("before").isNull() | ((F.col("ts") - F.col("before")) > 1800)).cast("int")
)
numbered = marked.withColumn("session", F.sum("starts").over(by_user))
sessions = numbered.groupBy("user_id", "session").agg(
    F.min("ts").alias("began"), F.max("ts").alias("ended"), F.count("*").alias("events")
)
sessions.write.mode("overwrite").partitionBy("user_id").parquet(f"{out}/sessions")
