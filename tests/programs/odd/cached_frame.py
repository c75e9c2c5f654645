import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders").where(F.col("amount") > 2).cache()
print(orders.count())
orders.groupBy("status").agg(F.count("*").alias("n")).write.parquet(f"{out}/cached_frame")
orders.unpersist()
