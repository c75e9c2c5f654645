"""Orders without items, and items without an order."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
items = spark.read.json(f"{data}/items.json")
orders.join(items, "order_id", "left_anti").select("order_id", "customer_id").write.mode("overwrite").parquet(
    f"{out}/no_items"
)
lost = items.join(orders, ["order_id"], "anti")
lost.select("order_id", F.lit("no order").alias("reason")).write.mode("overwrite").parquet(f"{out}/no_order")
print("orders without items:", spark.read.parquet(f"{out}/no_items").count())
