import sys
from pyspark.sql import SparkSession, functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.withColumn("chance", F.rand()).select("order_id", "chance").write.parquet(f"{out}/by_chance")
