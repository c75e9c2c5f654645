"""Revenue by city and status."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
customers = spark.read.parquet(f"{data}/customers.parquet")
report = (
    orders.join(customers, "customer_id")
    .groupBy("city")
    .pivot("status", ["open", "paid"])
    .agg(F.sum("amount").alias("revenue"))
    .na.fill(0.0)
)
report.coalesce(1).write.mode("overwrite").parquet(f"{out}/report")
