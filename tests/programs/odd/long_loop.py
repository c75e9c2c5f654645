import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
frame = spark.read.parquet(f"{data}/orders").select("order_id", "amount")
for number in range(100):
    frame = frame.withColumn(f"c{number}", F.col("amount") + number)
    frame = frame.drop(f"c{number - 1}")
frame.write.parquet(f"{out}/long_loop")
