import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(f"{data}/orders").where("order_id < 4").write.parquet(f"{out}/own_source")
frame = spark.read.parquet(f"{out}/own_source").withColumnRenamed("amount", "value").localCheckpoint()
frame.write.mode("overwrite").parquet(f"{out}/own_source")
