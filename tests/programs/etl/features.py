"""A feature table: one row for each customer, of orders and items."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
customers = spark.read.parquet(f"{data}/customers.parquet")
orders = spark.read.parquet(f"{data}/orders")
items = spark.read.json(f"{data}/items.json")

spent = items.groupBy("order_id").agg(F.sum(F.expr("quantity * price")).alias("value"))
features = (
    customers.join(orders, on="customer_id", how="left")
    .join(spent, on="order_id", how="left")
    .groupBy("customer_id")
    .agg(
        F.countDistinct("order_id").alias("orders"),
        F.round(F.coalesce(F.sum("value"), F.lit(0.0)), 2).alias("spent"),
        F.max("value").alias("largest"),
    )
    .withColumn("is_good", F.when(F.col("spent") > 100, "yes").otherwise("no"))
)
features.write.mode("overwrite").parquet(f"{out}/features")
