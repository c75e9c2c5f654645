import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
drawn = spark.read.parquet(f"{data}/orders").withColumn("drawn", F.rand()).cache()
smallest = drawn.agg(F.min("drawn")).first()[0]
drawn.select("order_id", (F.col("drawn") < smallest).alias("is_less")).write.parquet(f"{out}/cached_by_chance")
