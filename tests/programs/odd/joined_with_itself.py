import sys
from pyspark.sql import SparkSession, functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
one, other = orders.alias("one"), orders.alias("other")
pairs = one.join(
    other, (F.col("one.customer_id") == F.col("other.customer_id")) & (F.col("one.order_id") < F.col("other.order_id"))
)
pairs = pairs.select(F.col("one.order_id").alias("first"), F.col("other.order_id").alias("second"))
pairs.sort("first", "second").write.parquet(f"{out}/joined_with_itself")
