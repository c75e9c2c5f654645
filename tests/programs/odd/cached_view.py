import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.withColumn("drawn", F.rand()).createOrReplaceTempView("drawn")
drawn = spark.table("drawn").cache()
smallest = drawn.agg(F.min("drawn")).first()[0]
spark.table("drawn").select("order_id", (F.col("drawn") < smallest).alias("is_less")).write.parquet(
    f"{out}/cached_view"
)
drawn.unpersist()
spark.catalog.dropTempView("drawn")
