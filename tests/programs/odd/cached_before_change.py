import shutil
import sys

from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.where("order_id < 5").write.parquet(f"{out}/grown")
cached = spark.read.parquet(f"{out}/grown").cache()
print(cached.count())
shutil.copy(f"{data}/orders/part-0.parquet", f"{out}/grown/one_more.parquet")
spark.read.parquet(f"{out}/grown").write.parquet(f"{out}/cached_before_change")
cached.unpersist()
