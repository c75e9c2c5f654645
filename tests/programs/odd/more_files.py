import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
placed = orders.withColumn("place", F.row_number().over(Window.partitionBy("customer_id").orderBy("order_id")))
placed.repartition(5).write.parquet(f"{out}/more_files")
orders.repartition(4, "status").write.parquet(f"{out}/files_by_value")
orders.sortWithinPartitions("amount").write.parquet(f"{out}/sorted_files")
