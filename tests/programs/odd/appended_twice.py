import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
for status in ("open", "paid"):
    orders.where(f"status = '{status}'").coalesce(1).write.mode("append").parquet(f"{out}/appended")
