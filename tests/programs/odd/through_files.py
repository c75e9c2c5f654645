import sys
from pyspark.sql import SparkSession, functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.groupBy("customer_id").agg(F.sum("amount").alias("total")).write.parquet(f"{out}/totals")
spark.read.parquet(f"{out}/totals").where("total > 20").write.parquet(f"{out}/large")
