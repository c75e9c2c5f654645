import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.select(F.col("order_id").alias("id", metadata={"comment": "of the order"})).write.parquet(f"{out}/commented")
print(spark.read.parquet(f"{out}/commented").schema["id"].metadata)
spark.read.parquet(f"{out}/commented").where("id > 3").write.parquet(f"{out}/still_commented")
print(spark.read.parquet(f"{out}/still_commented").schema["id"].metadata)
