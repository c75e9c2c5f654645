import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.where("order_id < 3").write.parquet(f"{out}/growing")
frame = spark.read.parquet(f"{out}/growing")
print(frame.columns)
orders.where("order_id > 27").write.mode("append").parquet(f"{out}/growing")
frame.write.parquet(f"{out}/asked_before_append")
