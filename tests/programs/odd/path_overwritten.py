import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.limit(5).orderBy("order_id").write.parquet(f"{out}/changing")
frame = spark.read.parquet(f"{out}/changing")
orders.where("order_id < 3").write.mode("overwrite").parquet(f"{out}/changing")
frame.write.parquet(f"{out}/path_overwritten")
